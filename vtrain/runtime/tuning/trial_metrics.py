"""The metrics of a trial: of hypertune or, where it has none, of files in its output, or of lines on stdout.

Those files and lines are found anew by each supervisor; only hypertune's file forgets what it held.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import Measurement, Metric
from vtrain.messages.log import LogQuery
from vtrain.runtime.home import Home
from vtrain.runtime.log.log_reader import read_logs
from vtrain.runtime.output_numbers import Scalars, numbers_of_rows, output_of, read_numbers
from vtrain.runtime.tuning.metric_file import MetricFile
from vtrain.runtime.tuning.trial_record import remembered
from vtrain.times import epoch

PRIMARY = "workerpool0-0"
LOOK_SECONDS = 2.0
"""Between two looks into the output of a running trial."""
MOST_ROWS = 10_000
"""Lines with numbers that are remembered, the last ones."""
MOST_PAGES = 16
"""Pages of the log that are read by one look; the next one reads on, and the last one to the end."""
MOST_NAMED = 10
"""Other numbers that a complaint names."""
_LINES = "lines on stdout"


def how_to_report(metric: str) -> str:
    """What to add to a trainer that does not report the metric: lines for people."""
    return (
        "Report it with hypertune (--requirements=cloudml-hypertune):\n"
        "    import hypertune\n"
        f'    hypertune.HyperTune().report_hyperparameter_tuning_metric("{metric}", value, step)\n'
        f'On this machine a line {{"{metric}": 0.91, "step": 3}} on stdout counts too, and metrics.json or '
        "metrics.jsonl in the output folder."
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
        self._cursor = ""
        self._rows: list[dict[str, Any]] = []
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
        found = self._in_output() or self._on_stdout(ended=ended)
        if [*map(_essence, found)] == [*map(_essence, self.measured)] or not found:
            return False
        self.measured = remembered(found)
        return True

    @property
    def is_silent(self) -> bool:
        """Whether nothing that the study asks for was reported, as a number or as anything else."""
        return not self.measured and not self._file.names.intersection(self._metrics)

    def complaint(self) -> str:
        """A sentence about metrics of the study that were not reported; empty where all were."""
        seen = {metric.metric_id for one in self.measured for metric in one.metrics}
        missing = [name for name in self._metrics if name not in seen]
        if self._file.names or not missing:
            return self._file.complaint()
        others = "".join(
            f"; {where} {'have' if where == _LINES else 'has'} {', '.join(names)}"
            for where, names in self._others.items()
        )
        return f"The trainer did not report {', '.join(missing)}{others}."

    def _in_output(self) -> list[Measurement]:
        """The measurements in the first file of numbers that has one of the metrics."""
        folder = output_of(self._job, self._home)
        for scalars in read_numbers(folder).files if folder is not None else ():
            if found := self._measurements(scalars):
                return found
            self._note(scalars.path, scalars)
        return []

    def _on_stdout(self, *, ended: bool) -> list[Measurement]:
        """The measurements in lines of the primary replica that are JSON objects."""
        for pages in count(1):
            query = LogQuery(name=self._job.name, task_name=PRIMARY, cursor=self._cursor)
            page = read_logs(self._folder.logs, query, ended=ended)
            self._cursor = page.cursor
            rows = (entry.json_payload for entry in page.entries if entry.stream == "stdout")
            self._rows = [*self._rows, *(row for row in rows if row)][-MOST_ROWS:]
            if not page.more or (pages == MOST_PAGES and not ended):
                break
        scalars = numbers_of_rows(self._rows)
        if not (found := self._measurements(scalars)):
            self._note(_LINES, scalars)
        return found

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

    def _note(self, where: str, scalars: Scalars) -> None:
        if names := [*scalars.series, *(name for name, _ in scalars.values)]:
            self._others[where] = names[:MOST_NAMED]


def _essence(one: Measurement) -> tuple[Any, ...]:
    return (one.step_count, *((metric.metric_id, metric.value) for metric in one.metrics))
