"""The records of a dataset's files as bytes: lines of JSON, rows of CSV, records of TFRecord."""

from __future__ import annotations

import codecs
import csv
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from vtrain.rooted import Root

JSONL, CSV, TF_RECORD = "jsonl", "csv", "tf-record"
SUFFIXES = {".jsonl": JSONL, ".csv": CSV, ".tfrecord": TF_RECORD, ".tfrecords": TF_RECORD}
"""The formats by the endings of file names."""
MAX_RECORD_BYTES = 64 * 1024 * 1024
"""No record is longer: a file of another format shows by that, before it fills the memory."""
_LABELS = "dataItemResourceLabels"
"""The field of a line of JSON that holds the labels of a data item (import file formats of Vertex AI)."""
csv.field_size_limit(MAX_RECORD_BYTES)  # of the whole process: by itself csv refuses values over 128 KiB


class BadDatasetError(Exception):
    """A file that is not what its format says; the text is a sentence for the user."""


class DataFile(NamedTuple):
    """A file of a dataset. In a local bucket no link leads to it: a job may have made that."""

    root: Root
    place: str
    path: Path

    def open(self) -> AbstractContextManager[BinaryIO]:
        """The file, for reading. Raises OSError."""
        return self.root.open(self.place)

    def __str__(self) -> str:
        return str(self.path)


def format_of(file: DataFile) -> str:
    """The format of a file by its name; empty for another one."""
    return SUFFIXES.get(file.path.suffix.lower(), "")


def read_records(file: DataFile, data_format: str) -> Iterator[bytes]:
    """The records of a file, of CSV the rows below its header. Raises BadDatasetError, OSError."""
    with file.open() as stream:
        if data_format == TF_RECORD:
            yield from _tf_records(stream, file)
        elif data_format == CSV:
            rows = _rows(stream, file)
            next(rows, None)
            yield from rows
        else:
            yield from (line for line in _lines(stream, file) if line.strip())


def read_header(file: DataFile) -> bytes:
    """The first row of a file of CSV; empty where it has none. Raises BadDatasetError, OSError."""
    with file.open() as stream:
        return next(_rows(stream, file), b"")


def check_text(file: DataFile) -> None:
    """Raise BadDatasetError for a file that is no text, as far as its first line tells."""
    with file.open() as stream:
        next(_lines(stream, file), b"")


def columns(row: bytes) -> list[str]:
    """The values of a row of CSV."""
    return next(csv.reader([row.decode("utf-8", "replace")]), [])


def item_of(line: bytes, file: DataFile) -> dict[str, Any]:
    """The object in a line of JSON. Raises BadDatasetError."""
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = line[:60].decode("utf-8", "replace").strip()
        raise BadDatasetError(f"{file}: {text!r} is no JSON object: {error}.") from None


def labels_of(item: dict[str, Any]) -> dict[str, Any]:
    """The labels of a data item."""
    found = item.get(_LABELS)
    return found if isinstance(found, dict) else {}


def _lines(stream: BinaryIO, file: DataFile) -> Iterator[bytes]:
    """The lines, each with its newline, also the last one. NUL bytes show that it is not text."""
    # A mark at the start of a file would end up in the middle of a part, where it is no JSON and no CSV.
    if stream.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
        stream.seek(0)
    while line := stream.readline(MAX_RECORD_BYTES + 1):
        if len(line) > MAX_RECORD_BYTES:
            raise BadDatasetError(f"{file} has a line of more than {MAX_RECORD_BYTES} bytes.")
        if b"\0" in line:
            raise BadDatasetError(
                f"{file} is no text in UTF-8 or another coding that keeps ASCII: it has NUL bytes. "
                "Unpack it if it is packed, or convert it: iconv -f UTF-16 -t UTF-8"
            )
        yield line if line.endswith(b"\n") else line + b"\n"


def _rows(stream: BinaryIO, file: DataFile) -> Iterator[bytes]:
    """The rows of CSV, as Python's reader finds them: a newline within quotes does not end a row."""
    held: list[bytes] = []
    is_at_end = False

    def texts() -> Iterator[str]:
        nonlocal is_at_end
        size = 0
        for line in _lines(stream, file):
            size = size + len(line) if held else len(line)
            if size > MAX_RECORD_BYTES:
                raise BadDatasetError(
                    f"{file} has a row of more than {MAX_RECORD_BYTES} bytes: is a quote open?"
                )
            held.append(line)
            yield line.decode("latin-1")  # the signs of CSV are ASCII; this keeps any other byte as it is
        is_at_end = True

    try:
        for _ in csv.reader(texts()):
            if is_at_end:  # the reader asked for another line
                raise BadDatasetError(f"{file} ends within quotes.")
            row = b"".join(held)
            held.clear()
            if row.strip():
                yield row
    except csv.Error as error:
        raise BadDatasetError(f"{file}: {error}.") from None


def _tf_records(stream: BinaryIO, file: DataFile) -> Iterator[bytes]:
    """The records with their lengths and checksums, as they lie in the file."""
    while head := stream.read(12):
        length = struct.unpack("<Q", head[:8])[0] if len(head) == 12 else MAX_RECORD_BYTES + 1
        if length > MAX_RECORD_BYTES:
            raise BadDatasetError(f"{file} is no TFRecord file, or it is cut off.")
        body = stream.read(length + 4)
        if len(body) < length + 4:
            raise BadDatasetError(f"{file} is no TFRecord file, or it is cut off.")
        yield head + body
