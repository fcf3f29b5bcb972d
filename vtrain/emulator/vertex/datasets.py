"""Datasets: each says where data lie in Cloud Storage, and the data stay there."""

from __future__ import annotations

import re
import shutil
from typing import ClassVar

from vtrain.emulator.vertex.documents import read_request
from vtrain.emulator.vertex.instance_files import matching, opened
from vtrain.emulator.vertex.stored_resources import StoredResources, life, update_method
from vtrain.emulator.vertex.training_service import TrainingService
from vtrain.emulator.vertex.vertex_call import OPERATION, WHOLE, Document, Method, Services, VertexCall
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal, invalid
from vtrain.messages.batch_prediction_job import GcsSource
from vtrain.messages.kept_resources import Dataset
from vtrain.messages.names import DATASETS, LOCAL_PROJECT
from vtrain.messages.structs import GcsDestination
from vtrain.staging import LocalBuckets
from vtrain.times import timestamp


class Datasets(StoredResources[Dataset]):
    """The datasets of one home."""

    def __init__(self, service: TrainingService) -> None:
        super().__init__(service.home, DATASETS, Dataset, service.operations)
        self._buckets = LocalBuckets(service.home)

    def import_data(self, call: VertexCall) -> Document:
        """Keep where data lie."""
        configs = call.fields.get("importConfigs")
        if not isinstance(configs, list) or not all(isinstance(config, dict) for config in configs):
            raise invalid("import_configs is required, a list of messages.")
        sources = [config.get("gcsSource", config.get("gcs_source", {})) for config in configs]
        uris = [uri for source in sources for uri in read_request(GcsSource, source, "gcs_source").uris]
        with self.files.changing(call.name) as found:
            self.files.change(found, metadata={"inputConfig": {"gcsSource": {"uri": uris}}})
        answer = {"@type": call.type_url("ImportDataResponse")}
        return self._operations.add(call, answer, "ImportDataOperationMetadata")

    def export_data(self, call: VertexCall) -> Document:
        """Copy the files of a dataset, as they are, to a new folder in Cloud Storage."""
        dataset = self.files.find(call.name)
        config = call.fields.get("exportConfig")
        if not isinstance(config, dict):
            raise invalid("export_config is required.")
        wanted = {name: value for name, value in config.items() if value}
        given = wanted.pop("gcsDestination", None) or wanted.pop("gcs_destination", {})
        if wanted:
            raise VertexRefusal("UNIMPLEMENTED", "The emulator exports all of a dataset, and splits nothing.")
        prefix = read_request(GcsDestination, given, "gcs_destination").output_uri_prefix.rstrip("/")
        if not re.fullmatch(r"gs://[^/]+(/.*)?", prefix):
            raise invalid(f"export_config.gcs_destination: {prefix[:300]!r} is no gs:// URI.")
        if not (uris := _sources(dataset)):
            raise VertexRefusal("FAILED_PRECONDITION", f"The dataset {call.place.id} has no files.")
        name = re.sub(r"[^\w.-]", "_", dataset.display_name)[:100]
        folder = f"{prefix}/export-data-{name}-{re.sub('[-:.]', '_', timestamp())}"
        kind = {"@type": call.type_url("ExportDataResponse")}

        def export() -> Document:
            return {**kind, "exportedFiles": self._copied(uris, folder)}

        return self._operations.begin(call, export, "ExportDataOperationMetadata")

    def _copied(self, uris: list[str], folder: str) -> list[str]:
        """The URIs of the copies; their numbers keep files of one name apart."""
        target, made = self._buckets.root(folder), list[str]()
        sources = (source for uri in uris for source in matching(self._buckets, uri))
        for number, source in enumerate(sources):
            name = f"{number:05d}-{source.rpartition('/')[2]}"
            with opened(self._buckets, source) as file, target.publishing(name, make_mode=0o777) as copy:
                shutil.copyfileobj(file, copy)
            made.append(f"{folder}/{name}")
        return made

    def place_of(self, location: str, dataset_id: str) -> str:
        """The URI of a dataset's files, for a pipeline; an id of none, such as a path, is its own."""
        try:
            found = self.files.find(f"projects/{LOCAL_PROJECT}/locations/{location}/{DATASETS}/{dataset_id}")
        except VertexRefusal:
            return dataset_id
        if len(uris := _sources(found)) != 1:
            raise invalid(
                f"The dataset {dataset_id} does not name one place. A pipeline reads a file, a folder or a "
                "pattern in Cloud Storage."
            )
        return uris[0]

    MESSAGES = (Dataset,)
    SERVICES: ClassVar[Services] = {
        "DatasetService": {
            DATASETS: (
                *life("Dataset", reads=("readMask",), is_slow=True),
                update_method("Dataset"),
                Method("ImportData", "POST", "*:import", import_data, OPERATION, WHOLE, ("importConfigs",)),
                Method("ExportData", "POST", "*:export", export_data, OPERATION, WHOLE, ("exportConfig",)),
            )
        }
    }


def _sources(dataset: Dataset) -> list[str]:
    try:
        uris = dataset.metadata["inputConfig"]["gcsSource"]["uri"]
    except (TypeError, KeyError):  # any JSON may stand there
        return []
    return [str(uri) for uri in uris] if isinstance(uris, list) else []
