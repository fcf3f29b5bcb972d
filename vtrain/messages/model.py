"""Model (`google/cloud/aiplatform/v1/model.proto`).

Explanations, exports and what only Vertex AI makes of a model stay free documents.
"""

from typing import Annotated, Any, ClassVar

import msgspec

from vtrain.messages.custom_job import EnvVar
from vtrain.messages.structs import Duration, EncryptionSpec, Int64, Message, Resource, Value, enum

ModelSourceType = Annotated[
    str,
    enum(
        "MODEL_SOURCE_TYPE_UNSPECIFIED AUTOML CUSTOM BQML MODEL_GARDEN GENIE CUSTOM_TEXT_EMBEDDING "
        "MARKETPLACE",
        is_open=True,
    ),
]
DeploymentResourcesType = Annotated[
    str,
    enum(
        "DEPLOYMENT_RESOURCES_TYPE_UNSPECIFIED DEDICATED_RESOURCES AUTOMATIC_RESOURCES SHARED_RESOURCES",
        is_open=True,
    ),
]

Document = dict[str, Any]


class Port(Message, frozen=True):
    container_port: int = 0


class Probe(Message, frozen=True):
    """A question to a container: whether it has started, or is well."""

    exec: Document | None = None
    http_get: Document | None = None
    grpc: Document | None = None
    tcp_socket: Document | None = None
    period_seconds: int = 0
    timeout_seconds: int = 0
    failure_threshold: int = 0
    success_threshold: int = 0
    initial_delay_seconds: int = 0


class ModelContainerSpec(Message, frozen=True):
    """The container that answers predictions. It listens on the first of `ports`, by default 8080."""

    image_uri: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    ports: tuple[Port, ...] = ()
    predict_route: str = ""
    health_route: str = ""
    invoke_route_prefix: str = ""
    grpc_ports: tuple[Port, ...] = ()
    deployment_timeout: Duration = ""
    shared_memory_size_mb: Int64 = 0
    startup_probe: Probe | None = None
    health_probe: Probe | None = None
    liveness_probe: Probe | None = None


class PredictSchemata(Message, frozen=True):
    instance_schema_uri: str = ""
    parameters_schema_uri: str = ""
    prediction_schema_uri: str = ""


class ModelSourceInfo(Message, frozen=True):
    source_type: ModelSourceType = ""
    copy: bool = False


class OriginalModelInfo(Message, frozen=True):
    model: str = ""


class Model(Resource, frozen=True):
    """One version of a trained model, and the container that serves it."""

    output_fields: ClassVar[frozenset[str]] = frozenset(
        "name versionId versionCreateTime versionUpdateTime supportedExportFormats trainingPipeline "
        "supportedDeploymentResourcesTypes supportedInputStorageFormats supportedOutputStorageFormats "
        "createTime updateTime deployedModels modelSourceInfo originalModelInfo metadataArtifact "
        "satisfiesPzs satisfiesPzi".split()
    )
    name: str = ""
    version_id: str = ""
    version_aliases: tuple[str, ...] = ()
    version_create_time: str = ""
    version_update_time: str = ""
    display_name: str = ""
    description: str = ""
    version_description: str = ""
    default_checkpoint_id: str = ""
    predict_schemata: PredictSchemata | None = None
    metadata_schema_uri: str = ""
    metadata: Value = None
    supported_export_formats: tuple[Document, ...] = ()
    training_pipeline: str = ""
    pipeline_job: str = ""
    container_spec: ModelContainerSpec | None = None
    artifact_uri: str = ""
    supported_deployment_resources_types: tuple[DeploymentResourcesType, ...] = ()
    supported_input_storage_formats: tuple[str, ...] = ()
    supported_output_storage_formats: tuple[str, ...] = ()
    create_time: str = ""
    update_time: str = ""
    deployed_models: tuple[Document, ...] = ()
    explanation_spec: Document | None = None
    etag: str = ""
    labels: dict[str, str] = {}
    data_stats: Document | None = None
    encryption_spec: EncryptionSpec | None = None
    model_source_info: ModelSourceInfo | None = None
    original_model_info: OriginalModelInfo | None = None
    metadata_artifact: str = ""
    base_model_source: Document | None = None
    satisfies_pzs: bool = False
    satisfies_pzi: bool = False
    checkpoints: tuple[Document, ...] = ()


class ModelTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a new version: in `parent`, a model by its full name, or in a new model.

    `model_id` is that of the new model; without one the registry chooses.
    """

    model_id: str = ""
    parent: str = ""


class ModelPage(msgspec.Struct, frozen=True, kw_only=True):
    """Models or versions of one, and the token of the next page (empty: this was the last).

    `damaged` names the versions whose stored entry cannot be read.
    """

    models: tuple[Model, ...]
    next_page_token: str = ""
    damaged: tuple[str, ...] = ()
