"""Numbers that trainers leave in files of their output, such as `metrics.json`: charts and single values."""

from __future__ import annotations

import math
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from vtrain.emulator.dashboard.figures import Figure, Point, line_figure
from vtrain.emulator.dashboard.output_files import list_folder, open_file
from vtrain.errors import NotFoundError
from vtrain.rooted import Root

MOST_FILES, MOST_FIGURES, MOST_VALUES = 4, 8, 40
LONGEST_NAME = 100
LARGEST_FILE = 2 * 1024 * 1024
MOST_SEEN = 2000
"""Entries of an output folder that are looked at."""
DEEPEST = 3
_NAME = re.compile(
    r"(.*[_-])?(metrics|history|scalars|results|trainer_state|evaluation)\.jsonl?", re.IGNORECASE
)
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_STEPS = ("step", "global_step", "epoch", "iteration", "iter", "batch")
_HISTORY = ("log_history", "history", "metrics", "scalars")
"""Keys below which a document has the numbers of each step."""


class Scalars(NamedTuple):
    """The numbers of one file: figures of those with many values, and texts of single ones."""

    path: str
    figures: list[Figure]
    values: list[tuple[str, float]]


class Numbers(NamedTuple):
    """The numbers of the first files that have some, and the number of files that were not looked at."""

    files: list[Scalars]
    left_out: int


def read_numbers(folder: Root) -> Numbers:
    """The numbers in the files of a folder that are named like files of numbers."""
    found: list[Scalars] = []
    paths = list(_files(folder))
    for at, path in enumerate(paths):
        if len(found) == MOST_FILES:
            return Numbers(found, len(paths) - at)
        try:
            with open_file(folder, path) as file:
                status = os.fstat(file.fileno())
            state = (status.st_ino, status.st_size, status.st_mtime_ns)
            scalars = _of_file(folder.base, folder.within, path, state)
        except (NotFoundError, OSError):
            continue
        if scalars.figures or scalars.values:
            found.append(scalars)
    return Numbers(found, 0)


@lru_cache(maxsize=64)
def _of_file(base: Path, within: str, path: str, _state: tuple[int, ...]) -> Scalars:
    """The numbers of a file in this state: a page of a running job asks every few seconds."""
    with open_file(Root(base, within), path) as file:
        data = file.read(LARGEST_FILE + 1)
    return Scalars(path, *_numbers(data if len(data) <= LARGEST_FILE else b""))


def _files(folder: Root) -> Iterator[str]:
    """Paths of files below the folder that are named so, the nearest first; links are not followed."""
    waiting, seen = deque([""]), 0
    while waiting and seen < MOST_SEEN:
        place = waiting.popleft()
        try:
            entries = list_folder(folder, place).entries
        except (NotFoundError, OSError):  # it was just removed, or is not for this user
            continue
        seen += len(entries)
        yield from (entry.path for entry in entries if entry.kind == "file" and _NAME.fullmatch(entry.name))
        if place.count("/") + bool(place) < DEEPEST:
            waiting += (entry.path for entry in entries if entry.kind == "folder")


def _numbers(data: bytes) -> tuple[list[Figure], list[tuple[str, float]]]:
    """The figures and the single values of a file's content."""
    document = _decode(data)
    if isinstance(document, dict):
        for key in _HISTORY:
            if isinstance(document.get(key), list) and _rows(document[key]):
                return _row_figures(_rows(document[key])), _single(document)
        columns = ((key, _column(value)) for key, value in document.items())
        figures = (
            line_figure(_short(key), [Point(at, y) for at, y in enumerate(column, 1)], along="step")
            for key, column in columns
            if column
        )
        return _first(figures), _single(document)
    rows = _rows(document)
    if len(rows) == 1:
        return [], _single(rows[0])
    return _row_figures(rows), []


def _decode(data: bytes) -> Any:
    """A JSON document, or a list of those of each line; None for anything else."""
    try:
        return msgspec.json.decode(data)
    except _NO_JSON:
        lines = [_decode_line(line) for line in data.splitlines()]
        return [line for line in lines if line is not None] or None


def _decode_line(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except _NO_JSON:
        return None  # such as a line that is being written


def _rows(value: Any) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _row_figures(rows: list[dict[str, Any]]) -> list[Figure]:
    """A figure for each key that has a number in several rows, against their step."""
    along = next((name for name in _STEPS if sum(_is_number(row.get(name)) for row in rows) > 1), "")
    points: dict[str, list[Point]] = {}
    for at, row in enumerate(rows, 1):
        x = row.get(along, at) if along else at
        for key, value in row.items():
            if key not in _STEPS and _is_number(value) and _is_number(x):
                points.setdefault(key, []).append(Point(float(x), float(value)))
    return _first(
        line_figure(_short(key), found, along=along or "row")
        for key, found in points.items()
        if len(found) > 1
    )


def _first(figures: Iterable[Figure | None]) -> list[Figure]:
    return list(islice((figure for figure in figures if figure is not None), MOST_FIGURES))


def _short(key: str) -> str:
    return key if len(key) <= LONGEST_NAME else f"{key[:LONGEST_NAME]}…"


def _column(value: Any) -> list[float]:
    if not isinstance(value, list) or len(value) < 2 or not all(map(_is_number, value)):
        return []
    return [float(number) for number in value]


def _single(document: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    """The numbers of a document and of the documents in it: `test.accuracy`."""
    found: list[tuple[str, float]] = []
    for key, value in document.items():
        if _is_number(value):
            found.append((_short(f"{prefix}{key}"), value))
        elif isinstance(value, dict) and prefix.count(".") < DEEPEST:
            found += _single(value, f"{prefix}{key}.")
        if len(found) >= MOST_VALUES:
            break
    return found[:MOST_VALUES]


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 1e300 if isinstance(value, int) else math.isfinite(value)
