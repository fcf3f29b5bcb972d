"""The metrics of a trial: of hypertune or, where it has none, of files in its output, or of lines on stdout.

`cloudml-hypertune` writes a JSON object per line into the file of `CLOUD_ML_HP_METRIC_FILE`, and rewrites the
whole file at each report, with its last 100 lines; others append. The file is the trainer's: it may be
half-written, damaged, huge, or no file at all. The other places are read anew by each supervisor.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
import stat
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import Measurement, Metric
from vtrain.messages.nearest import nearest
from vtrain.runtime.home import Home
from vtrain.runtime.output_numbers import BROKEN, LINES, Scalars, job_numbers
from vtrain.runtime.tuning.trial_record import RECENT, remembered
from vtrain.times import epoch

MOST_BYTES = 4 << 20
"""Read by one call; the next one reads on."""
LAST_BYTES = 64 << 20
"""Read when the trainer has ended; of a file with more left, only its end is read."""
LONGEST_LINE = 64 << 10
"""A longer line is skipped."""
REMEMBERED = 1000
"""Lines and measurements by which a rewritten file is known again. hypertune keeps 100 lines."""
MOST_NAMES = 100
LONGEST_NAME = 200
_BLOCK = 64 << 10
_MARK = 4 << 10
_OTHER_KEYS = frozenset(["checkpoint_path", "global_step", "timestamp", "trial"])
_LARGEST_STEP = 2**63 - 1

T = TypeVar("T")


class MetricFile:
    """The metric file of a trial. `metrics` are the study's; `started` is the trial's start since 1970.

    `known` are the measurements that an earlier reader of the file had, the last `RECENT` without gaps: they
    are not returned again.
    `names` are the metrics seen so far, also those that the study does not have.
    """

    def __init__(
        self, path: Path, metrics: Sequence[str], *, started: float, known: Sequence[Measurement] = ()
    ) -> None:
        self.names: set[str] = set()
        self._path = path
        self._metrics = tuple(metrics)
        self._started = started
        self._lines = _Lines()
        self._collected: dict[str, float] = {}
        self._place = (0, "")  # step and elapsed time of what is collected
        self._usable: set[str] = set()
        self._unusable: dict[str, str] = {}
        self._known = _Known([_essence(each) for each in known[-RECENT:]], limit=REMEMBERED)

    def read(self, *, ended: bool = False) -> list[Measurement]:
        """The measurements since the last call.

        Metrics of one step are one measurement, which is returned when it has all metrics of the study or
        the next one begins. With `ended`, as the trainer writes no more, all that is left is returned, also
        from a last line without an end.
        """
        now = time.time()
        lines = self._lines.read(self._path, ended=ended)
        found = [done for line in lines for done in self._completed_by(line, now)]
        if ended:
            found += self._closed()
        fresh = self._known.new([_essence(each) for each in found])
        return [found[place] for place in fresh]

    def complaint(self) -> str:
        """A sentence about metrics of the study that were not reported; empty where all were."""
        missing = [name for name in self._metrics if name not in self._usable]
        if not missing:
            return ""
        if unusable := next((name for name in missing if name in self._unusable), None):
            value = self._unusable[unusable]
            return f"The trainer reported {unusable} only as {value}, which is not a finite number."
        others = ", ".join(sorted(self.names - set(self._metrics)))
        holds = f"; its metric file holds {others}" if others else ""
        return f"The trainer did not report {', '.join(missing)}{holds}."

    def _completed_by(self, line: bytes, now: float) -> Iterator[Measurement]:
        """The measurements that this line completes: the one before it, its own, both or none of them."""
        report = _parsed(line)
        self._note_names(report)
        values = {name: report[name] for name in self._metrics if name in report}
        numbers = {name: number for name, value in values.items() if (number := _number(value)) is not None}
        self._usable |= numbers.keys()
        self._unusable |= {name: _told(value) for name, value in values.items() if name not in numbers}
        if not numbers:
            return
        step = _step(report.get("global_step"))
        if step != self._place[0] or self._collected.keys() & numbers.keys():
            yield from self._closed()
        self._place = step, self._elapsed(report.get("timestamp"), now)
        self._collected |= numbers
        if len(self._collected) == len(self._metrics):
            yield from self._closed()

    def _closed(self) -> Iterator[Measurement]:
        """The measurement of what is collected, if anything is."""
        collected, self._collected = self._collected, {}
        if collected:
            metrics = [name for name in self._metrics if name in collected]
            yield Measurement(
                step_count=self._place[0],
                elapsed_duration=self._place[1],
                metrics=tuple(Metric(metric_id=name, value=collected[name]) for name in metrics),
            )

    def _elapsed(self, timestamp: Any, now: float) -> str:
        """The time of a report since the trial's start, by its own time stamp where that can be true."""
        reported = _number(timestamp)
        credible = reported is not None and self._started - 1 <= reported <= now + 1
        seconds = (reported if credible and reported is not None else now) - self._started
        return f"{max(seconds, 0.0):.3f}s"

    def _note_names(self, report: dict[str, Any]) -> None:
        room = MOST_NAMES - len(self.names)
        new = (name for name in report if name not in self.names and name not in _OTHER_KEYS)
        self.names |= {_encodable(name[:LONGEST_NAME]) for name in islice(new, room)}


def _essence(measurement: Measurement) -> tuple[Any, ...]:
    """The part of a measurement by which it is known again; the elapsed time may be that of the reading."""
    return (measurement.step_count, *((each.metric_id, each.value) for each in measurement.metrics))


def _parsed(line: bytes) -> dict[str, Any]:
    """The object on a line; empty for a damaged line."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _number(value: Any) -> float | None:
    """A finite number, also one written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _told(value: Any) -> str:
    """The beginning of a value that is no number, for a sentence."""
    return _encodable(value if isinstance(value, str) else reprlib.repr(value))[:40]


def _encodable(text: str) -> str:
    """The text without lone surrogates: JSON can hold them as escapes, a trial's record cannot hold them."""
    return text.encode("utf-8", "replace").decode()


def _step(value: Any) -> int:
    """The step of a report; 0, as hypertune writes it, where there is no usable one."""
    number = _number(value)
    return int(number) if number is not None and 0 <= number < _LARGEST_STEP else 0


class _Known(Generic[T]):
    """The known part of a sequence that may begin again, from anywhere in the middle."""

    def __init__(self, items: Sequence[T] = (), *, limit: int) -> None:
        self._items = deque(items, maxlen=limit)
        self._expected: deque[T] | None = None

    def begin_again(self) -> None:
        self._expected = None

    def new(self, items: Sequence[T]) -> list[int]:
        """The positions of those items that are not known yet."""
        start = 0
        if items and self._expected is None:
            start, self._expected = self._overlap(items)
        fresh = []
        for position in range(start, len(items)):
            if self._expected and self._expected[0] == items[position]:
                self._expected.popleft()
            else:
                self._expected = deque()
                fresh.append(position)
        self._items.extend(items[position] for position in fresh)
        return fresh

    def _overlap(self, items: Sequence[T]) -> tuple[int, deque[T]]:
        """The position from which on items are compared, and the known ones that are expected there."""
        known, found = list(self._items), list(items)
        for start in range(len(known)):
            if known[start : start + len(found)] == found[: len(known) - start]:
                return 0, deque(known[start:])
        # A file of more lines than are remembered was rewritten with other ones at its head.
        for start in range(len(found) - len(known) + 1 if known else 0):
            if found[start : start + len(known)] == known:
                return start, deque(known)
        return 0, deque()


class _Lines:
    """The new lines of a file that is appended to or rewritten."""

    def __init__(self) -> None:
        self._offset = 0
        self._head = b""
        self._tail = b""
        self._is_skipping = False
        self._known: _Known[int] = _Known(limit=REMEMBERED)

    def read(self, path: Path, *, ended: bool) -> list[bytes]:
        # The trainer may put a link, a pipe or a folder in the place of its file.
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or not self._is_in_place(descriptor, status.st_size, ended):
                return []
            lines = self._read_on(descriptor, status.st_size, ended)
        except OSError:
            return []
        finally:
            os.close(descriptor)
        return [lines[place] for place in self._known.new([hash(line) for line in lines])]

    def _is_in_place(self, descriptor: int, size: int, ended: bool) -> bool:
        """Whether to read now: not while the file is shorter than it was and begins as it did.

        Then it is being rewritten. A file with other bytes where this reader has been is read from its start.
        """
        head = os.pread(descriptor, len(self._head), 0)
        if size < self._offset and self._head.startswith(head) and not ended:
            return False
        tail = os.pread(descriptor, len(self._tail), self._offset - len(self._tail))
        if head != self._head or tail != self._tail:
            self._offset, self._head, self._tail, self._is_skipping = 0, b"", b"", False
            self._known.begin_again()
        return True

    def _read_on(self, descriptor: int, size: int, ended: bool) -> list[bytes]:
        most = LAST_BYTES if ended else MOST_BYTES
        if ended and size - self._offset > most:
            self._offset, self._tail, self._is_skipping = size - most, b"", True
        lines: list[bytes] = []
        rest, position = b"", self._offset
        end = position + most
        while position < end and (block := os.pread(descriptor, _BLOCK, position)):
            position += len(block)
            *whole, rest = (rest + block).split(b"\n")
            self._pass(b"\n".join([*whole, b""]))
            if whole and self._is_skipping:
                whole, self._is_skipping = whole[1:], False
            lines += (line for line in whole if line and len(line) <= LONGEST_LINE)
            if len(rest) > LONGEST_LINE or self._is_skipping:
                self._pass(rest)
                rest, self._is_skipping = b"", True
        if ended and rest:
            lines.append(rest)
            self._pass(rest)
        return lines

    def _pass(self, read: bytes) -> None:
        """Remember the bytes at the file's start and those before the place that the reader has passed.

        They are those that it read, not those that are in the file by now.
        """
        self._head += read[: _MARK - len(self._head)]
        self._tail = (self._tail + read)[-_MARK:]
        self._offset += len(read)


LOOK_SECONDS = 2.0
"""Between two looks into the output of a running trial."""
MOST_NAMED = 10
"""Other numbers that a complaint names."""


def how_to_report(metric: str) -> str:
    """What to add to a trainer that does not report the metric: lines for people."""
    return (
        "Report it with hypertune (--requirements=cloudml-hypertune):\n"
        "    import hypertune\n"
        f'    hypertune.HyperTune().report_hyperparameter_tuning_metric("{metric}", value, step)\n'
        f'On this machine a line {{"{metric}": 0.91, "step": 3}} on stdout counts too, and metrics.json or '
        "metrics.jsonl in the output folder or the working directory."
    )


class TrialMetrics:
    """The measurements of one trial. `metrics` are the study's.

    `known` are the measurements that an earlier supervisor has read.
    """

    def __init__(
        self, job: CustomJob, home: Path, metrics: Sequence[str], known: Sequence[Measurement]
    ) -> None:
        self.measured = [*known]
        self._started = epoch(job.start_time or job.create_time)
        self._folder = Home(home).job(job.name)
        self._file = MetricFile(self._folder.metric_file, metrics, started=self._started, known=known)
        self._job, self._home = job, home
        self._metrics = tuple(metrics)
        self._others: dict[str, list[str]] = {}
        self._looked_at = 0.0

    def read(self, *, ended: bool = False) -> bool:
        """Read what was reported since; whether anything was. With `ended` the trainer writes no more."""
        if found := self._file.read(ended=ended):
            self.measured = remembered([*self.measured, *found])
            return True
        if self._file.names or not (ended or time.monotonic() - self._looked_at >= LOOK_SECONDS):
            return False
        self._looked_at = time.monotonic()
        found = self._elsewhere()
        if [*map(_essence, found)] == [*map(_essence, self.measured)] or not found:
            return False
        self.measured = remembered(found)
        return True

    @property
    def is_silent(self) -> bool:
        """Whether nothing that the study asks for was reported, as a number or as anything else."""
        return not self.measured and not self._file.names.intersection(self._metrics)

    @property
    def nearest(self) -> str:
        """The name of a number that was reported, which the study's first metric may mean; empty if none."""
        names = {*self._file.names, *chain.from_iterable(self._others.values())}
        usable = (name for name in names if "=" not in name)  # no `loss=NaN`
        return nearest(self._metrics[0], usable, cutoff=0.5)  # `acc` for `accuracy`

    def complaint(self) -> str:
        """A sentence about metrics of the study that were not reported; empty where all were."""
        seen = {metric.metric_id for one in self.measured for metric in one.metrics}
        missing = [name for name in self._metrics if name not in seen]
        if self._file.names or not missing:
            return self._file.complaint()
        others = "".join(
            f"; {where} {'have' if where == LINES else 'has'} {', '.join(names)}"
            if names
            else f"; {where} is no JSON"
            for where, names in self._others.items()
        )
        return f"The trainer did not report {', '.join(missing)}{others}."

    def _elsewhere(self) -> list[Measurement]:
        """The measurements in the first place with numbers of the job that has one of the metrics."""
        for scalars in job_numbers(self._job, self._home, wanted=self._metrics).files:
            if found := self._measurements(scalars):
                return found
            lost = [f"{name}={value}" for name, value in scalars.lost.items() if value != BROKEN]
            self._others[scalars.path] = [*scalars.series, *dict(scalars.values), *lost][:MOST_NAMED]
        return []

    def _measurements(self, scalars: Scalars) -> list[Measurement]:
        """The metrics of the study, step by step; single values stand at the last step."""
        points: dict[int, dict[str, float]] = {}
        for name in self._metrics:
            for along, value in scalars.series.get(name, ()):
                points.setdefault(max(int(along), 0), {})[name] = value
        last = max(points, default=0)
        for name, value in scalars.values:
            if name in self._metrics:
                points.setdefault(last, {})[name] = value
        now = f"{max(time.time() - self._started, 0.0):.3f}s"
        before = {_essence(one): one.elapsed_duration for one in self.measured}
        found = (
            Measurement(
                step_count=step,
                elapsed_duration=now,
                metrics=tuple(
                    Metric(metric_id=name, value=values[name]) for name in self._metrics if name in values
                ),
            )
            for step, values in sorted(points.items())
        )
        return [
            msgspec.structs.replace(one, elapsed_duration=before.get(_essence(one), now)) for one in found
        ]
