"""`vtrain hp-tuning-jobs report`: a page with the charts, the trials and the configuration of a job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vtrain.atomic import publish_file
from vtrain.commands.kinds import TUNING_JOB
from vtrain.commands.session import open_named, resource_document
from vtrain.commands.trials import tuning_job
from vtrain.errors import ConfigError, StorageError
from vtrain.flags.options import CommonFlags, NameFlag, PlaceFlags
from vtrain.flags.tuning_options import ReportFlags
from vtrain.messages.codec import from_document
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.messages.secrets import masked_document
from vtrain.messages.states import short
from vtrain.output.printers import render
from vtrain.output.projection import parse_format
from vtrain.output.study_page import StudyPage, study_page
from vtrain.output.trials import TrialTable, best_first, best_trials, progress_text, study_trials
from vtrain.runtime.tuning.figures import plotly_script, study_figures
from vtrain.settings import user_path
from vtrain.special_files import why_special

NOT_SHOWN = {"name", "state", "createTime", "startTime", "endTime", "updateTime", "error", "trials"}
"""Fields of the job that are no part of its configuration."""
FILE_MODE = 0o644


def report(job: NameFlag, report: ReportFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """Write the page of a tuning job."""
    target = _target(report.output)
    session, name = open_named(common, place, job.text, TUNING_JOB)
    document = masked_document(resource_document(tuning_job(session, name)))
    found = from_document(HyperparameterTuningJob, document)
    page = study_page(_page(found, document))
    try:
        publish_file(target, page.encode("utf-8", "replace"), FILE_MODE)
    except OSError as error:
        raise StorageError(f"Cannot write {target}: {error.strerror}.") from error
    session.console.status(f"Wrote {target}.")
    session.console.result({"file": str(target), "trials": len(found.trials)})


def _target(text: str) -> Path:
    """The file to write. Raises ConfigError where there can be none."""
    path = user_path(text)
    if not text or path.is_dir():
        raise ConfigError(f"--output: expected a file such as report.html, found {text!r}.")
    if reason := why_special(path) or ("it is a device" if path.is_char_device() else ""):
        raise ConfigError(f"--output: {text} is no file: {reason}.")
    if not path.parent.is_dir():
        raise ConfigError(f"--output: there is no folder {path.parent}.", hint=f"$ mkdir -p {path.parent}")
    return path.resolve() if path.is_symlink() else path


def _page(job: HyperparameterTuningJob, document: dict[str, Any]) -> StudyPage:
    ordered = best_first(job)
    best = {trial.id for trial in best_trials(job)}
    headings, *rows = TrialTable(job).cells(ordered, reasons=True)
    configuration = {name: value for name, value in document.items() if name not in NOT_SHOWN}
    figures = study_figures(job.study_spec or StudySpec(), study_trials(job))
    return StudyPage(
        title=job.display_name or job.name,
        facts=tuple(_facts(job)),
        figures=figures,
        headings=headings,
        rows=rows,
        best=frozenset(place for place, trial in enumerate(ordered) if trial.id in best),
        configuration=render(configuration, parse_format("yaml")),
        script=plotly_script() if figures else "",
    )


def _facts(job: HyperparameterTuningJob) -> Iterator[tuple[str, str]]:
    yield "Job", job.name
    yield "State", short(job.state)
    yield "Trials", progress_text(job)
    for label, text in (("Created", job.create_time), ("Started", job.start_time), ("Ended", job.end_time)):
        if text:
            yield label, text
    if job.error is not None and job.error.message:
        yield "Error", job.error.message
