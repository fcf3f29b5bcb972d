"""The backend `vertex`: jobs, persistent resources and models on Vertex AI."""

from __future__ import annotations

from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from vtrain.backends import PROTOCOL_VERSION, BackendSettings, Pace, Page, Plan, Query, Replica
from vtrain.backends.vertex.api import VertexApi, quoted, read_list, service_endpoint
from vtrain.backends.vertex.cloud_log import CloudLog
from vtrain.backends.vertex.vertex_plan import (
    check_sendable,
    doubts_about,
    machines_of,
    notices_about,
    replica_views,
)
from vtrain.errors import ConfigError, ServiceError, UnavailableError, UnusableAnswerError
from vtrain.extras import install_command
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.model import Model, ModelPage, ModelTarget
from vtrain.messages.names import GROUPS, MODELS, PERSISTENT_RESOURCES, ResourceName, parse_name
from vtrain.messages.persistent_resource import PersistentResource, ResourcePage
from vtrain.messages.resources import RESOURCES, Job, collection_of
from vtrain.messages.secrets import masked_text
from vtrain.messages.service_documents import canonical_document, laid_over
from vtrain.messages.structs import Operation, Resource

if TYPE_CHECKING:
    from vtrain.backends.vertex.cloud_log import CloudLog
    from vtrain.staging.cloud import CloudBuckets


R = TypeVar("R", bound=Resource)
Documents = list[dict[str, Any]]
_ENDS_A_PATH = set("?#%")
"""Characters that no resource's name has. Not every version of the library would encode them."""


def open_vertex(settings: BackendSettings) -> VertexBackend:
    """The backend, for `open_backend`. Raises UnavailableError where the extra is not installed."""
    check_installed()
    return VertexBackend(settings)


def check_installed() -> None:
    """Raise UnavailableError where the extra is not installed."""
    try:
        found = find_spec("google.auth")
    except ModuleNotFoundError:  # not even the package `google`
        found = None
    if found is None:
        raise UnavailableError(
            "The backend vertex needs Google's libraries, which are not installed.",
            hint=f"Install it with: {install_command('vertex')}. To run on this machine: --backend=local.",
        )


class VertexBackend:
    """Sends jobs to Vertex AI. A name in full decides project and region; an id lies in the settings'."""

    protocol_version = PROTOCOL_VERSION
    pace = Pace(fastest=2.0, slowest=15.0, patience=300.0)

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._just_seen: dict[str, Job] = {}

    @cached_property
    def _api(self) -> VertexApi:
        return VertexApi(self._settings.access, self._settings.tell)

    @cached_property
    def _log(self) -> CloudLog:
        return CloudLog(self._settings.access, self._settings.project)

    def sign_in(self) -> None:
        """Get a token. Raises CredentialsError without credentials that are still valid."""
        self._api.sign_in(self._settings.region)

    def plan(self, job: Job) -> Plan:
        """Exactly what submit would send. Raises ConfigError for pools that the service cannot mean."""
        check_sendable(job)
        endpoint = masked_text(service_endpoint(self._settings.region), (), {})
        parent = str(self._within(collection_of(job))).rstrip("/")
        uri = f"{endpoint}/{self._settings.access.api_version}/{parent}"
        steps = (f"Would send POST {uri}",)
        return Plan(
            job=job,
            backend="vertex",
            notices=notices_about(job),
            doubts=doubts_about(job),
            notes=machines_of(job),
            steps=steps,
        )

    def view(self, job: Job, trial_id: str = "") -> tuple[Replica, ...]:
        """The replicas of the job as they will be; no request is made."""
        check_sendable(job)
        return replica_views(job, self._settings, trial_id)

    def submit(self, plan: Plan) -> Job:
        """Send the job, once; it is there when this returns."""
        document = laid_over(to_document(plan.job), plan.unknown_fields)
        answer = self._api.create(self._within(collection_of(plan.job)), document)
        return read_answer(type(plan.job), answer)

    def get(self, name: str) -> Job:
        """The job as the service has it now."""
        full = full_name_of(name)
        job = _read_job(full.collection, of_name(self._api.get(full), full))
        self._just_seen[name] = job
        return job

    def list(self, query: Query) -> Page:
        """A page of jobs, in the order of the service: newest first."""
        documents, token = self._list(query)
        jobs = tuple(_read_job(query.collection, document) for document in documents)
        return Page(jobs=jobs, next_page_token=token)

    def logs(self, query: LogQuery) -> LogPage:
        """The entries that Cloud Logging has of the job now, from the cursor on."""
        job = self._just_seen.pop(query.name, None) or self.get(query.name)
        return self._log.read(query, job)

    def cancel(self, name: str) -> None:
        """Ask the job to end."""
        self._api.cancel(full_name_of(name))

    def delete(self, name: str) -> None:
        """Delete an ended job, and wait until it is gone."""
        full = full_name_of(name)
        self._api.wait(self._api.delete(full), full.location)

    def create_resource(
        self, resource_id: str, resource: PersistentResource, unknown_fields: dict[str, Any]
    ) -> Operation:
        """Begin to make a persistent resource of that id."""
        document = laid_over(to_document(resource), unknown_fields)
        name = msgspec.structs.replace(self._within(PERSISTENT_RESOURCES), id=resource_id)
        return read_operation(self._api.create_named(name, document))

    def get_resource(self, name: str) -> PersistentResource:
        """The resource as the service has it now."""
        full = full_name_of(name)
        return read_answer(PersistentResource, of_name(self._api.get(full), full))

    def list_resources(self, query: Query) -> ResourcePage:
        """A page of persistent resources."""
        documents, token = self._list(msgspec.structs.replace(query, collection=PERSISTENT_RESOURCES))
        resources = tuple(read_answer(PersistentResource, document) for document in documents)
        return ResourcePage(resources=resources, next_page_token=token)

    def delete_resource(self, name: str, *, force: bool = False) -> Operation:  # noqa: ARG002 - it always does
        """Begin to delete the resource. Any other answer than an error says that it was taken."""
        return read_answer(Operation, self._api.delete(full_name_of(name)))

    def reboot_resource(self, name: str) -> Operation:
        """Begin to reboot the machines of the resource."""
        return read_operation(self._api.reboot(full_name_of(name)))

    def _list(self, query: Query) -> tuple[Documents, str]:
        location = query.location or self._settings.region
        within = ResourceName(project=query.project, location=location, collection=query.collection, id="")
        labels = " AND ".join(f"labels.{key}={quoted(value)}" for key, value in query.labels.items())
        page = self._api.list_page(
            within, page_size=query.page_size, page_token=query.page_token, filter_text=labels
        )
        return read_list(page, query.collection), str(page.get("nextPageToken", ""))

    def _within(self, collection: str) -> ResourceName:
        settings = self._settings
        return ResourceName(project=settings.project, location=settings.region, collection=collection, id="")


def full_name_of(name: str) -> ResourceName:
    """The parts of a full name that a verb is about. Raises ConfigError for any other text."""
    full = parse_name(name)
    if full is None or full.collection not in RESOURCES or _ENDS_A_PATH & set(name):
        raise ConfigError(f"{name!r} is not the full name of a resource of Vertex AI.")
    return full


def of_name(document: dict[str, Any], name: ResourceName) -> dict[str, Any]:
    """The answer about a resource. Raises UnusableAnswerError for one that names none."""
    if not document.get("name"):
        raise UnusableAnswerError(f"The service answered without the resource {name}.")
    return document


def _read_job(collection: str, document: Any) -> Job:
    return cast(Job, read_answer(RESOURCES[collection], document))


def read_operation(document: dict[str, Any], collection: str = PERSISTENT_RESOURCES) -> Operation:
    """The operation in an answer. Raises ServiceError for another answer, which leaves open what happened."""
    operation = read_answer(Operation, document)
    if "/operations/" not in operation.name and not operation.done:
        raise ServiceError(
            f"The service answered with {operation.name!r}, which is no operation.",
            hint=f"Look what there is: vtrain {GROUPS[collection]} list",
        )
    return operation


def read_answer(cls: type[R], document: Any) -> R:
    """The message in an answer, which it keeps. Raises ServiceError for an answer that is none."""
    try:
        return msgspec.structs.replace(from_document(cls, document), answer=canonical_document(cls, document))
    except msgspec.ValidationError as error:
        raise ServiceError(f"The service's answer is not of the type {cls.__name__}: {error}.") from error


class VertexModels:
    """Sends each request to the region of its model; what is new goes to the settings'."""

    def __init__(self, settings: BackendSettings, buckets: CloudBuckets) -> None:
        """`buckets` are those that the account of the settings reads."""
        self._settings = settings
        self._buckets = buckets
        self._api = VertexApi(settings.access, settings.tell)

    def upload_model(self, model: Model, target: ModelTarget) -> Operation:
        """Begin to upload a version."""
        document = _place(target) | {"model": to_document(model)}
        answer = self._api.begin(self._within(), ":upload", document, "the model was uploaded")
        return read_operation(answer, MODELS)

    def copy_model(self, source: str, target: ModelTarget, kms_key_name: str = "") -> Operation:
        """Begin to copy a version to the region of the settings."""
        key = {"encryptionSpec": {"kmsKeyName": kms_key_name}} if kms_key_name else {}
        document = {"sourceModel": source, **_place(target), **key}
        return read_operation(
            self._api.begin(self._within(), ":copy", document, "the model was copied"), MODELS
        )

    def get_model(self, name: str) -> Model:
        """The version as the service has it now."""
        full = full_name_of(name)
        return read_answer(Model, of_name(self._api.get(full), full))

    def list_models(self, query: Query) -> ModelPage:
        """A page of the default versions of models."""
        page = self._api.list_page(
            self._within(), page_size=query.page_size, page_token=query.page_token, filter_text=""
        )
        return _read_page(page)

    def list_model_versions(self, name: str, query: Query) -> ModelPage:
        """A page of the versions of a model."""
        options = {"pageSize": str(query.page_size), "pageToken": query.page_token}
        return _read_page(self._api.list_below(full_name_of(name), ":listVersions", options))

    def delete_model(self, name: str) -> Operation:
        """Begin to delete a model with all its versions."""
        return read_answer(Operation, self._api.delete(full_name_of(name)))

    def delete_model_version(self, name: str) -> Operation:
        """Begin to delete one version."""
        return read_answer(Operation, self._api.delete(full_name_of(name), ":deleteVersion"))

    def fetch_artifacts(self, model: Model, folder: Path) -> Path | None:
        """A copy of the objects that the model is made of."""
        if not model.artifact_uri:
            return None
        self._settings.tell(f"Copying {model.artifact_uri} …")
        self._buckets.fetch(model.artifact_uri, folder)
        return folder

    def get_operation(self, operation: Operation) -> Operation:
        """The operation as the service has it now."""
        return read_operation(self._api.operation(operation.name, self._settings.region), MODELS)

    def _within(self) -> ResourceName:
        settings = self._settings
        return ResourceName(project=settings.project, location=settings.region, collection=MODELS, id="")


def _place(target: ModelTarget) -> dict[str, Any]:
    fields = {"parentModel": target.parent, "modelId": target.model_id}
    return {name: value for name, value in fields.items() if value}


def _read_page(page: dict[str, Any]) -> ModelPage:
    models = tuple(read_answer(Model, document) for document in read_list(page, MODELS))
    return ModelPage(models=models, next_page_token=str(page.get("nextPageToken", "")))
