"""The metrics of a job: numbers in files such as `metrics.json`, and in lines of JSON on stdout.

They are series and single values: those that hypertune reported, then those in files of the
output, in files that the trainer wrote in its working directory, and on its stdout.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from vtrain.errors import ConfigError
from vtrain.messages.resources import Job, spec_of
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.messages.training_task import BACKING_JOB
from vtrain.rooted import Root
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.home import Home
from vtrain.runtime.log.log_reader import read_tail
from vtrain.runtime.log.segments import list_segments
from vtrain.runtime.process.journal import RAW_SUFFIX, STDOUT
from vtrain.staging import LocalBuckets

MOST_FILES, MOST_VALUES = 4, 40
LONGEST_NAME = 100
LARGEST_FILE = 2 * 1024 * 1024
MOST_SEEN = 2000
"""Entries of an output folder that are looked at."""
DEEPEST = 3
_NAME = re.compile(
    r"(.*[_-])?(metrics|history|scalars|results|trainer_state|evaluation)\.jsonl?", re.IGNORECASE
)
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]{1,30}\.[0-9]{0,30}|\.[0-9]{1,30}|[0-9]{1,18})(?:[eE][-+]?[0-9]{1,2})?")
_NO_JSON = (ValueError, RecursionError)
PRIMARY = "workerpool0-0"
LINES = "lines on stdout"
LAST_OUTPUT = 512 * 1024
"""Bytes at the end of stdout that are read for a list of jobs."""
_NO_METRICS = frozenset(
    "checkpoint_path created level levelno line lineno pid process thread time timestamp trial ts".split()
)
"""What records of a log and reports of hypertune have beside numbers of the trainer's."""
_STEPS = ("step", "global_step", "epoch", "iteration", "iter", "batch")
_HISTORY = ("log_history", "history", "metrics", "scalars")
"""Keys below which a document has the numbers of each step."""
BROKEN = "no JSON"
"""What is shown in place of a number for a file that is none."""
Series = dict[str, list[tuple[float, float]]]
"""The points of each name that has several: where it was measured, and the number."""


class Scalars(NamedTuple):
    """The numbers of one file: series along something, such as a step, and single values.

    `lost` are the last values that are no finite numbers, such as `NaN`; of a file that is no JSON `BROKEN`.
    """

    path: str
    along: str
    series: Series
    values: list[tuple[str, float]]
    lost: dict[str, str]


class Numbers(NamedTuple):
    """The numbers of the first places that have some, and the number of files that were not looked at."""

    files: list[Scalars]
    left_out: int

    @property
    def last(self) -> dict[str, float | str]:
        """The last value of each name; of a name that several places have, that of the first."""
        found: dict[str, float | str] = {}
        for scalars in self.files:
            lasts = {name: points[-1][1] for name, points in scalars.series.items()}
            found = {**lasts, **dict(scalars.values), **scalars.lost, **found}
        return found


def output_of(job: Job, home: Path) -> Root | None:
    """The folder of this machine that a job writes its output to; None where there is none."""
    with suppress(ConfigError):  # a bucket of the real Cloud Storage, or a task that cannot be read
        spec = spec_of(job)
        if spec is not None and spec.output_uri:
            root = LocalBuckets(home).root(spec.output_uri)
            return root if root.is_folder() else None
    return None


def job_numbers(
    job: Job, home: Path, most_output: int = LARGEST_FILE, wanted: Collection[str] = ()
) -> Numbers:
    """The metrics of a job of a home, with those in so many bytes at the end of its stdout.

    The `wanted` names are metrics though records of a log have fields that are called so, such as `time`.
    """
    name = job.name
    if isinstance(job, TrainingPipeline):
        name = str((job.training_task_metadata or {}).get(BACKING_JOB) or name)
    folder = Home(home).job(name)
    output = output_of(job, home)
    in_output = read_numbers(output) if output is not None else Numbers([], 0)
    in_work = _in_working_folder(folder)
    attempt = folder.newest_attempt(PRIMARY)
    lines = _of_stdout(folder.logs, attempt, most_output, frozenset(wanted), _state(folder))
    found = [*_of_hypertune(folder, wanted), *in_output.files, *in_work.files, lines]
    return Numbers([one for one in found if any(one[2:])], in_output.left_out + in_work.left_out)


def _of_hypertune(folder: JobFolder, wanted: Collection[str]) -> Iterator[Scalars]:
    """The numbers that the primary reported, the last hundred."""
    place = folder.metric_file.relative_to(folder.path).as_posix()
    with suppress(OSError), Root(folder.path).open(place) as file:
        rows = _rows([_decode_line(line) for line in _tail(file)[0].splitlines()])
        yield _reported("hypertune", rows, wanted)


def _reported(place: str, rows: list[dict[str, Any]], wanted: Collection[str]) -> Scalars:
    """The numbers of objects, one for each step. hypertune writes numbers as texts."""
    numbers = (
        {
            name: number_of(value) if isinstance(value, str) else value
            for name, value in row.items()
            if name not in _NO_METRICS or name in wanted
        }
        for row in rows
    )
    return _scalars(place, *_row_series([*numbers]))


def _in_working_folder(folder: JobFolder) -> Numbers:
    """The numbers in files that the primary wrote into its working directory, and did not bring along."""
    attempt = folder.replica(PRIMARY, folder.newest_attempt(PRIMARY))
    started = attempt.start_time()
    if started is None:
        return Numbers([], 0)
    work = attempt.work.relative_to(folder.path).as_posix()
    found = read_numbers(Root(folder.path, work), started)
    files = [one._replace(path=f"{one.path} (working directory)") for one in found.files]
    return Numbers(files, found.left_out)


def _state(folder: JobFolder) -> tuple[int, ...]:
    """What changes when the primary's log does: its newest segment, and the size of that."""
    newest = max(list_segments(folder.logs).get(PRIMARY, ()), default=0)
    with suppress(OSError):
        return newest, (folder.logs / f"{PRIMARY}.{newest}{RAW_SUFFIX}").stat().st_size
    return ()


@lru_cache(maxsize=64)
def _of_stdout(
    logs: Path, attempt: int, most: int, wanted: frozenset[str], _state: tuple[int, ...]
) -> Scalars:
    """The numbers in objects on the last lines that an attempt of the primary has printed, by this state."""
    text = read_tail(logs, PRIMARY, STDOUT, most, attempt)
    lines = (line.strip() for line in text.split("\n"))
    rows = _rows([_decode_line(line) for line in lines if line.startswith("{") and line.endswith("}")])
    return _reported(LINES, rows, wanted)


def read_numbers(folder: Root, since: float = 0.0) -> Numbers:
    """The numbers in the files of a folder that are named like files of numbers, and written since then."""
    found: list[Scalars] = []
    paths = list(_files(folder))
    for at, path in enumerate(paths):
        if len(found) == MOST_FILES:
            return Numbers(found, len(paths) - at)
        try:
            with folder.open(path) as file:
                status = os.fstat(file.fileno())
            if status.st_mtime < since:
                continue
            state = (status.st_ino, status.st_size, status.st_mtime_ns)
            scalars = _of_file(folder.base, folder.within, path, state)
        except OSError:  # it was just removed, or is not for this user
            continue
        if any(scalars[2:]):
            found.append(scalars)
    return Numbers(found, 0)


@lru_cache(maxsize=64)
def _of_file(base: Path, within: str, path: str, _state: tuple[int, ...]) -> Scalars:
    """The numbers of a file in this state: a page of a running job asks every few seconds."""
    with Root(base, within).open(path) as file:
        data, is_whole = _tail(file)
    document = _decode(data)
    if document == [] and is_whole and data.strip() not in (b"", b"[]"):
        return Scalars(path, "", {}, [], {path: BROKEN})
    return _scalars(path, *_numbers(document))


def _tail(file: BinaryIO) -> tuple[bytes, bool]:
    """A file, or the last lines of a large one; whether it is the whole file."""
    size = os.fstat(file.fileno()).st_size
    file.seek(max(size - LARGEST_FILE, 0))
    data = file.read(LARGEST_FILE)
    return (data, True) if size <= LARGEST_FILE else (data.partition(b"\n")[2], False)


def _scalars(path: str, along: str, series: Series, values: list[tuple[str, float]]) -> Scalars:
    """The numbers of a place, of which some may not be finite."""
    lasts = {**{name: points[-1][1] for name, points in series.items()}, **dict(values)}
    return Scalars(
        path,
        along,
        {name: some for name, all_ in series.items() if (some := [one for one in all_ if isfinite(one[1])])},
        [one for one in values if isfinite(one[1])],
        {name: json.dumps(value) for name, value in lasts.items() if not isfinite(value)},
    )


def number_of(text: str) -> int | float | str:
    """The number that a text is, or the text where it is none that every reader of JSON takes."""
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def _files(folder: Root) -> Iterator[str]:
    """Paths of files below the folder that are named so, the nearest first; links are not followed."""
    waiting, seen = deque([""]), 0
    while waiting and seen < MOST_SEEN:
        place = waiting.popleft()
        try:
            entries = folder.entries(place, most=MOST_SEEN)
        except OSError:  # it was just removed, or is not for this user
            continue
        entries.sort(key=lambda entry: (len(entry.name), entry.name))  # `2` before `10`
        seen += len(entries)
        yield from (entry.place for entry in entries if entry.is_file and _NAME.fullmatch(entry.name))
        if place.count("/") + bool(place) < DEEPEST:
            waiting += (entry.place for entry in entries if entry.is_folder)


def _numbers(document: Any) -> tuple[str, Series, list[tuple[str, float]]]:
    """What a document's series are along, the series, and the single values."""
    if isinstance(document, dict):
        for key in _HISTORY:
            if rows := _rows(document.get(key)):
                along, series, values = _row_series(rows)
                return along, series, [*_single(document), *values]
        columns = ((key, _column(value)) for key, value in document.items())
        lines = (
            (key, [(float(at), number) for at, number in enumerate(column, 1)])
            for key, column in columns
            if column
        )
        return "step", {_short(key): points for key, points in islice(lines, MOST_VALUES)}, _single(document)
    rows = _rows(document)
    if len(rows) == 1:
        return "", {}, _single(rows[0])
    return _row_series(rows)


def _decode(data: bytes) -> Any:
    """A JSON document, or a list of those of each line, which is empty for anything else.

    It may have `NaN`, which Python's `json.dump` writes.
    """
    try:
        return json.loads(data)
    except _NO_JSON:
        lines = [_decode_line(line) for line in data.splitlines()]
        return [line for line in lines if line is not None]


def _decode_line(line: bytes | str) -> Any:
    try:
        return json.loads(line)
    except _NO_JSON:
        return None  # such as a line that is being written


def _rows(value: Any) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _row_series(rows: list[dict[str, Any]]) -> tuple[str, Series, list[tuple[str, float]]]:
    """What rows are along, the points of each key that has several numbers, and the numbers of the others."""
    along = next((name for name in _STEPS if sum(_is_number(row.get(name)) for row in rows) > 1), "")
    points: Series = {}
    for at, row in enumerate(rows, 1):
        x = row.get(along, at) if along else at
        for key, value in row.items():
            if key not in _STEPS and _is_number(value) and _is_number(x) and isfinite(x):
                points.setdefault(key, []).append((float(x), float(value)))
    several = ((_short(key), found) for key, found in points.items() if len(found) > 1)
    values = ((_short(key), found[0][1]) for key, found in points.items() if len(found) == 1)
    return along or "row", dict(islice(several, MOST_VALUES)), list(islice(values, MOST_VALUES))


def _short(key: str) -> str:
    """The name as it is shown, on one line."""
    plain = key if key.isprintable() else ascii(key)[1:-1]
    return plain if len(plain) <= LONGEST_NAME else f"{plain[:LONGEST_NAME]}…"


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
    return isinstance(value, float) or abs(value) < 1e300
