"""The instances of a batch prediction: as files have them, as the model gets them, and beside its answers.

Sources: `batch_prediction_job.proto` of `google/cloud/aiplatform/v1`, and Vertex AI, "Get batch predictions
from a custom trained model".
"""

from __future__ import annotations

import base64
import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, BinaryIO

import msgspec

from vtrain.emulator.vertex.vertex_call import Document
from vtrain.errors import ConfigError, StorageError
from vtrain.messages.batch_prediction_job import InputConfig, InstanceConfig
from vtrain.rooted import Root
from vtrain.runtime.output_numbers import number_of
from vtrain.staging import LocalBuckets

LONGEST_LINE = 10 << 20
"""Bytes of a line of the input."""


def matching(buckets: LocalBuckets, uri: str) -> list[str]:
    """The files that a URI names; `*` in its last part stands for more of them. Raises StorageError."""
    folder, _, pattern = uri.rpartition("/")
    if "*" not in pattern:
        return [uri]
    try:
        entries = buckets.root(folder).entries()
    except OSError:
        entries = []
    names = sorted(one.name for one in entries if one.is_file and fnmatchcase(one.name, pattern))
    if not names:
        raise StorageError(f"No file is named {uri}.")
    return [f"{folder}/{name}" for name in names]


@contextmanager
def opened(buckets: LocalBuckets, uri: str) -> Iterator[BinaryIO]:
    """A file of a bucket. Raises StorageError where it cannot be read."""
    folder, _, name = uri.rpartition("/")
    root: Root = buckets.root(folder)
    try:
        with root.open(name) as file:
            yield file
    except OSError as error:
        raise StorageError(f"{uri} cannot be read: {error.strerror}.") from error


class InstanceFiles:
    """The files of an input. `unread` says why some cannot be read, once the others have been."""

    def __init__(self, buckets: LocalBuckets, source: InputConfig) -> None:
        self._buckets = buckets
        self._source = source
        self.unread: list[StorageError] = []

    def batches(self, size: int) -> Iterator[list[Any]]:
        """So many instances at a time, and fewer where they are contents of files, which are large."""
        batch: list[Any] = []
        room = LONGEST_LINE
        for line in self._instances():
            batch.append(line)
            room -= len(line["b64"]) if isinstance(line, dict) and isinstance(line.get("b64"), str) else 0
            if len(batch) >= size or room <= 0:
                yield batch
                batch, room = [], LONGEST_LINE
        if batch:
            yield batch

    def _instances(self) -> Iterator[Any]:
        """The lines of the input: values of JSON, rows of CSV as objects, or contents of files."""
        assert self._source.gcs_source is not None
        read: dict[str, Callable[[BinaryIO, str], Iterator[Any]]]
        read = {"jsonl": _json_lines, "csv": _csv_rows, "file-list": self._listed_files}
        for uri in self._source.gcs_source.uris:
            with self._noting():
                for found in matching(self._buckets, uri):
                    with self._noting(), opened(self._buckets, found) as file:
                        yield from read[self._source.instances_format](file, found)

    def _listed_files(self, file: BinaryIO, origin: str) -> Iterator[Any]:
        for line in _lines(file, origin):
            uri = line.decode("utf-8", "replace").strip()
            if not uri.startswith("gs://"):
                raise ConfigError(f"{origin}: {uri[:300]!r} is no gs:// URI of a file.")
            with self._noting(), opened(self._buckets, uri) as listed:
                content = listed.read(LONGEST_LINE + 1)
                if len(content) > LONGEST_LINE:
                    raise ConfigError(f"{uri} has more than {LONGEST_LINE} bytes.")
                yield {"b64": base64.b64encode(content).decode()}

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """A block that ends where a file cannot be read; the reason is kept."""
        try:
            yield
        except StorageError as error:
            self.unread.append(error)


class InstanceShape:
    """The form of instances: as the model gets them, and as they stand beside their predictions."""

    def __init__(self, config: InstanceConfig) -> None:
        self._config = config
        self._left_out = {*config.excluded_fields, config.key_field} - {""}

    def instance(self, line: Any) -> Any:
        """The instance that the model gets. Rows of CSV are arrays, unless objects are wanted."""
        wanted, included = self._config.instance_type, self._config.included_fields
        if not isinstance(line, dict) or set(line) == {"b64"}:
            return line
        names = [name for name in included or line if name in line and name not in self._left_out]
        is_array = wanted == "array" or (not wanted and isinstance(line, _Row))
        return [line[name] for name in names] if is_array else {name: line[name] for name in names}

    def answer(self, line: Any, prediction: Any) -> Document:
        """The line of the output."""
        key = self._config.key_field
        if key and isinstance(line, dict):
            return {"key": line.get(key), "prediction": prediction}
        return {"instance": self.instance(line), "prediction": prediction}


class _Row(dict[str, Any]):
    """A row of CSV, by the names of the first one."""


def _lines(file: BinaryIO, origin: str) -> Iterator[bytes]:
    """The lines of a file that are not empty."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise ConfigError(f"{origin} has a line of more than {LONGEST_LINE} bytes.")
        if line.strip():
            yield line


def _json_lines(file: BinaryIO, origin: str) -> Iterator[Any]:
    for number, line in enumerate(_lines(file, origin), 1):
        try:
            yield msgspec.json.decode(line)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise ConfigError(f"{origin}, line {number}, is no JSON: {error}.") from error


def _csv_rows(file: BinaryIO, origin: str) -> Iterator[_Row]:
    lines = (line.decode("utf-8", "replace") for line in _lines(file, origin))
    try:
        rows = csv.reader(lines)
        names = [name.removeprefix("\ufeff") for name in next(rows, [])]
        if len(set(names)) < len(names):
            raise ConfigError(f"{origin}: two columns have the same name.")
        for row in rows:
            if len(row) != len(names):
                raise ConfigError(
                    f"{origin}: row {rows.line_num} has {len(row)} values, and the first {len(names)}."
                )
            yield _Row(zip(names, map(number_of, row), strict=True))
    except csv.Error as error:
        raise ConfigError(f"{origin} is no CSV: {error}.") from error
