"""The metrics of a trial: of hypertune or, where it has none, of files in its output, or of lines on stdout.

Those files and lines are found anew by each supervisor; only hypertune's file forgets what it held.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import Measurement, Metric
from vtrain.runtime.home import Home
from vtrain.runtime.output_numbers import LINES, Scalars, job_numbers
from vtrain.runtime.tuning.metric_file import MetricFile
from vtrain.runtime.tuning.trial_record import remembered
from vtrain.times import epoch

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
            names = {**scalars.series, **dict(scalars.values), **scalars.lost}
            self._others[scalars.path] = [name for name in names if name != scalars.path][:MOST_NAMED]
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


def _essence(one: Measurement) -> tuple[Any, ...]:
    return (one.step_count, *((metric.metric_id, metric.value) for metric in one.metrics))
