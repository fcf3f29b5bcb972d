"""TrainingPipeline (`google/cloud/aiplatform/v1/training_pipeline.proto`).

Task inputs and task metadata stay free documents.
"""

from typing import Annotated

from vtrain.messages.model import Model
from vtrain.messages.structs import EncryptionSpec, GcsDestination, Message, Resource, Status, Value, enum

PipelineState = Annotated[
    str,
    enum(
        "UNSPECIFIED QUEUED PENDING RUNNING SUCCEEDED FAILED CANCELLING CANCELLED PAUSED",
        "PIPELINE_STATE_",
        is_open=True,
    ),
]


class FractionSplit(Message, frozen=True):
    training_fraction: float = 0.0
    validation_fraction: float = 0.0
    test_fraction: float = 0.0


class FilterSplit(Message, frozen=True):
    training_filter: str = ""
    validation_filter: str = ""
    test_filter: str = ""


class PredefinedSplit(Message, frozen=True):
    key: str = ""


class TimestampSplit(Message, frozen=True):
    training_fraction: float = 0.0
    validation_fraction: float = 0.0
    test_fraction: float = 0.0
    key: str = ""


class StratifiedSplit(Message, frozen=True):
    training_fraction: float = 0.0
    validation_fraction: float = 0.0
    test_fraction: float = 0.0
    key: str = ""


class BigQueryDestination(Message, frozen=True):
    output_uri: str = ""


class InputDataConfig(Message, frozen=True):
    fraction_split: FractionSplit | None = None
    filter_split: FilterSplit | None = None
    predefined_split: PredefinedSplit | None = None
    timestamp_split: TimestampSplit | None = None
    stratified_split: StratifiedSplit | None = None
    gcs_destination: GcsDestination | None = None
    bigquery_destination: BigQueryDestination | None = None
    dataset_id: str = ""
    annotations_filter: str = ""
    annotation_schema_uri: str = ""
    saved_query_id: str = ""
    persist_ml_use_assignment: bool = False


class TrainingPipeline(Resource, frozen=True):
    """A training task, with a dataset before it or a model after it."""

    name: str = ""
    display_name: str = ""
    input_data_config: InputDataConfig | None = None
    training_task_definition: str = ""
    training_task_inputs: Value = None
    training_task_metadata: Value = None
    model_to_upload: Model | None = None
    model_id: str = ""
    parent_model: str = ""
    state: PipelineState = ""
    error: Status | None = None
    create_time: str = ""
    start_time: str = ""
    end_time: str = ""
    update_time: str = ""
    labels: dict[str, str] = {}
    encryption_spec: EncryptionSpec | None = None
