"""The page of a study, saved: one file that asks nobody for anything."""

from __future__ import annotations

from vtrain.emulator.dashboard.figures import plotly_script, study_figures
from vtrain.emulator.dashboard.job_view import Moment, head_of
from vtrain.emulator.dashboard.pages import Pages, as_bytes
from vtrain.emulator.dashboard.study_view import study_of
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.output.trials import study_trials

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)
"""No request leaves the page. WebGL, which draws the parallel coordinates, compiles its own code."""


def study_report(job: HyperparameterTuningJob) -> bytes:
    """The page about a tuning job, with Optuna's charts. Raises UnavailableError without the extra."""
    figures = study_figures(job.study_spec or StudySpec(), study_trials(job))
    pages = Pages()
    head = head_of(job, [])
    head["times"] = [(label, Moment(when.written, when.written)) for label, when in head["times"]]
    page = pages.render(
        "report.html",
        **head,
        study=study_of(job, is_saved=True),
        figures=figures,
        policy=POLICY,
        style=pages.static["style.css"].decode(),
        scripts=[plotly_script().decode(), pages.static["charts.js"].decode()] if figures else [],
    )
    return as_bytes(page)
