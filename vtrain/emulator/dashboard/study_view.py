"""A tuning job as the pages show it: its trials as a table, and a chart of each metric."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from vtrain.emulator.dashboard.job_view import address_of
from vtrain.emulator.dashboard.plots import LARGEST, Plot, Point, draw
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.names import parse_name
from vtrain.output.trials import TrialTable, best_first, best_trials, progress_text, shown_value
from vtrain.runtime.tuning.study import SUCCEEDED


class TrialRow(msgspec.Struct, frozen=True, kw_only=True):
    """A trial: the cells of its row, whether it is among the best, and its own page, if it has one."""

    cells: list[str]
    is_best: bool
    address: str


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """The trials of a tuning job, the best first."""

    progress: str
    headings: list[str]
    rows: list[TrialRow]
    plots: list[Plot]


def study_of(job: HyperparameterTuningJob) -> Study:
    """The trials as a table and as plots of each metric."""
    ordered = best_first(job)
    best = {trial.id for trial in best_trials(job)}
    if not ordered:
        return Study(progress=progress_text(job), headings=[], rows=[], plots=[])
    headings, *cells = TrialTable(job).cells(ordered)
    state = headings.index("STATE") if "STATE" in headings else -1
    return Study(
        progress=progress_text(job),
        headings=[heading if heading not in _WORDS else heading.capitalize() for heading in headings],
        rows=[
            TrialRow(
                cells=[text.capitalize() if at == state else text for at, text in enumerate(row)],
                is_best=trial.id in best,
                address=address_of(trial.custom_job) if parse_name(trial.custom_job) else "",
            )
            for trial, row in zip(ordered, cells, strict=True)
        ],
        plots=_trial_plots(job, best),
    )


_WORDS = ("TRIAL", "STATE", "STEP", "TOOK")


def _trial_plots(job: HyperparameterTuningJob, best: set[str]) -> list[Plot]:
    """A plot of each metric: a dot for each trial, and a line of the best value so far."""
    found = []
    for metric in job.study_spec.metrics if job.study_spec else ():
        points = []
        for number, trial in enumerate(job.trials, 1):
            measured = trial.final_measurement.metrics if trial.final_measurement else ()
            for each in measured:
                if each.metric_id == metric.metric_id and trial.state == SUCCEEDED:
                    kind = "best" if trial.id in best else "trial"
                    text = f"Trial {trial.id}: {shown_value(each.value)}"
                    points.append(Point(float(number), float(each.value), text, kind))
        plot = draw(
            metric.metric_id,
            points,
            along="trial",
            line=_best_so_far(points, minimize=metric.goal == "MINIMIZE"),
        )
        found += [plot] if plot is not None else []
    return found


def _best_so_far(points: Iterable[Point], *, minimize: bool) -> list[Point]:
    """The steps of the best value, from trial to trial."""
    steps: list[Point] = []
    for point in points:
        best = steps[-1].y if steps else point.y
        if abs(point.y) < LARGEST:
            steps += [
                Point(point.x, best),
                Point(point.x, min(best, point.y) if minimize else max(best, point.y)),
            ]
    return steps
