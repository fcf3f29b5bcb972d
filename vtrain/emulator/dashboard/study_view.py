"""A tuning job as the pages show it: its trials as a table, and a chart of each metric."""

from __future__ import annotations

import msgspec

from vtrain.emulator.dashboard.figures import Figure, Point, trials_figure
from vtrain.emulator.dashboard.job_view import address_of
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.names import parse_name
from vtrain.output.trials import TrialTable, best_first, best_trials, progress_text, shown_value
from vtrain.runtime.tuning.study import SUCCEEDED

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
    """A chart of each metric."""
    best = {trial.id for trial in best_trials(job)}
    found = []
    for metric in job.study_spec.metrics if job.study_spec else ():
        points = [
            Point(
                number,
                float(each.value),
                f"Trial {trial.id}: {shown_value(each.value)}",
                is_best=trial.id in best,
            )
            for number, trial in enumerate(job.trials, 1)
            if trial.final_measurement and trial.state == SUCCEEDED
            for each in trial.final_measurement.metrics
            if each.metric_id == metric.metric_id
        ]
        found.append(trials_figure(metric.metric_id, points, minimize=metric.goal == "MINIMIZE"))
    return [figure for figure in found if figure is not None]
