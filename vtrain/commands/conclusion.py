"""The summary at the end of a followed job: how it ended, and where its outputs are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from vtrain.commands.session import Session
from vtrain.core.references import command_about, ended_log_command, shown_name
from vtrain.errors import DamagedError, NotFoundError, VtrainError
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, Trial
from vtrain.output.card import Pointer, show_end
from vtrain.staging import LocalBuckets, join_uri

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

MOST_COUNTED = 1000
"""Files of a model that are counted."""


def conclude(session: Session, job: Job) -> None:
    """Say on stderr how a job ended, and what else its trainer left on this machine."""
    show_end(session.console, job, places_of(session, job))
    if not (session.is_local and isinstance(job, CustomJob)):
        return
    from vtrain.runtime.working_folder import remarks_on

    remarks = remarks_on(session.settings.home, job.name.rpartition("/")[2])
    for note in remarks.notes:
        if not session.console.has_just_shown([note]):
            session.console.progress(note)
    for warning in remarks.warnings:
        session.console.warn(warning)


def how_to_go_on(session: Session, job: Job) -> str:
    """The lines about a job that was stopped: its id, what it has left, and how to go on with it."""
    pointers = [("job", shown_name(job.name)), *places_of(session, job)]
    lines = [f"{label:<7} {text}" for label, text in pointers]
    lines.append(f"{'log':<7} $ {ended_log_command(job.name)}")
    with suppress(OSError, VtrainError):
        if session.is_local and isinstance(job, CustomJob) and _has_checkpoints(session, job):
            lines.append(f"{'go on':<7} run it again with --base-output-dir={job.job_spec.output_uri}")
    return "\n".join(lines)


def _has_checkpoints(session: Session, job: CustomJob) -> bool:
    """Whether a run with the same output folder would find checkpoints."""
    base = job.job_spec.output_uri
    if not base:
        return False
    folder = LocalBuckets(session.settings.home).local_path(join_uri(base, "checkpoints"))
    return _is_or_has_file(folder)


def places_of(session: Session, job: Job) -> list[Pointer]:
    """The places of the model and of other outputs, as far as they can be read."""
    found: list[Pointer] = []
    # A folder that is another user's, or was removed just now, must not hide how the job ended.
    with suppress(OSError, VtrainError):
        for place in _find_places(session, job):
            found.append(place)
    return found


def _find_places(session: Session, job: Job) -> Iterator[Pointer]:
    """The places of the model and of other outputs: a bucket, or folders of this machine with files."""
    if isinstance(job, HyperparameterTuningJob):
        yield from _best_places(session, job)
    base = job.job_spec.output_uri if isinstance(job, CustomJob) else ""
    if not base:
        return
    if not session.is_local:
        yield "output", base
        return
    buckets = LocalBuckets(session.settings.home)
    folder, model = buckets.local_path(base), buckets.local_path(join_uri(base, "model"))
    if count := _files_in_words(model):
        yield "model", f"{model} ({count})"
    others = [entry for entry in folder.iterdir() if entry != model] if folder.is_dir() else []
    if any(_is_or_has_file(entry) for entry in others):
        yield "output", str(folder)


def _best_places(session: Session, job: HyperparameterTuningJob) -> Iterator[Pointer]:
    """The best trials of a tuning job, each with its parameters and its model."""
    from vtrain.output.trials import MOST_NAMED, best_trials, measured_text, parameters_text

    for trial in best_trials(job)[:MOST_NAMED]:
        yield "best", f"trial {trial.id}: {measured_text(trial)}"
        if parameters := parameters_text(trial):
            yield "with", parameters
        if model := model_folder(session, job, trial):
            yield "model", model
    if job.trials:
        yield "trials", f"$ {command_about(job.name, 'trials')}"


def model_folder(session: Session, job: HyperparameterTuningJob, trial: Trial) -> str:
    """The URI of a trial's model; on this machine its folder, if there is one. Else nothing."""
    base = job.trial_job_spec.output_uri if job.trial_job_spec is not None else ""
    output = join_uri(base, trial.id) if base else ""
    if session.is_local and trial.custom_job:  # which another study may have run, that this one goes on from
        with suppress(NotFoundError, DamagedError):
            own = session.jobs.get(trial.custom_job)
            output = own.job_spec.output_uri if isinstance(own, CustomJob) else output
    uri = join_uri(output, "model") if output else ""
    if not session.is_local or not uri:
        return uri
    folder = LocalBuckets(session.settings.home).local_path(uri)
    return str(folder) if folder.is_dir() and _is_or_has_file(folder) else ""


def _files_in_words(folder: Path) -> str:
    """`2 files`; empty for none."""
    files = (file for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else iter(())
    count = sum(1 for _ in islice(files, MOST_COUNTED + 1))
    if count > MOST_COUNTED:
        return f"more than {MOST_COUNTED} files"
    return f"{count} {'file' if count == 1 else 'files'}" if count else ""


def _is_or_has_file(entry: Path) -> bool:
    return entry.is_file() or any(file.is_file() for file in entry.rglob("*"))
