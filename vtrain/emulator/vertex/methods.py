"""The methods of the API that are emulated: their names in gRPC, their requests in REST, their functions.

Source: the `google.api.http` options of `job_service`, `pipeline_service`, `persistent_resource_service`,
`model_service`, `endpoint_service`, `prediction_service`, `tensorboard_service`, `dataset_service` and
`metadata_service` of `google/cloud/aiplatform/v1`, and of `google/longrunning/operations.proto`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vtrain.emulator.vertex.batch_predictions import BatchPredictions
from vtrain.emulator.vertex.documents import EMULATED
from vtrain.emulator.vertex.endpoints import Endpoints
from vtrain.emulator.vertex.kept_methods import (
    ARTIFACT_METHODS,
    CONTEXT_METHODS,
    DATASET_METHODS,
    EXECUTION_METHODS,
    SCHEMA_METHODS,
    STORE_METHODS,
    TENSORBOARD_EXPERIMENT_METHODS,
    TENSORBOARD_METHODS,
    TENSORBOARD_RUN_METHODS,
    TIME_SERIES_METHODS,
)
from vtrain.emulator.vertex.training_service import TrainingService
from vtrain.emulator.vertex.vertex_call import (
    EMPTY,
    HTTP_BODY,
    OPERATION,
    WHOLE,
    Document,
    Handler,
    Method,
    VertexCall,
    of_part,
)
from vtrain.messages.names import (
    ARTIFACTS,
    BATCH_PREDICTION_JOBS,
    CONTEXTS,
    CUSTOM_JOBS,
    DATASETS,
    ENDPOINTS,
    EXECUTIONS,
    HYPERPARAMETER_TUNING_JOBS,
    METADATA_SCHEMAS,
    METADATA_STORES,
    MODELS,
    PERSISTENT_RESOURCES,
    TENSORBOARD_EXPERIMENTS,
    TENSORBOARD_RUNS,
    TENSORBOARDS,
    TIME_SERIES,
    TRAINING_PIPELINES,
)

OPERATIONS = "operations"
_PAGE = ("pageSize", "pageToken")
_LIST = ("filter", *_PAGE, "readMask")
_IN_ORDER = (*_LIST, "orderBy")
_UPLOAD = ("parentModel", "modelId", "model", "serviceAccount")
_COPY = ("modelId", "parentModel", "sourceModel", "encryptionSpec", "customServiceAccount")
_OPERATIONS = ("filter", *_PAGE, "returnPartialSuccess")
_RUN = TrainingService


def _job_methods(collection: str, handlers: tuple[Handler, ...]) -> tuple[Method, ...]:
    noun = EMULATED[collection].__name__
    field = noun[0].lower() + noun[1:]
    create, get, find, cancel, delete = handlers
    return (
        Method(f"Create{noun}", "POST", "", create, noun, field),
        Method(f"Get{noun}", "GET", "*", get, noun),
        Method(f"List{noun}s", "GET", "", find, f"List{noun}sResponse", fields=_LIST),
        Method(f"Cancel{noun}", "POST", "*:cancel", cancel, EMPTY, WHOLE),
        Method(f"Delete{noun}", "DELETE", "*", delete, OPERATION),
    )


_JOBS = (_RUN.create_job, _RUN.get_job, _RUN.list_jobs, _RUN.cancel_job, _RUN.delete_job)
_BATCHES = tuple(
    of_part(lambda service: service.batch_predictions, handler)
    for handler in (
        BatchPredictions.create_job,
        BatchPredictions.get_job,
        BatchPredictions.list_jobs,
        BatchPredictions.cancel_job,
        BatchPredictions.delete_job,
    )
)


_RESOURCE_METHODS = (
    Method(
        "CreatePersistentResource",
        "POST",
        "",
        _RUN.create_resource,
        OPERATION,
        "persistentResource",
        ("persistentResourceId",),
    ),
    Method("GetPersistentResource", "GET", "*", _RUN.get_resource, "PersistentResource"),
    Method(
        "ListPersistentResources",
        "GET",
        "",
        _RUN.list_resources,
        "ListPersistentResourcesResponse",
        fields=_PAGE,
    ),
    Method("DeletePersistentResource", "DELETE", "*", _RUN.delete_resource, OPERATION),
    Method("RebootPersistentResource", "POST", "*:reboot", _RUN.reboot_resource, OPERATION, WHOLE),
)
_MODEL_METHODS = (
    Method("UploadModel", "POST", ":upload", _RUN.upload_model, OPERATION, WHOLE, _UPLOAD),
    Method("CopyModel", "POST", ":copy", _RUN.copy_model, OPERATION, WHOLE, _COPY),
    Method("GetModel", "GET", "*", _RUN.get_model, "Model"),
    Method("ListModels", "GET", "", _RUN.list_models, "ListModelsResponse", fields=_IN_ORDER),
    Method(
        "ListModelVersions",
        "GET",
        "*:listVersions",
        _RUN.list_model_versions,
        "ListModelVersionsResponse",
        fields=_IN_ORDER,
    ),
    Method("UpdateModel", "PATCH", "*", _RUN.update_model, "Model", "model", ("updateMask",)),
    Method(
        "MergeVersionAliases",
        "POST",
        "*:mergeVersionAliases",
        _RUN.merge_version_aliases,
        "Model",
        WHOLE,
        ("versionAliases",),
    ),
    Method("DeleteModel", "DELETE", "*", _RUN.delete_model, OPERATION),
    Method("DeleteModelVersion", "DELETE", "*:deleteVersion", _RUN.delete_model_version, OPERATION),
)


def _of_endpoints(handler: Callable[[Endpoints, VertexCall], Document]) -> Handler:
    return of_part(lambda service: service.endpoints, handler)


_ENDPOINT_METHODS = (
    Method(
        "CreateEndpoint",
        "POST",
        "",
        _of_endpoints(Endpoints.create_endpoint),
        OPERATION,
        "endpoint",
        ("endpointId",),
    ),
    Method("GetEndpoint", "GET", "*", _of_endpoints(Endpoints.get_endpoint), "Endpoint"),
    Method(
        "ListEndpoints",
        "GET",
        "",
        _of_endpoints(Endpoints.list_endpoints),
        "ListEndpointsResponse",
        fields=_IN_ORDER,
    ),
    Method(
        "UpdateEndpoint",
        "PATCH",
        "*",
        _of_endpoints(Endpoints.update_endpoint),
        "Endpoint",
        "endpoint",
        ("updateMask",),
    ),
    Method("DeleteEndpoint", "DELETE", "*", _of_endpoints(Endpoints.delete_endpoint), OPERATION),
    Method(
        "DeployModel",
        "POST",
        "*:deployModel",
        _of_endpoints(Endpoints.deploy_model),
        OPERATION,
        WHOLE,
        ("deployedModel", "trafficSplit"),
        named="endpoint",
    ),
    Method(
        "UndeployModel",
        "POST",
        "*:undeployModel",
        _of_endpoints(Endpoints.undeploy_model),
        OPERATION,
        WHOLE,
        ("deployedModelId", "trafficSplit"),
        named="endpoint",
    ),
    Method(
        "MutateDeployedModel",
        "POST",
        "*:mutateDeployedModel",
        _of_endpoints(Endpoints.mutate_deployed_model),
        OPERATION,
        WHOLE,
        ("deployedModel", "updateMask"),
        named="endpoint",
    ),
)
_PREDICTION_METHODS = (
    Method(
        "Predict",
        "POST",
        "*:predict",
        _of_endpoints(Endpoints.predict),
        "PredictResponse",
        WHOLE,
        ("instances", "parameters", "labels"),
        named="endpoint",
    ),
    Method(
        "RawPredict",
        "POST",
        "*:rawPredict",
        _of_endpoints(Endpoints.raw_predict),
        HTTP_BODY,
        WHOLE,
        ("httpBody",),
        named="endpoint",
    ),
)


_OPERATION_METHODS = (
    Method("GetOperation", "GET", "*", _RUN.get_operation, OPERATION),
    Method("ListOperations", "GET", "", _RUN.list_operations, "ListOperationsResponse", fields=_OPERATIONS),
    Method("WaitOperation", "POST", "*:wait", _RUN.wait_operation, OPERATION, WHOLE, ("timeout",)),
    Method("CancelOperation", "POST", "*:cancel", _RUN.end_operation, EMPTY, WHOLE),
    Method("DeleteOperation", "DELETE", "*", _RUN.end_operation, EMPTY),
)

METHODS: dict[str, tuple[Method, ...]] = {
    CUSTOM_JOBS: _job_methods(CUSTOM_JOBS, _JOBS),
    HYPERPARAMETER_TUNING_JOBS: _job_methods(HYPERPARAMETER_TUNING_JOBS, _JOBS),
    TRAINING_PIPELINES: _job_methods(TRAINING_PIPELINES, _JOBS),
    PERSISTENT_RESOURCES: _RESOURCE_METHODS,
    MODELS: _MODEL_METHODS,
    BATCH_PREDICTION_JOBS: _job_methods(BATCH_PREDICTION_JOBS, _BATCHES),
    ENDPOINTS: _ENDPOINT_METHODS + _PREDICTION_METHODS,
    TENSORBOARDS: TENSORBOARD_METHODS,
    TENSORBOARD_EXPERIMENTS: TENSORBOARD_EXPERIMENT_METHODS,
    TENSORBOARD_RUNS: TENSORBOARD_RUN_METHODS,
    TIME_SERIES: TIME_SERIES_METHODS,
    DATASETS: DATASET_METHODS,
    METADATA_STORES: STORE_METHODS,
    CONTEXTS: CONTEXT_METHODS,
    EXECUTIONS: EXECUTION_METHODS,
    ARTIFACTS: ARTIFACT_METHODS,
    METADATA_SCHEMAS: SCHEMA_METHODS,
    OPERATIONS: _OPERATION_METHODS,
}
"""The methods by the collection that they are about."""
SERVICES = {
    "google.cloud.aiplatform.{version}.JobService": METHODS[CUSTOM_JOBS]
    + METHODS[HYPERPARAMETER_TUNING_JOBS]
    + METHODS[BATCH_PREDICTION_JOBS],
    "google.cloud.aiplatform.{version}.PipelineService": METHODS[TRAINING_PIPELINES],
    "google.cloud.aiplatform.{version}.PersistentResourceService": _RESOURCE_METHODS,
    "google.cloud.aiplatform.{version}.ModelService": _MODEL_METHODS,
    "google.cloud.aiplatform.{version}.EndpointService": _ENDPOINT_METHODS,
    "google.cloud.aiplatform.{version}.PredictionService": _PREDICTION_METHODS,
    "google.cloud.aiplatform.{version}.TensorboardService": TENSORBOARD_METHODS
    + TENSORBOARD_EXPERIMENT_METHODS
    + TENSORBOARD_RUN_METHODS
    + TIME_SERIES_METHODS,
    "google.cloud.aiplatform.{version}.DatasetService": DATASET_METHODS,
    "google.cloud.aiplatform.{version}.MetadataService": STORE_METHODS
    + CONTEXT_METHODS
    + EXECUTION_METHODS
    + ARTIFACT_METHODS
    + SCHEMA_METHODS,
    "google.longrunning.Operations": _OPERATION_METHODS,
}
"""The services of gRPC, and the methods of each."""


def pattern_of(parts: Sequence[str]) -> str:
    """The collection of a path below a location, with `*` for ids of parents: `metadataStores/*/contexts`.

    Every resource has operations, which are one collection.
    """
    if parts and parts[-1] == OPERATIONS:
        return OPERATIONS
    return "/".join("*" if index % 2 else part for index, part in enumerate(parts))


def find_method(verb: str, parts: Sequence[str], *, of_one: bool, action: str) -> Method | None:
    """The method of a request of REST; None where it is not emulated."""
    path = ("*" if of_one else "") + (f":{action}" if action else "")
    methods = METHODS.get(pattern_of(parts), ())
    return next((method for method in methods if (method.verb, method.path) == (verb, path)), None)
