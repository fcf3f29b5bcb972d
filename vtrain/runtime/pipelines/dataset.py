"""A dataset of files on this machine, and its parts for training, validation and test.

Its records are bytes: lines of JSON, rows of CSV, records of TFRecord. Source of the rules: `InputDataConfig`
and its splits in `google/cloud/aiplatform/v1/training_pipeline.proto`.
"""

from __future__ import annotations

import codecs
import csv
import os
import random
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from vtrain.errors import ConfigError
from vtrain.messages.training_pipeline import FilterSplit, InputDataConfig
from vtrain.rooted import Root
from vtrain.staging import LocalBuckets

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


SETS = ("training", "validation", "test")
"""The parts, by the names that files, variables and predefined splits have."""
DEFAULT_FRACTIONS = (0.8, 0.1, 0.1)
NO_ITEMS = "-"
"""The filter that no data item passes."""
LABEL_PREFIX = "labels."
HEAR_SECONDS = 0.2
Choice = Callable[[DataFile, bytes], str]
Hear = Callable[[], None]


class DatasetFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a dataset, all of one format."""

    files: tuple[DataFile, ...]
    format: str

    @property
    def suffix(self) -> str:
        """The ending of the files that are made of it."""
        return next(suffix for suffix, name in SUFFIXES.items() if name == self.format)


def find_dataset(config: InputDataConfig, home: Path) -> DatasetFiles:
    """The dataset that is named: a file, a folder of files, a pattern, here or in a local bucket.

    Raises ConfigError where there is none, and for a split that this machine does not make.
    """
    check_split(config)
    try:
        found = (file for file in _files(config.dataset_id, LocalBuckets(home)) if format_of(file))
        files = sorted(found, key=lambda file: file.path)
    except OSError as error:  # a name that is too long, a folder of another user
        raise ConfigError(
            f"--dataset: {config.dataset_id[:300]} cannot be read: {error.strerror}."
        ) from error
    if not files:
        raise ConfigError(
            f"--dataset: there is no file at {config.dataset_id} that ends in {', '.join(SUFFIXES)}.",
            hint="Give a file, a folder of files, or a pattern such as data/*.csv.",
        )
    formats = {format_of(file) for file in files}
    if len(formats) > 1:
        raise ConfigError(
            f"--dataset: {config.dataset_id} has files of {' and '.join(sorted(formats))}.",
            hint="Give a pattern that names the files of one format.",
        )
    dataset = DatasetFiles(files=tuple(files), format=formats.pop())
    if config.filter_split is not None and dataset.format != JSONL:
        raise ConfigError("filterSplit is about the labels of data items, which only jsonl files have.")
    if config.predefined_split is not None and dataset.format not in (CSV, JSONL):
        raise ConfigError(f"predefinedSplit needs files of csv or jsonl, and these are of {dataset.format}.")
    try:
        for file in dataset.files if dataset.format != TF_RECORD else ():
            check_text(file)
        return _with_one_header(dataset, config) if dataset.format == CSV else dataset
    except BadDatasetError as error:
        raise ConfigError(f"--dataset: {error}") from error


def _files(dataset_id: str, buckets: LocalBuckets) -> Iterator[DataFile]:
    if dataset_id.startswith("gs://"):
        root = buckets.root(dataset_id)
        if root.is_folder():
            yield from (
                DataFile(root, each.place, root.path / each.place) for each in root.entries() if each.is_file
            )
            return
        above, _, name = dataset_id.rpartition("/")
        root = buckets.root(above)
        for each in root.entries() if root.is_folder() else ():
            if each.is_file and (each.name == name or (_is_pattern(name) and fnmatchcase(each.name, name))):
                yield DataFile(root, each.place, root.path / each.place)
        return
    path = buckets.local_path(dataset_id) if "://" in dataset_id else Path(dataset_id)
    found: Iterator[Path]
    if _is_pattern(path.name) and not path.exists():
        found = path.parent.glob(path.name)
    else:
        found = path.iterdir() if path.is_dir() else iter([path])
    for file in found:
        real = Path(os.path.realpath(file))  # the user's own links
        if real.is_file():
            yield DataFile(Root(real.parent), real.name, file)


def _is_pattern(name: str) -> bool:
    return any(sign in name for sign in "*?[")


def check_split(config: InputDataConfig) -> None:
    """Raise ConfigError for impossible fractions and filters, and for splits that are not made here."""
    names = ("fraction_split", "filter_split", "predefined_split", "timestamp_split", "stratified_split")
    given = [name for name in names if getattr(config, name) is not None]
    if len(given) > 1:
        raise ConfigError(f"inputDataConfig has {' and '.join(given)}.", hint="Give one of them.")
    for name in ("timestamp_split", "stratified_split"):
        if name in given:
            raise ConfigError(
                f"inputDataConfig: this machine does not make a {name}.", hint="Take fractionSplit instead."
            )
    for text in _filters(config.filter_split or FilterSplit()):
        parse_filter(text)
    fractions = _fractions(config)
    if not (all(fraction >= 0 for fraction in fractions) and sum(fractions) <= 1 + 1e-9):  # so NaN is refused
        raise ConfigError("fractionSplit: the fractions are at least 0, and their sum is at most 1.")


def _fractions(config: InputDataConfig) -> tuple[float, ...]:
    """The part of each set. The rest of a smaller sum goes to the training set."""
    split = config.fraction_split
    if split is None:
        return DEFAULT_FRACTIONS
    given = (split.training_fraction, split.validation_fraction, split.test_fraction)
    return given if any(given) else DEFAULT_FRACTIONS


def _with_one_header(dataset: DatasetFiles, config: InputDataConfig) -> DatasetFiles:
    """The files of CSV without empty ones.

    Raises ConfigError where their columns differ, or one lacks, and BadDatasetError.
    """
    headers = {file: columns(row) for file in dataset.files if (row := read_header(file))}
    split = config.predefined_split
    for file, header in headers.items():
        if split is not None and split.key not in header:
            raise ConfigError(f"predefinedSplit: {file} has no column {split.key!r}.")
        first = next(iter(headers))
        if header != headers[first]:  # each part gets the header of the first file
            raise ConfigError(
                f"--dataset: {file} has other columns than {first}.",
                hint="Give files with the same columns in the same order.",
            )
    return msgspec.structs.replace(dataset, files=tuple(headers) or dataset.files)


def split_dataset(
    dataset: DatasetFiles, config: InputDataConfig, target: Root, seed: str, hear: Hear = lambda: None
) -> dict[str, int]:
    """Write the parts into a folder, one file each; how many records each has.

    The same seed gives the same parts. An error leaves no folder. Nothing is written or removed behind a link
    that a trainer puts in place of the folder, which lies below the root's base. `hear` is called now and
    then, and may raise to end it. Raises BadDatasetError, OSError.
    """
    remove_split(target)  # a supervisor that was killed left a part of it
    try:
        return _write_parts(dataset, config, target, seed, hear)
    except BaseException:
        with suppress(OSError):  # the next attempt removes it first
            remove_split(target)
        raise


def remove_split(target: Root) -> None:
    """Remove the folder of the parts, whole or only begun. Raises OSError."""
    with suppress(FileNotFoundError):
        target.remove_all()


def _write_parts(
    dataset: DatasetFiles, config: InputDataConfig, target: Root, seed: str, hear: Hear
) -> dict[str, int]:
    counts = dict.fromkeys(SETS, 0)
    choose = _choice(dataset, config, seed, hear)
    with ExitStack() as files:
        parts = {
            name: files.enter_context(
                target.publishing(f"{name}-00000-of-00001{dataset.suffix}", make_mode=0o777)
            )
            for name in SETS
        }
        if dataset.format == CSV:
            for part in parts.values():
                part.write(read_header(dataset.files[0]))
        for file, record in _records(dataset, hear):
            if name := choose(file, record):
                parts[name].write(record)
                counts[name] += 1
        if not counts["training"]:
            raise BadDatasetError("No record of the dataset belongs to the training set.")
    return counts


def _records(dataset: DatasetFiles, hear: Hear) -> Iterator[tuple[DataFile, bytes]]:
    """All records, each with its file. Many take minutes, in which somebody may cancel the job."""
    due = 0.0
    for file in dataset.files:
        for record in read_records(file, dataset.format):
            if time.monotonic() >= due:
                hear()
                due = time.monotonic() + HEAR_SECONDS
            yield file, record


def _choice(dataset: DatasetFiles, config: InputDataConfig, seed: str, hear: Hear) -> Choice:
    """The set of each record; empty for one that is left out."""
    if config.predefined_split is not None:
        return _predefined(dataset, config.predefined_split.key)
    if config.filter_split is not None:
        return _filtered(config.filter_split)
    total = sum(1 for _ in _records(dataset, hear))
    quotas = [round(fraction * total) for fraction in _fractions(config)]
    quotas[0] = max(total - sum(quotas[1:]), 0)  # what is left over goes to the training set
    return _drawn(quotas, random.Random(seed))


def _drawn(quotas: list[int], source: random.Random) -> Choice:
    """Each order is equally likely, and each set gets exactly its number."""

    def choose(_file: DataFile, _record: bytes) -> str:
        if not any(quotas):
            return ""
        (drawn,) = source.choices(range(len(SETS)), quotas)
        quotas[drawn] -= 1
        return SETS[drawn]

    return choose


def _predefined(dataset: DatasetFiles, key: str) -> Choice:
    """The set that the record itself names; one without, or with another word, is left out."""
    places = {file: columns(read_header(file)).index(key) for file in dataset.files if dataset.format == CSV}

    def choose(file: DataFile, record: bytes) -> str:
        if dataset.format == CSV:
            row = columns(record)
            value = row[places[file]] if places[file] < len(row) else ""
        else:
            item = item_of(record, file)
            value = item[key] if key in item else labels_of(item).get(key, "")
        word = str(value).strip().lower()
        return word if word in SETS else ""

    return choose


def _filtered(split: FilterSplit) -> Choice:
    """The first set whose filter the labels of a data item pass; an item that passes none is left out."""
    filters = [(name, parse_filter(text)) for name, text in zip(SETS, _filters(split), strict=True)]

    def choose(file: DataFile, record: bytes) -> str:
        labels = {key: str(value) for key, value in labels_of(item_of(record, file)).items()}
        for name, wanted in filters:
            if wanted is not None and wanted.items() <= labels.items():
                return name
        return ""

    return choose


def _filters(split: FilterSplit) -> tuple[str, str, str]:
    return split.training_filter, split.validation_filter, split.test_filter


def parse_filter(text: str) -> dict[str, str] | None:
    """The labels that a filter asks for, `labels.KEY=VALUE` joined by AND; None for one that nothing passes.

    Raises ConfigError for any other filter.
    """
    if text.strip() in ("", NO_ITEMS):
        return None
    wanted = {}
    for part in text.split(" AND "):
        name, equals, value = part.strip().partition("=")
        if not equals or not name.startswith(LABEL_PREFIX):
            raise ConfigError(
                f"filterSplit: {part.strip()!r} is not a filter of this machine.",
                hint="Write labels.KEY=VALUE, several joined by AND, or - for no items.",
            )
        wanted[name.removeprefix(LABEL_PREFIX).strip().strip('"')] = value.strip().strip('"')
    return wanted
