"""Resources that programs create beside training, and that are only kept: TensorBoards and datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from vtrain.emulator.vertex.documents import read_request, updated
from vtrain.emulator.vertex.operations import Operations
from vtrain.emulator.vertex.resource_files import REGION, ResourceFiles
from vtrain.emulator.vertex.resource_listing import list_all
from vtrain.emulator.vertex.vertex_call import Document, VertexCall
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal, invalid, snake_case
from vtrain.messages.batch_prediction_job import GcsSource
from vtrain.messages.codec import fields, to_document
from vtrain.messages.kept_resources import Dataset
from vtrain.messages.names import DATASETS, LOCAL_PROJECT
from vtrain.messages.structs import Resource
from vtrain.runtime.supervisor_process import random_job_id
from vtrain.times import timestamp

R = TypeVar("R", bound=Resource)


class StoredResources(Generic[R]):
    """One collection of such resources. `noun` is the name of the message in the API."""

    def __init__(
        self, home: Path, collection: str, message: type[R], operations: Operations, noun: str
    ) -> None:
        self.files = ResourceFiles(home, collection, message)
        self._message = message
        self._operations = operations
        self._noun = noun

    def create(self, call: VertexCall) -> Document:
        """Keep a new resource."""
        if not REGION.fullmatch(call.location):
            raise invalid(f"{call.location[:100]!r} is not a region.")
        wanted: Any = self._read(call)
        if not wanted.display_name:
            raise invalid(f"{snake_case(self._noun).removeprefix('_')}.display_name is required.")
        named = call.of_one(random_job_id())
        now = timestamp()
        made = msgspec.structs.replace(wanted, name=named.name, create_time=now, update_time=now)
        self.files.add(made)
        return self._operation(named, "Create", made)

    def get(self, call: VertexCall) -> Document:
        """A resource."""
        return to_document(self.files.find(call.name))

    def list_page(self, call: VertexCall) -> Document:
        """A page of the resources of a region, or of all."""
        return list_all(call, map(to_document, self.files.all(call.location)))

    def update(self, call: VertexCall) -> Document:
        """Change fields of a resource."""
        return to_document(self._changed(call))

    def update_slowly(self, call: VertexCall) -> Document:
        """The same, for messages whose update is an operation."""
        return self._operation(call, "Update", self._changed(call))

    def delete(self, call: VertexCall) -> Document:
        """Forget a resource."""
        self.files.remove(call.name)
        return self._operations.deleted(call)

    def import_data(self, call: VertexCall) -> Document:
        """Keep where data lie: they stay there."""
        configs = call.fields.get("importConfigs")
        if not isinstance(configs, list) or not all(isinstance(config, dict) for config in configs):
            raise invalid("import_configs is required, a list of messages.")
        sources = [config.get("gcsSource", config.get("gcs_source", {})) for config in configs]
        uris = [uri for source in sources for uri in read_request(GcsSource, source, "gcs_source").uris]
        with self.files.changing(call.name) as found:
            self.files.change(found, metadata={"inputConfig": {"gcsSource": {"uri": uris}}})
        answer = {"@type": call.type_url("ImportDataResponse")}
        return self._operations.add(call, answer, "ImportDataOperationMetadata")

    def _changed(self, call: VertexCall) -> R:
        wanted = self._read(call)
        changeable = fields(self._message).keys() - self._message.output_fields
        with self.files.changing(call.name) as found:
            return self.files.change(updated(found, wanted, call.text("updateMask"), changeable))

    def _read(self, call: VertexCall) -> R:
        return read_request(self._message, call.body, snake_case(self._noun).removeprefix("_"))

    def _operation(self, call: VertexCall, verb: str, resource: Any) -> Document:
        answer = {"@type": call.type_url(self._noun), **to_document(resource)}
        return self._operations.add(call, answer, f"{verb}{self._noun}OperationMetadata")


def data_of(datasets: StoredResources[Dataset], location: str, dataset_id: str) -> str:
    """The URI of a dataset's files, for a pipeline; an id of none, such as a path, is its own."""
    name = f"projects/{LOCAL_PROJECT}/locations/{location}/{DATASETS}/{dataset_id}"
    try:
        found = datasets.files.find(name)
    except VertexRefusal:
        return dataset_id
    try:
        uris = found.metadata["inputConfig"]["gcsSource"]["uri"]
    except (TypeError, KeyError):  # any JSON may stand there
        uris = []
    if not isinstance(uris, list) or len(uris) != 1:
        raise invalid(
            f"The dataset {dataset_id} does not name one place. A pipeline reads a file, a folder or a "
            "pattern in Cloud Storage."
        )
    return str(uris[0])
