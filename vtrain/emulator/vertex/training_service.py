"""Carries out the requests of the API: each is translated to the backends of this machine, and nothing else.

Every project is the project `local` of this machine; in answers names have the project that the client used.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from vtrain.backends import Query
from vtrain.backends.job_storage import GS
from vtrain.backends.pager import all_jobs
from vtrain.emulator.clients import Calls
from vtrain.emulator.vertex.documents import read_body, read_request, with_project
from vtrain.emulator.vertex.methods import part_of
from vtrain.emulator.vertex.open_backends import OpenBackends
from vtrain.emulator.vertex.operations import LONGEST_WAIT, Operations
from vtrain.emulator.vertex.resource_files import EVERYWHERE, REGION
from vtrain.emulator.vertex.resource_listing import LARGEST_PAGE, list_all, list_page
from vtrain.emulator.vertex.vertex_call import (
    EMPTY,
    LIST,
    OPERATION,
    OPERATIONS,
    PAGE,
    WHOLE,
    Document,
    Method,
    Services,
    VertexCall,
    job_methods,
)
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal, invalid, refusal_of
from vtrain.errors import ConflictError, FieldError, NotFoundError, VtrainError
from vtrain.messages.codec import snake_case, to_document
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.model import Model, ModelTarget
from vtrain.messages.names import (
    CUSTOM_JOBS,
    DATASETS,
    DEFAULT_REGION,
    ENDPOINTS,
    HYPERPARAMETER_TUNING_JOBS,
    LOCAL_PROJECT,
    MODELS,
    PERSISTENT_RESOURCES,
    TRAINING_PIPELINES,
    TRIAL_LABEL,
    parse_name,
)
from vtrain.messages.persistent_resource import PersistentResource
from vtrain.messages.resources import JOBS, RESOURCES, Job
from vtrain.messages.states import has_ended
from vtrain.messages.structs import Operation
from vtrain.messages.training_pipeline import InputDataConfig, TrainingPipeline
from vtrain.runtime.database import has_store
from vtrain.runtime.store import Store

QUOTA_EXCEEDED = (
    "The following quota metrics exceed quota limits: aiplatform.googleapis.com/custom_model_training_jobs"
)
"""The service's own sentence about its metrics (GoogleCloudPlatform/vertex-ai-samples, issue 700)."""
_MODEL_FIELDS = frozenset(("display_name", "description", "labels"))
_VERSION_FIELDS = frozenset(("version_description", "labels"))
"""The fields that an update changes, of a model and of a version (`UpdateModelRequest`)."""


class TrainingService:
    """The API over the backends of one home."""

    def __init__(
        self,
        home: Path,
        backend: str,
        *,
        aip_dirs: str = GS,
        port: int = 0,
        most_jobs: int = 0,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`backend` is the one that jobs run in: `local`, `process` or `docker`.

        `aip_dirs` is the form in which their replicas see buckets (`backends.job_storage`), and `port` the
        emulator's, whose API they reach (0: they reach none). `most_jobs` is the quota of each region, of
        custom and tuning jobs that have not ended (0: there is none). `tell` gets what is said while a
        model's server starts.
        """
        self.home = home
        self.backend = backend
        self.tell = tell
        self.calls = Calls()
        self.backends = OpenBackends(home, backend, aip_dirs, port)
        self.operations = Operations()
        self._most_jobs = most_jobs
        self._creating = threading.Lock()
        self._parts: dict[type[Any], Any] = {}
        self._opening = threading.RLock()

    def part(self, collection: str) -> Any:
        """The part of the service that a collection belongs to, made when it is first asked for."""
        cls = part_of(collection)
        if isinstance(self, cls):
            return self
        with self._opening:  # a part may ask for another one
            if cls not in self._parts:
                self._parts[cls] = cls(self)
            return self._parts[cls]

    def close(self) -> None:
        """End the servers of models."""
        with self._opening:
            for part in self._parts.values():
                if (servers := getattr(part, "servers", None)) is not None:
                    servers.close()

    # jobs of all kinds

    def create_job(self, call: VertexCall) -> Document:
        """Start a job."""
        cls = JOBS[call.place.collection]
        root = snake_case(cls.__name__)
        _check_region(call)
        with _refusing(root):
            job = read_body(cls, with_project(call.body, LOCAL_PROJECT), root)
            if isinstance(job, TrainingPipeline) and job.input_data_config is not None:
                job = self._with_data(job, job.input_data_config, call.location)
            backend = self.backends.runner(job, call.location)
            plan = backend.plan(job)
            with self._within_quota(call.location):
                return to_document(backend.submit(plan))

    def _with_data(self, job: TrainingPipeline, config: InputDataConfig, location: str) -> TrainingPipeline:
        """The pipeline with the place of its dataset's files for the dataset's id."""
        place = self.part(DATASETS).place_of(location, config.dataset_id)
        changed = msgspec.structs.replace(config, dataset_id=place)
        return msgspec.structs.replace(job, input_data_config=changed)

    @contextmanager
    def _within_quota(self, location: str) -> Iterator[None]:
        """A block that starts one more job.

        Raises VertexRefusal where the region has as many as it may have.
        """
        if not self._most_jobs:
            yield
            return
        with self._creating:
            if sum(1 for _ in self._living(location)) >= self._most_jobs:
                raise VertexRefusal("RESOURCE_EXHAUSTED", QUOTA_EXCEEDED)
            yield

    def _living(self, location: str) -> Iterator[Job]:
        """The jobs of a region that have not ended: trials are those of their tuning job."""
        for collection in (CUSTOM_JOBS, HYPERPARAMETER_TUNING_JOBS):
            query = Query(collection=collection, project=LOCAL_PROJECT, location=location)
            jobs = all_jobs(self.backends.jobs(location).list, query)
            yield from (job for job in jobs if not has_ended(job.state) and TRIAL_LABEL not in job.labels)

    def get_job(self, call: VertexCall) -> Document:
        """A job as it stands."""
        return to_document(self.backends.jobs(call.location).get(call.name))

    def list_jobs(self, call: VertexCall) -> Document:
        """A page of jobs; a tuning job is listed without its trials."""

        def pages(size: int, token: str) -> tuple[list[Document], str]:
            query = _query(call, size, token)
            page = self.backends.jobs(call.location).list(query)
            documents = [to_document(job) for job in page.jobs if TRIAL_LABEL not in job.labels]
            for document in documents:
                document.pop("trials", None)
            return documents, page.next_page_token

        return list_page(call, pages)

    def cancel_job(self, call: VertexCall) -> Document:
        """Ask a job to end."""
        self.backends.jobs(call.location).cancel(call.name)
        return {}

    def delete_job(self, call: VertexCall) -> Document:
        """Remove an ended job."""
        try:
            self.backends.jobs(call.location).delete(call.name)
        except ConflictError as error:
            raise VertexRefusal("FAILED_PRECONDITION", error.message) from None
        return self.operations.deleted(call)

    # persistent resources

    def create_resource(self, call: VertexCall) -> Document:
        """Make a persistent resource."""
        _check_region(call)
        wanted = call.text("persistentResourceId")
        if not wanted:
            raise invalid("persistent_resource_id is required.")
        with _refusing("persistent_resource"):
            resource = read_body(PersistentResource, call.body, "persistent_resource")
            made = self.backends.resources(call.location).create_resource(wanted, resource, {})
        answer = {**(made.response or {}), "@type": call.type_url("PersistentResource")}
        return self.operations.add(call.of_one(wanted), answer, "CreatePersistentResourceOperationMetadata")

    def get_resource(self, call: VertexCall) -> Document:
        """A persistent resource as it stands."""
        return to_document(self.backends.resources(call.location).get_resource(call.name))

    def list_resources(self, call: VertexCall) -> Document:
        """A page of persistent resources."""
        found = self.backends.resources(call.location).list_resources(_query(call, LARGEST_PAGE, ""))
        return list_all(call, map(to_document, found.resources))

    def delete_resource(self, call: VertexCall) -> Document:
        """Remove a persistent resource; what runs on it is cancelled, as by the service."""
        self.backends.resources(call.location).delete_resource(call.name, force=True)
        return self.operations.deleted(call)

    def reboot_resource(self, call: VertexCall) -> Document:
        """Start the machines of a persistent resource anew."""
        try:
            rebooted = self.backends.resources(call.location).reboot_resource(call.name)
        except ConflictError as error:
            raise VertexRefusal("FAILED_PRECONDITION", error.message) from None
        answer = {**(rebooted.response or {}), "@type": call.type_url("PersistentResource")}
        return self.operations.add(call, answer, "RebootPersistentResourceOperationMetadata")

    # models

    def upload_model(self, call: VertexCall) -> Document:
        """Keep a version of a model."""
        _check_region(call)
        target = _target(call)
        with _refusing("model"):
            model = read_body(Model, with_project(call.fields.get("model", {}), LOCAL_PROJECT), "model")
            if not model.display_name:
                raise FieldError("displayName", "Required field is not set.")
            return self._of_model(
                call, self.backends.models(call.location).upload_model(model, target), "Upload"
            )

    def copy_model(self, call: VertexCall) -> Document:
        """Keep another version with the files of one that is there."""
        _check_region(call)
        source = with_project(call.text("sourceModel"), LOCAL_PROJECT)
        copied = self.backends.models(call.location).copy_model(source, _target(call))
        return self._of_model(call, copied, "Copy")

    def get_model(self, call: VertexCall) -> Document:
        """A version of a model."""
        return self._answered(self.backends.models(call.location).get_model(call.name))

    def list_models(self, call: VertexCall) -> Document:
        """A page of models, each in its default version."""
        found = self.backends.models(call.location).list_models(_query(call, LARGEST_PAGE, ""))
        return list_all(call, self._documents(found.models))

    def list_model_versions(self, call: VertexCall) -> Document:
        """A page of the versions of a model."""
        query = _query(call, LARGEST_PAGE, "")
        found = self.backends.models(call.location).list_model_versions(call.name, query)
        return list_all(call, self._documents(found.models))

    def update_model(self, call: VertexCall) -> Document:
        """Change fields of a model, or of one of its versions."""
        name = call.name.removesuffix("@-")  # no version
        changeable = _VERSION_FIELDS if "@" in name else _MODEL_FIELDS
        mask = call.text("updateMask")
        if not mask:
            raise invalid("update_mask is required.")
        paths = [snake_case(path.strip()) for path in mask.split(",")]
        for path in paths:
            if path not in _MODEL_FIELDS | _VERSION_FIELDS:
                raise invalid(f"update_mask: {path[:300]!r} is no field that an update changes.")
            if path not in changeable:
                of = "a model" if "@" in name else "a version"
                raise VertexRefusal(
                    "FAILED_PRECONDITION", f"{path} is a field of {of}, and {name} names none."
                )
        model = read_request(Model, call.body, "model")
        if "display_name" in paths and not model.display_name:
            raise refusal_of(FieldError("displayName", "Required field is not set."), "model")
        changes = {path: getattr(model, path) for path in paths}
        return self._answered(self.backends.editing_models(call.location).update_model(name, changes))

    def merge_version_aliases(self, call: VertexCall) -> Document:
        """Give names to a version of a model, and take some away."""
        aliases = call.fields.get("versionAliases")
        if not aliases or not isinstance(aliases, list) or not all(isinstance(one, str) for one in aliases):
            raise invalid("version_aliases is required, a list of texts.")
        return self._answered(
            self.backends.editing_models(call.location).merge_version_aliases(call.name, aliases)
        )

    def delete_model(self, call: VertexCall) -> Document:
        """Remove a model with all its versions."""
        self._check_unused(call.name)
        with _refusing():
            self.backends.models(call.location).delete_model(call.name)
        return self.operations.deleted(call)

    def delete_model_version(self, call: VertexCall) -> Document:
        """Remove one version of a model."""
        self._check_unused(*call.name.split("@", 1))
        try:
            self.backends.models(call.location).delete_model_version(call.name)
        except ConflictError as error:
            raise VertexRefusal("FAILED_PRECONDITION", error.message) from None
        return self.operations.deleted(call)

    def _documents(self, models: Iterable[Model]) -> Iterator[Document]:
        """Models as the service answers them: where they are deployed, and to what they can be."""
        uses = self.part(ENDPOINTS).uses()
        for model in models:
            document = to_document(model)
            if model.container_spec is not None:
                document["supportedDeploymentResourcesTypes"] = ["DEDICATED_RESOURCES"]
            if found := uses.get((model.name, model.version_id)):
                document["deployedModels"] = found
            yield document

    def _answered(self, model: Model) -> Document:
        (document,) = self._documents([model])
        return document

    def _check_unused(self, name: str, version: str = "") -> None:
        """Raise VertexRefusal for a model that is deployed; with `version` in that one."""
        for (model, deployed), (use, *_) in self.part(ENDPOINTS).uses().items():
            if model == name and (not version or self.model_of(f"{name}@{version}").version_id == deployed):
                raise VertexRefusal(
                    "FAILED_PRECONDITION",
                    f"The model is deployed to {use['endpoint']}. Undeploy it before you delete it.",
                )

    def model_of(self, name: str) -> Model:
        """The model of a full name in a request. Raises VertexRefusal."""
        full = parse_name(with_project(name, LOCAL_PROJECT))
        if full is None:
            raise invalid(f"{name[:300]!r} is not the name of a model.")
        try:
            return self.backends.models(full.location).get_model(str(full))
        except NotFoundError as error:
            raise VertexRefusal("NOT_FOUND", error.message) from None

    # logs

    def job_of_log(self, job_id: str) -> str:
        """The name of the job that an id in a log means; empty where there is none."""
        if not job_id.isdecimal() or not has_store(self.home):
            return ""
        found = Store.open(self.home).named(tuple(JOBS), job_id, location="", limit=1)
        return found[0].name if found and found[0].name.endswith(f"/{job_id}") else ""

    def read_log(self, query: LogQuery) -> LogPage:
        """A part of a job's log."""
        return self.backends.jobs(DEFAULT_REGION).logs(query)

    # operations

    def get_operation(self, call: VertexCall) -> Document:
        """An operation as it stands."""
        return self.operations.get(call.name)

    def wait_operation(self, call: VertexCall) -> Document:
        """An operation as soon as it has ended, or as it stands when the time is over."""
        timeout = call.text("timeout")
        if timeout and not re.fullmatch(r"[0-9]{1,10}(\.[0-9]{1,9})?s", timeout):
            raise invalid(f"timeout: {timeout[:100]!r} is no duration.")
        return self.operations.wait(call.name, float(timeout[:-1]) if timeout else LONGEST_WAIT)

    def list_operations(self, call: VertexCall) -> Document:
        """The operations of a resource, or of a place, the newest first."""
        own = self.operations.below(call.name.rpartition("/operations")[0])
        return list_all(call, own)

    def end_operation(self, call: VertexCall) -> Document:
        """Take the wish to cancel or to forget an operation, which goes on and is remembered all the same."""
        self.get_operation(call)
        return {}

    def _of_model(self, call: VertexCall, done: Operation, verb: str) -> Document:
        response = done.response or {}
        model = str(response.get("model", ""))
        return self.operations.add(
            call.of_one(model.rpartition("/")[2]),
            {"@type": call.type_url(f"{verb}ModelResponse"), **response},
            f"{verb}ModelOperationMetadata",
        )

    MESSAGES = tuple(RESOURCES.values())
    _JOB = (create_job, get_job, list_jobs, cancel_job, delete_job)
    SERVICES: ClassVar[Services] = {
        "JobService": {
            CUSTOM_JOBS: job_methods("CustomJob", *_JOB),
            HYPERPARAMETER_TUNING_JOBS: job_methods("HyperparameterTuningJob", *_JOB),
        },
        "PipelineService": {TRAINING_PIPELINES: job_methods("TrainingPipeline", *_JOB)},
        "PersistentResourceService": {
            PERSISTENT_RESOURCES: (
                Method("CreatePersistentResource", "POST", "", create_resource, OPERATION,
                       "persistentResource", ("persistentResourceId",)),
                Method("GetPersistentResource", "GET", "*", get_resource, "PersistentResource"),
                Method("ListPersistentResources", "GET", "", list_resources,
                       "ListPersistentResourcesResponse", fields=PAGE),
                Method("DeletePersistentResource", "DELETE", "*", delete_resource, OPERATION),
                Method("RebootPersistentResource", "POST", "*:reboot", reboot_resource, OPERATION, WHOLE),
            )
        },
        "ModelService": {
            MODELS: (
                Method("UploadModel", "POST", ":upload", upload_model, OPERATION, WHOLE,
                       ("parentModel", "modelId", "model", "serviceAccount")),
                Method("CopyModel", "POST", ":copy", copy_model, OPERATION, WHOLE,
                       ("modelId", "parentModel", "sourceModel", "encryptionSpec", "customServiceAccount")),
                Method("GetModel", "GET", "*", get_model, "Model"),
                Method("ListModels", "GET", "", list_models, "ListModelsResponse",
                       fields=(*LIST, "orderBy")),
                Method("ListModelVersions", "GET", "*:listVersions", list_model_versions,
                       "ListModelVersionsResponse", fields=(*LIST, "orderBy")),
                Method("UpdateModel", "PATCH", "*", update_model, "Model", "model", ("updateMask",)),
                Method("MergeVersionAliases", "POST", "*:mergeVersionAliases", merge_version_aliases, "Model",
                       WHOLE, ("versionAliases",)),
                Method("DeleteModel", "DELETE", "*", delete_model, OPERATION),
                Method("DeleteModelVersion", "DELETE", "*:deleteVersion", delete_model_version, OPERATION),
            )
        },
        "Operations": {
            OPERATIONS: (
                Method("GetOperation", "GET", "*", get_operation, OPERATION),
                Method("ListOperations", "GET", "", list_operations, "ListOperationsResponse",
                       fields=("filter", *PAGE, "returnPartialSuccess")),
                Method("WaitOperation", "POST", "*:wait", wait_operation, OPERATION, WHOLE, ("timeout",)),
                Method("CancelOperation", "POST", "*:cancel", end_operation, EMPTY, WHOLE),
                Method("DeleteOperation", "DELETE", "*", end_operation, EMPTY),
            )
        },
    }  # fmt: skip


@contextmanager
def _refusing(root: str = "") -> Iterator[None]:
    """A block in which errors of a backend become answers about the field `root` of the request."""
    try:
        yield
    except NotFoundError as error:
        if not root:
            raise
        raise invalid(error.message) from None  # a resource that the document names
    except VtrainError as error:
        raise refusal_of(error, root) from None


def _check_region(call: VertexCall) -> None:
    """Raise VertexRefusal where something is to be made outside of a region."""
    if not REGION.fullmatch(call.location):
        raise invalid(f"{call.location[:100]!r} is not a region.")


def _target(call: VertexCall) -> ModelTarget:
    """The place of a new version of a model."""
    parent = with_project(call.text("parentModel"), LOCAL_PROJECT)
    return ModelTarget(model_id=call.text("modelId"), parent=parent)


def _query(call: VertexCall, size: int, token: str) -> Query:
    """The query of a list, in one region or, with `-`, in all. Raises VertexRefusal for what is neither."""
    if call.location != EVERYWHERE:
        _check_region(call)
    return Query(
        collection=call.place.collection,
        project=LOCAL_PROJECT,
        location="" if call.location == EVERYWHERE else call.location,
        page_size=size,
        page_token=token,
    )
