"""A tuning job as the pages show it: its trials as a table, and charts of each metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from vtrain.emulator.dashboard.figures import (
    Figure,
    Point,
    importance_figure,
    parameter_figure,
    trials_figure,
)
from vtrain.emulator.dashboard.job_view import address_of
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec, Trial
from vtrain.messages.names import parse_name
from vtrain.output.trials import (
    TrialTable,
    best_first,
    best_trials,
    progress_text,
    shown_value,
    study_trials,
)
from vtrain.runtime.tuning.study import LOG, SUCCEEDED, every_parameter

MOST_PARAMETERS = 8
"""Parameters that have a chart."""

_WORDS = ("TRIAL", "STATE", "STEP", "TOOK", "REASON")


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


def study_of(job: HyperparameterTuningJob, *, is_saved: bool = False) -> Study:
    """The trials as a table; where the page is saved with the reasons of failures, and without links."""
    ordered = best_first(job)
    best = {trial.id for trial in best_trials(job)}
    headings, *cells = TrialTable(job).cells(ordered, reasons=is_saved)
    state = headings.index("STATE") if "STATE" in headings else -1
    return Study(
        progress=progress_text(job),
        headings=[heading if heading not in _WORDS else heading.capitalize() for heading in headings],
        rows=[
            TrialRow(
                cells=[text.capitalize() if at == state else text for at, text in enumerate(row)],
                is_best=trial.id in best,
                address=address_of(trial.custom_job) if parse_name(trial.custom_job) and not is_saved else "",
            )
            for trial, row in zip(ordered, cells, strict=True)
        ],
    )


def metric_figures(job: HyperparameterTuningJob) -> list[Figure]:
    """Of each metric its values by trial and by each parameter, and how much the parameters decide."""
    spec, trials = job.study_spec or StudySpec(), study_trials(job)
    best = {trial.id for trial in best_trials(job)}
    found: list[Figure | None] = []
    for place, metric in enumerate(spec.metrics):
        measured = [
            (number, trial, float(each.value))
            for number, trial in enumerate(job.trials, 1)
            if trial.final_measurement and trial.state == SUCCEEDED
            for each in trial.final_measurement.metrics
            if each.metric_id == metric.metric_id
        ]
        points = [
            Point(number, value, f"Trial {trial.id}: {shown_value(value)}", is_best=trial.id in best)
            for number, trial, value in measured
        ]
        found.append(trials_figure(metric.metric_id, points, minimize=metric.goal == "MINIMIZE"))
        if points:
            found += _by_parameter(spec, metric.metric_id, points, [trial for _, trial, _ in measured])
            found.append(importance_figure(spec, trials, place, metric.metric_id))
    return [figure for figure in found if figure is not None]


def _by_parameter(
    spec: StudySpec, metric: str, points: Sequence[Point], trials: Sequence[Trial]
) -> Iterator[Figure | None]:
    """A chart of a metric for each parameter, the first ones; its axis is logarithmic where the scale is."""
    logarithmic = {each.parameter_id for each in every_parameter(spec) if each.scale_type == LOG}
    names = dict.fromkeys(each.parameter_id for trial in trials for each in trial.parameters)
    for name in islice(names, MOST_PARAMETERS):
        values = [
            next((each.value for each in trial.parameters if each.parameter_id == name), None)
            for trial in trials
        ]
        is_number = all(isinstance(value, (int, float)) for value in values if value is not None)
        placed = [
            Point(
                value if is_number else str(value),
                point.y,
                f"{point.text} ({name}={shown_value(value)})",
                point.is_best,
            )
            for value, point in zip(values, points, strict=True)
            if value is not None
        ]
        is_log = name in logarithmic and all(
            isinstance(point.x, (int, float)) and point.x > 0 for point in placed
        )
        yield parameter_figure(f"{metric} by {name}", placed, along=name, is_log=is_log)
