"""The methods of the API that are emulated: their names in gRPC, their requests in REST, their functions.

Source: the `google.api.http` options of `job_service`, `pipeline_service`, `persistent_resource_service` and
`model_service` of `google/cloud/aiplatform/v1`, and of `google/longrunning/operations.proto`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from vtrain.emulator.vertex.training_service import TrainingService
from vtrain.emulator.vertex.vertex_call import Document, VertexCall
from vtrain.messages.names import (
    CUSTOM_JOBS,
    HYPERPARAMETER_TUNING_JOBS,
    MODELS,
    PERSISTENT_RESOURCES,
    TRAINING_PIPELINES,
)
from vtrain.messages.resources import RESOURCES

OPERATIONS = "operations"
WHOLE = "*"
"""The body is the request itself."""
EMPTY, OPERATION = "Empty", "Operation"


class Method(msgspec.Struct, frozen=True):
    """One method of a service.

    `of_one` says that it is about one resource, and not about a collection. `action` is the part of the path
    behind a colon. `body` is the field of the request that the body of REST holds, and `answer` the message
    of the answer. `fields` are those of the request beside `body` and the name or the parent.
    """

    rpc: str
    verb: str
    handler: Callable[[TrainingService, VertexCall], Document]
    answer: str
    of_one: bool = True
    action: str = ""
    body: str = ""
    fields: tuple[str, ...] = ()


_PAGE = ("pageSize", "pageToken")
_LIST = ("filter", *_PAGE, "readMask")


def _job_methods(collection: str) -> tuple[Method, ...]:
    noun, run = RESOURCES[collection].__name__, TrainingService
    field = noun[0].lower() + noun[1:]
    return (
        Method(f"Create{noun}", "POST", run.create_job, noun, of_one=False, body=field),
        Method(f"Get{noun}", "GET", run.get_job, noun),
        Method(f"List{noun}s", "GET", run.list_jobs, f"List{noun}sResponse", of_one=False, fields=_LIST),
        Method(f"Cancel{noun}", "POST", run.cancel_job, EMPTY, action="cancel", body=WHOLE),
        Method(f"Delete{noun}", "DELETE", run.delete_job, OPERATION),
    )


def _resource_methods() -> tuple[Method, ...]:
    noun, run = "PersistentResource", TrainingService
    return (
        Method(
            f"Create{noun}",
            "POST",
            run.create_resource,
            OPERATION,
            of_one=False,
            body="persistentResource",
            fields=("persistentResourceId",),
        ),
        Method(f"Get{noun}", "GET", run.get_resource, noun),
        Method(f"List{noun}s", "GET", run.list_resources, f"List{noun}sResponse", of_one=False, fields=_PAGE),
        Method(f"Delete{noun}", "DELETE", run.delete_resource, OPERATION),
        Method(f"Reboot{noun}", "POST", run.reboot_resource, OPERATION, action="reboot", body=WHOLE),
    )


def _model_methods() -> tuple[Method, ...]:
    run = TrainingService
    in_order = (*_LIST, "orderBy")
    return (
        Method(
            "UploadModel",
            "POST",
            run.upload_model,
            OPERATION,
            of_one=False,
            action="upload",
            body=WHOLE,
            fields=("parentModel", "modelId", "model", "serviceAccount"),
        ),
        Method(
            "CopyModel",
            "POST",
            run.copy_model,
            OPERATION,
            of_one=False,
            action="copy",
            body=WHOLE,
            fields=("modelId", "parentModel", "sourceModel", "encryptionSpec", "customServiceAccount"),
        ),
        Method("GetModel", "GET", run.get_model, "Model"),
        Method("ListModels", "GET", run.list_models, "ListModelsResponse", of_one=False, fields=in_order),
        Method(
            "ListModelVersions",
            "GET",
            run.list_model_versions,
            "ListModelVersionsResponse",
            action="listVersions",
            fields=in_order,
        ),
        Method("UpdateModel", "PATCH", run.update_model, "Model", body="model", fields=("updateMask",)),
        Method(
            "MergeVersionAliases",
            "POST",
            run.merge_version_aliases,
            "Model",
            action="mergeVersionAliases",
            body=WHOLE,
            fields=("versionAliases",),
        ),
        Method("DeleteModel", "DELETE", run.delete_model, OPERATION),
        Method("DeleteModelVersion", "DELETE", run.delete_model_version, OPERATION, action="deleteVersion"),
    )


def _operation_methods() -> tuple[Method, ...]:
    run = TrainingService
    return (
        Method("GetOperation", "GET", run.get_operation, OPERATION),
        Method(
            "ListOperations",
            "GET",
            run.list_operations,
            "ListOperationsResponse",
            of_one=False,
            fields=("filter", *_PAGE, "returnPartialSuccess"),
        ),
        Method(
            "WaitOperation",
            "POST",
            run.get_operation,
            OPERATION,
            action="wait",
            body=WHOLE,
            fields=("timeout",),
        ),
        Method("CancelOperation", "POST", run.end_operation, EMPTY, action="cancel", body=WHOLE),
        Method("DeleteOperation", "DELETE", run.end_operation, EMPTY),
    )


METHODS: dict[str, tuple[Method, ...]] = {
    CUSTOM_JOBS: _job_methods(CUSTOM_JOBS),
    HYPERPARAMETER_TUNING_JOBS: _job_methods(HYPERPARAMETER_TUNING_JOBS),
    TRAINING_PIPELINES: _job_methods(TRAINING_PIPELINES),
    PERSISTENT_RESOURCES: _resource_methods(),
    MODELS: _model_methods(),
    OPERATIONS: _operation_methods(),
}
"""The methods by the collection that they are about."""
SERVICES = {
    "google.cloud.aiplatform.{version}.JobService": (CUSTOM_JOBS, HYPERPARAMETER_TUNING_JOBS),
    "google.cloud.aiplatform.{version}.PipelineService": (TRAINING_PIPELINES,),
    "google.cloud.aiplatform.{version}.PersistentResourceService": (PERSISTENT_RESOURCES,),
    "google.cloud.aiplatform.{version}.ModelService": (MODELS,),
    "google.longrunning.Operations": (OPERATIONS,),
}
"""The services of gRPC, and the collections of each."""


def find_method(verb: str, collection: str, *, of_one: bool, action: str) -> Method | None:
    """The method of a request of REST; None where it is not emulated."""
    for method in METHODS.get(collection, ()):
        if (method.verb, method.of_one, method.action) == (verb, of_one, action):
            return method
    return None
