"""BatchPredictionJob (`google/cloud/aiplatform/v1/batch_prediction_job.proto`)."""

from typing import Any, ClassVar

from vtrain.messages.custom_job import JobState, MachineSpec
from vtrain.messages.structs import EncryptionSpec, GcsDestination, Int64, Message, Resource, Status, Value
from vtrain.messages.training_pipeline import BigQueryDestination

Document = dict[str, Any]


class GcsSource(Message, frozen=True):
    uris: tuple[str, ...] = ()


class BigQuerySource(Message, frozen=True):
    input_uri: str = ""


class InputConfig(Message, frozen=True):
    gcs_source: GcsSource | None = None
    bigquery_source: BigQuerySource | None = None
    vertex_multimodal_dataset_source: Document | None = None
    instances_format: str = ""


class InstanceConfig(Message, frozen=True):
    """The form of the instances that the model gets of the lines of the input."""

    instance_type: str = ""
    key_field: str = ""
    included_fields: tuple[str, ...] = ()
    excluded_fields: tuple[str, ...] = ()


class OutputConfig(Message, frozen=True):
    gcs_destination: GcsDestination | None = None
    bigquery_destination: BigQueryDestination | None = None
    vertex_multimodal_dataset_destination: Document | None = None
    predictions_format: str = ""


class BatchDedicatedResources(Message, frozen=True):
    machine_spec: MachineSpec | None = None
    starting_replica_count: int = 0
    max_replica_count: int = 0


class ManualBatchTuningParameters(Message, frozen=True):
    batch_size: int = 0


class OutputInfo(Message, frozen=True):
    gcs_output_directory: str = ""
    bigquery_output_dataset: str = ""
    vertex_multimodal_dataset_name: str = ""
    bigquery_output_table: str = ""


class CompletionStats(Message, frozen=True):
    successful_count: Int64 = 0
    failed_count: Int64 = 0
    incomplete_count: Int64 = 0
    successful_forecast_point_count: Int64 = 0


class BatchPredictionJob(Resource, frozen=True):
    """Predictions for all instances in files, written to files."""

    output_fields: ClassVar[frozenset[str]] = Resource.output_fields | {
        "outputInfo",
        "partialFailures",
        "resourcesConsumed",
        "completionStats",
    }
    name: str = ""
    display_name: str = ""
    model: str = ""
    model_version_id: str = ""
    unmanaged_container_model: Document | None = None
    input_config: InputConfig | None = None
    instance_config: InstanceConfig | None = None
    model_parameters: Value = None
    output_config: OutputConfig | None = None
    dedicated_resources: BatchDedicatedResources | None = None
    service_account: str = ""
    manual_batch_tuning_parameters: ManualBatchTuningParameters | None = None
    generate_explanation: bool = False
    explanation_spec: Document | None = None
    output_info: OutputInfo | None = None
    state: JobState = ""
    error: Status | None = None
    partial_failures: tuple[Status, ...] = ()
    resources_consumed: Document | None = None
    completion_stats: CompletionStats | None = None
    create_time: str = ""
    start_time: str = ""
    end_time: str = ""
    update_time: str = ""
    labels: dict[str, str] = {}
    encryption_spec: EncryptionSpec | None = None
    disable_container_logging: bool = False
    satisfies_pzs: bool = False
    satisfies_pzi: bool = False
