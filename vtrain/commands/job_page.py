"""`vtrain show`: a job as a page for people on a terminal, as YAML elsewhere."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from vtrain.backends import RepeatableBackend
from vtrain.command_log import masked_line
from vtrain.commands.conclusion import places_of
from vtrain.commands.job_lists import warn_of_halt
from vtrain.commands.session import Session, open_named, resource_document
from vtrain.core.references import command_about, ended_log_command, jobs_here, shown_name
from vtrain.errors import ConfigError, StorageError
from vtrain.flags.options import CommonFlags, NameFlag, PlaceFlags
from vtrain.messages.custom_job import CustomJob, CustomJobSpec, MachineSpec, WorkerPoolSpec
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.names import ResourceKind, kind_of
from vtrain.messages.resources import spec_of
from vtrain.messages.secrets import masked_words
from vtrain.messages.states import ENDED_TRIAL, has_ended
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.output.card import Pointer, end_lines
from vtrain.output.colours import has_colours, painted
from vtrain.output.compared import METRICS, compared_job, words_of
from vtrain.output.terminal import from_home, on_one_line
from vtrain.output.trials import shown_value
from vtrain.runtime.machines import machine_in_words
from vtrain.times import ago, epoch

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

MOST_METRICS = 12
"""Metrics that the page names; `vtrain ps --metrics` has all."""


def show(job: NameFlag, place: PlaceFlags, common: CommonFlags, *, kind: ResourceKind) -> None:
    """Print one job."""
    session, name = open_named(common, place, job.text, kind)
    found = session.jobs.get(name)
    console = session.console
    if sys.stdout.isatty() and console.format is None and not (console.default_format or console.flatten):
        places = [(label, from_home(text)) for label, text in places_of(session, found)]
        lines = end_lines(console, found, [*_facts(session, found), *places])
        steps = [("",), *((f"  $ {step}",) for step in _steps(session, found, dict(places)))]
        if console.user_output:
            coloured = has_colours(sys.stdout)
            text = "".join(f"{painted(line, coloured=coloured)}\n" for line in [*lines, *steps])
            console.write(text.encode("utf-8", "backslashreplace"))
    else:
        home = session.settings.home if session.is_local else None
        measured = {name: values for name, values in compared_job(found, home).items() if values}
        console.result(resource_document(found) | measured, "yaml")
    if not has_ended(found.state):
        warn_of_halt(session, [name])


def _facts(session: Session, job: Job) -> Iterator[Pointer]:
    """What the job is, where it came from, and what it measured."""
    noun = {"CustomJob": "custom job", "HyperparameterTuningJob": "tuning job"}.get(
        kind_of(job.name).noun, "training pipeline"
    )
    backend = session.backend.name
    if session.is_local:
        with suppress(StorageError):
            backend = jobs_here().get(job.name, backend)
    yield "job", f"{shown_name(job.name)}, a {noun} on {backend}"
    if job.create_time:
        moment = time.localtime(epoch(job.create_time))
        yield "made", f"{time.strftime('%Y-%m-%d %H:%M:%S', moment)}, {ago(job.create_time)}"
    if not has_ended(job.state) and job.start_time:
        yield "began", ago(job.start_time)
    yield from _origin(session, job)
    try:
        spec = spec_of(job)
    except ConfigError:  # a task that describes no job
        spec = None
    if words := words_of(job):
        yield "args", on_one_line(shlex.join(masked_words(words)))
    if spec is not None:
        yield from _machines(spec)
    if isinstance(job, HyperparameterTuningJob):
        ended = sum(trial.state in ENDED_TRIAL for trial in job.trials)
        yield "done", f"{ended} of {job.max_trial_count} trials"
    elif metrics := compared_job(job, session.settings.home if session.is_local else None)[METRICS]:
        shown = [f"{name} {shown_value(value)}" for name, value in metrics.items()]
        yield "metric", ", ".join(shown[:MOST_METRICS]) + (", …" if len(shown) > MOST_METRICS else "")
    if isinstance(job, TrainingPipeline) and job.model_to_upload is not None and job.model_to_upload.name:
        yield "model", job.model_to_upload.name


def _origin(session: Session, job: Job) -> Iterator[Pointer]:
    """The command line that made the job, and where it was typed."""
    command = session.jobs.command(job.name) if isinstance(session.jobs, RepeatableBackend) else None
    if command is not None:
        yield "line", on_one_line(f"$ vtrain {masked_line(command.words)}")
        yield "in", from_home(command.folder)


def _machines(spec: CustomJobSpec) -> Iterator[Pointer]:
    """The image, and where they were chosen the machines."""
    pools = [pool for pool in spec.worker_pool_specs if pool.replica_count != 0]
    images = dict.fromkeys(filter(None, map(_image, pools)))
    if images:
        yield "image", ", ".join(images)
    needs = [_machine(pool) for pool in pools]
    if needs not in ([], ["1 × replica"]):
        yield "needs", "; ".join(needs)


def _image(pool: WorkerPoolSpec) -> str:
    if pool.container_spec is not None:
        return pool.container_spec.image_uri
    return pool.python_package_spec.executor_image_uri if pool.python_package_spec is not None else ""


def _machine(pool: WorkerPoolSpec) -> str:
    return f"{pool.replica_count or 1} × {machine_in_words(pool.machine_spec or MachineSpec()) or 'replica'}"


def _steps(session: Session, job: Job, places: dict[str, str]) -> Iterator[str]:
    """The commands that somebody who looks at the job may want next."""
    called = shown_name(job.name)
    if not has_ended(job.state):
        yield command_about(job.name, "stream-logs")
        yield command_about(job.name, "cancel")
        return
    yield ended_log_command(job.name)
    if session.is_local and "model" in places and isinstance(job, CustomJob):
        yield f"vtrain cp {called}:model ./model"
    if isinstance(session.jobs, RepeatableBackend) and session.jobs.command(job.name) is not None:
        yield f"vtrain rerun {called}"
