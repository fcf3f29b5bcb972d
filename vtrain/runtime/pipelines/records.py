"""The records of a dataset's files as bytes: lines of JSON, rows of CSV, records of TFRecord."""

from __future__ import annotations

import csv
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

JSONL, CSV, TF_RECORD = "jsonl", "csv", "tf-record"
SUFFIXES = {".jsonl": JSONL, ".csv": CSV, ".tfrecord": TF_RECORD, ".tfrecords": TF_RECORD}
"""The formats by the endings of file names."""
MAX_RECORD_BYTES = 64 * 1024 * 1024
"""No record is longer: a file of another format is told by that, before it fills the memory."""
_LABELS = "dataItemResourceLabels"
"""The field of a line of JSON that holds the labels of a data item (import file formats of Vertex AI)."""


class BadDatasetError(Exception):
    """A file that is not what its format says; the text is a sentence for the user."""


def format_of(file: Path) -> str:
    """The format of a file by its name; empty for another one."""
    return SUFFIXES.get(file.suffix.lower(), "")


def read_records(file: Path, data_format: str) -> Iterator[bytes]:
    """The records of a file, of CSV the rows below its header. Raises BadDatasetError, OSError."""
    with file.open("rb") as stream:
        if data_format == TF_RECORD:
            yield from _tf_records(stream, file)
        elif data_format == CSV:
            rows = _rows(stream, file)
            next(rows, None)
            yield from rows
        else:
            yield from (line for line in _lines(stream, file) if line.strip())


def read_header(file: Path) -> bytes:
    """The first row of a file of CSV."""
    with file.open("rb") as stream:
        return next(_rows(stream, file), b"")


def columns(row: bytes) -> list[str]:
    """The values of a row of CSV."""
    return next(csv.reader([row.decode("utf-8", "replace")]), [])


def item_of(line: bytes, file: Path) -> dict[str, Any]:
    """The object in a line of JSON. Raises BadDatasetError."""
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        text = line[:60].decode("utf-8", "replace").strip()
        raise BadDatasetError(f"{file}: {text!r} is no JSON object: {error}.") from None


def labels_of(line: bytes, file: Path) -> dict[str, Any]:
    """The labels of a data item."""
    found = item_of(line, file).get(_LABELS)
    return found if isinstance(found, dict) else {}


def _lines(stream: BinaryIO, file: Path) -> Iterator[bytes]:
    """The lines, each with its newline, also the last one."""
    while line := stream.readline(MAX_RECORD_BYTES + 1):
        if len(line) > MAX_RECORD_BYTES:
            raise BadDatasetError(f"{file} has a line of more than {MAX_RECORD_BYTES} bytes.")
        yield line if line.endswith(b"\n") else line + b"\n"


def _rows(stream: BinaryIO, file: Path) -> Iterator[bytes]:
    """The rows of CSV: a newline within quotes does not end a row."""
    held: list[bytes] = []
    size = quotes = 0
    for line in _lines(stream, file):
        held.append(line)
        size += len(line)
        quotes += line.count(b'"')
        if size > MAX_RECORD_BYTES:
            raise BadDatasetError(f"{file} has a row of more than {MAX_RECORD_BYTES} bytes: is a quote open?")
        if quotes % 2 == 0:
            row = b"".join(held)
            held, size, quotes = [], 0, 0
            if row.strip():
                yield row
    if held:
        raise BadDatasetError(f"{file} ends within quotes.")


def _tf_records(stream: BinaryIO, file: Path) -> Iterator[bytes]:
    """The records with their lengths and checksums, as they lie in the file."""
    while head := stream.read(12):
        length = struct.unpack("<Q", head[:8])[0] if len(head) == 12 else MAX_RECORD_BYTES + 1
        if length > MAX_RECORD_BYTES:
            raise BadDatasetError(f"{file} is no TFRecord file, or it is cut off.")
        body = stream.read(length + 4)
        if len(body) < length + 4:
            raise BadDatasetError(f"{file} is no TFRecord file, or it is cut off.")
        yield head + body


def all_records(files: Iterable[Path], data_format: str) -> Iterator[tuple[Path, bytes]]:
    """The records of several files, each with its file."""
    for file in files:
        for record in read_records(file, data_format):
            yield file, record
