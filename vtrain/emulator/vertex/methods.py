"""The methods of the API that are emulated: their names in gRPC, their requests in REST, their functions.

Source: the `google.api.http` options of `job_service`, `pipeline_service`, `persistent_resource_service`,
`model_service`, `endpoint_service`, `prediction_service`, `tensorboard_service`, `dataset_service` and
`metadata_service` of `google/cloud/aiplatform/v1`, and of `google/longrunning/operations.proto`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from vtrain.emulator.vertex.batch_predictions import BatchPredictions
from vtrain.emulator.vertex.documents import EMULATED
from vtrain.emulator.vertex.endpoints import Endpoints
from vtrain.emulator.vertex.ml_metadata import MlMetadata, Nodes
from vtrain.emulator.vertex.stored_resources import StoredResources
from vtrain.emulator.vertex.training_service import TrainingService
from vtrain.emulator.vertex.vertex_call import Document, VertexCall
from vtrain.messages.names import (
    ARTIFACTS,
    BATCH_PREDICTION_JOBS,
    CONTEXTS,
    CUSTOM_JOBS,
    DATASETS,
    ENDPOINTS,
    EXECUTIONS,
    HYPERPARAMETER_TUNING_JOBS,
    METADATA_STORES,
    MODELS,
    PERSISTENT_RESOURCES,
    TENSORBOARDS,
    TRAINING_PIPELINES,
)

OPERATIONS = "operations"
WHOLE = "*"
"""The body is the request itself."""
EMPTY, OPERATION = "Empty", "Operation"


P = TypeVar("P")
Handler = Callable[[TrainingService, VertexCall], Document]


class Method(msgspec.Struct, frozen=True):
    """One method of a service.

    `path` is that of REST behind the collection: `*` for one resource of it, and an action behind a colon.
    `body` is the field of the request that the body of REST holds, and `answer` the message of the answer.
    `fields` are those of the request beside `body` and the name or the parent. `named` is the field of gRPC's
    request with the resource's name.
    """

    rpc: str
    verb: str
    path: str
    handler: Handler
    answer: str
    body: str = ""
    fields: tuple[str, ...] = ()
    named: str = "name"

    @property
    def of_one(self) -> bool:
        """Whether it is about one resource, and not about a collection."""
        return self.path.startswith("*")


_PAGE = ("pageSize", "pageToken")
_LIST = ("filter", *_PAGE, "readMask")
_IN_ORDER = (*_LIST, "orderBy")
_FOUND = ("filter", *_PAGE, "orderBy")
_UPLOAD = ("parentModel", "modelId", "model", "serviceAccount")
_COPY = ("modelId", "parentModel", "sourceModel", "encryptionSpec", "customServiceAccount")
_OPERATIONS = ("filter", *_PAGE, "returnPartialSuccess")
_RUN = TrainingService


def _part(choose: Callable[[TrainingService], P], handler: Callable[[P, VertexCall], Document]) -> Handler:
    """A handler that is a method of a part of the service."""
    return lambda service, call: handler(choose(service), call)


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
    _part(lambda service: service.batch_predictions, handler)
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
    return _part(lambda service: service.endpoints, handler)


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
)


def _kept_methods(
    noun: str,
    part: Callable[[TrainingService], StoredResources[Any]],
    *,
    created: tuple[str, ...] = (),
    reads: tuple[str, ...] = (),
    lists: tuple[str, ...] = _IN_ORDER,
    is_slow: bool = True,
    delete: Method | None = None,
) -> tuple[Method, ...]:
    """The methods of resources that are only kept: their creation, a get, a list, and their removal.

    `created`, `reads` and `lists` are fields of the requests. With `is_slow` a creation is an operation.
    """
    field = noun[0].lower() + noun[1:]
    create = StoredResources.create if is_slow else StoredResources.create_at_once
    plural = noun if noun.endswith("s") else f"{noun}s"
    return (
        Method(
            f"Create{noun}", "POST", "", _part(part, create), OPERATION if is_slow else noun, field, created
        ),
        Method(f"Get{noun}", "GET", "*", _part(part, StoredResources.get), noun, fields=reads),
        Method(
            f"List{plural}",
            "GET",
            "",
            _part(part, StoredResources.list_page),
            f"List{plural}Response",
            fields=lists,
        ),
        delete or Method(f"Delete{noun}", "DELETE", "*", _part(part, StoredResources.delete), OPERATION),
    )


def _update(noun: str, handler: Handler, answer: str, *more: str) -> Method:
    field = noun[0].lower() + noun[1:]
    return Method(f"Update{noun}", "PATCH", "*", handler, answer, field, ("updateMask", *more))


_TENSORBOARD_METHODS = (
    *_kept_methods("Tensorboard", lambda service: service.tensorboards),
    _update(
        "Tensorboard", _part(lambda service: service.tensorboards, StoredResources.update_slowly), OPERATION
    ),
)
_DATASET_METHODS = (
    *_kept_methods("Dataset", lambda service: service.datasets, reads=("readMask",)),
    _update("Dataset", _part(lambda service: service.datasets, StoredResources.update), "Dataset"),
    Method(
        "ImportData",
        "POST",
        "*:import",
        _part(lambda service: service.datasets, StoredResources.import_data),
        OPERATION,
        WHOLE,
        ("importConfigs",),
    ),
)


def _of_metadata(handler: Callable[[MlMetadata, VertexCall], Document]) -> Handler:
    return _part(lambda service: service.metadata, handler)


def _node_methods(
    noun: str, part: Callable[[TrainingService], Nodes[Any]], delete: Handler, *deleted: str
) -> tuple[Method, ...]:
    """The methods of contexts, executions or artifacts; `deleted` are fields of a removal."""
    named = f"{noun.lower()}Id"
    removal = Method(f"Delete{noun}", "DELETE", "*", delete, OPERATION, fields=("etag", *deleted))
    return (
        *_kept_methods(noun, part, created=(named,), lists=_FOUND, is_slow=False, delete=removal),
        _update(noun, _part(part, Nodes.update), noun, "allowMissing"),
    )


def _query(rpc: str, handler: Handler, named: str, *more: str) -> Method:
    action = rpc[0].lower() + rpc[1:]
    return Method(rpc, "GET", f"*:{action}", handler, "LineageSubgraph", fields=more, named=named)


def _addition(rpc: str, handler: Handler, named: str, *more: str) -> Method:
    action = rpc[0].lower() + rpc[1:]
    return Method(rpc, "POST", f"*:{action}", handler, f"{rpc}Response", WHOLE, more, named)


_STORE_METHODS = tuple(
    msgspec.structs.replace(method, fields=("force",)) if method.verb == "DELETE" else method
    for method in _kept_methods(
        "MetadataStore", lambda service: service.metadata.stores, created=("metadataStoreId",), lists=_PAGE
    )
)
_CONTEXT_METHODS = (
    *_node_methods(
        "Context",
        lambda service: service.metadata.contexts,
        _of_metadata(MlMetadata.delete_context),
        "force",
    ),
    _addition(
        "AddContextArtifactsAndExecutions",
        _of_metadata(MlMetadata.add_members),
        "context",
        "artifacts",
        "executions",
    ),
    _addition("AddContextChildren", _of_metadata(MlMetadata.add_children), "context", "childContexts"),
    _addition("RemoveContextChildren", _of_metadata(MlMetadata.remove_children), "context", "childContexts"),
    _query("QueryContextLineageSubgraph", _of_metadata(MlMetadata.query_context), "context"),
)
_EXECUTION_METHODS = (
    *_node_methods(
        "Execution",
        lambda service: service.metadata.executions,
        _of_metadata(MlMetadata.delete_execution),
    ),
    _addition("AddExecutionEvents", _of_metadata(MlMetadata.add_events), "execution", "events"),
    _query("QueryExecutionInputsAndOutputs", _of_metadata(MlMetadata.query_inputs_and_outputs), "execution"),
)
_ARTIFACT_METHODS = (
    *_node_methods(
        "Artifact", lambda service: service.metadata.artifacts, _of_metadata(MlMetadata.delete_artifact)
    ),
    _query(
        "QueryArtifactLineageSubgraph",
        _of_metadata(MlMetadata.query_artifact),
        "artifact",
        "maxHops",
        "filter",
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
    TENSORBOARDS: _TENSORBOARD_METHODS,
    DATASETS: _DATASET_METHODS,
    METADATA_STORES: _STORE_METHODS,
    CONTEXTS: _CONTEXT_METHODS,
    EXECUTIONS: _EXECUTION_METHODS,
    ARTIFACTS: _ARTIFACT_METHODS,
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
    "google.cloud.aiplatform.{version}.TensorboardService": _TENSORBOARD_METHODS,
    "google.cloud.aiplatform.{version}.DatasetService": _DATASET_METHODS,
    "google.cloud.aiplatform.{version}.MetadataService": _STORE_METHODS
    + _CONTEXT_METHODS
    + _EXECUTION_METHODS
    + _ARTIFACT_METHODS,
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
