"""The registry of models of Vertex AI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtrain.backends import BackendSettings, Query
from vtrain.backends.vertex.api import VertexApi, read_list
from vtrain.backends.vertex.vertex_backend import full_name_of, of_name, read_answer, read_operation
from vtrain.messages.codec import to_document
from vtrain.messages.model import Model, ModelPage, ModelTarget
from vtrain.messages.names import MODELS, ResourceName
from vtrain.messages.structs import Operation

if TYPE_CHECKING:
    from vtrain.staging.cloud import CloudBuckets


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
