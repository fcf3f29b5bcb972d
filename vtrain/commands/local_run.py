"""`vtrain custom-jobs local-run`: a trainer, here and now, to its end."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import msgspec

from vtrain.commands.drafting import draft_request, packages_place, show_plan
from vtrain.commands.session import Session, job_document, open_session
from vtrain.commands.watching import CANCEL, Stay, conclude, interrupt_action, stay
from vtrain.errors import LocalRunError, UsageError, VtrainError
from vtrain.flags.compose import JobRequest
from vtrain.flags.options import (
    CommonFlags,
    DryRunFlag,
    GpuFlags,
    InterruptFlag,
    PlaceFlags,
    SpecFlags,
    TrainerFlags,
)
from vtrain.flags.request import job_request
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogQuery
from vtrain.messages.rules import non_empty_pools
from vtrain.messages.states import SUCCEEDED
from vtrain.packaging.source import TrainerSource
from vtrain.staging import LocalBuckets, join_uri
from vtrain.verdict import raise_local_verdict

OUTPUT_BUCKET = "gs://local-runs"
"""Where a run that names no base output directory writes: a folder of its own in this bucket."""


def local_run(
    spec: SpecFlags,
    trainer: TrainerFlags,
    run: DryRunFlag,
    interrupt: InterruptFlag,
    gpu: GpuFlags,
    place: PlaceFlags,
    common: CommonFlags,
    remainder: tuple[str, ...] | None,
) -> None:
    """Run a trainer on this machine and end with its exit code.

    One replica's stdout and stderr pass through untouched; lines of several carry their replica's
    name. What follows -- are the trainer's own arguments.
    """
    try:
        session = open_session(common, place, local_only=True)
        on_interrupt = interrupt_action(interrupt.on_interrupt, default=CANCEL)
        _warn_of_container_flags(session, gpu)
        job = _start(session, spec, trainer, remainder, dry_run=run.dry_run)
        if job is None:
            return
        ended = _watch(session, job, on_interrupt)
    except VtrainError as error:
        raise _around_the_trainer(error) from error
    _say_where(session, ended)
    raise_local_verdict(ended)


def _around_the_trainer(error: VtrainError) -> VtrainError:
    """What fails before the trainer runs is 125, so that it is not taken for the trainer's own code."""
    return LocalRunError(error.message, hint=error.hint) if error.exit_code == 1 else error


def _warn_of_container_flags(session: Session, gpu: GpuFlags) -> None:
    given = {"--gpu": gpu.gpu, "--output-image-uri": gpu.output_image_uri}
    for flag in (flag for flag, value in given.items() if value):
        session.console.warn(f"{flag} concerns containers; processes on this machine do without.")


def _start(
    session: Session,
    spec: SpecFlags,
    trainer: TrainerFlags,
    remainder: tuple[str, ...] | None,
    *,
    dry_run: bool,
) -> CustomJob | None:
    from vtrain.submit import launch, prepare

    request = _with_defaults(
        job_request(spec, _with_folder(trainer, spec), remainder, session.settings.project)
    )
    packages = packages_place(session, trainer)
    draft = draft_request(session, request, packages, trainer)
    prepared = prepare(draft, session.backend, packages, strict=trainer.strict, executor_required=False)
    show_plan(session, prepared, dry_run=dry_run)
    if dry_run:
        session.console.result(job_document(prepared.plan.job), "yaml")
        return None
    return launch(prepared, session.backend, packages, session.console.progress)


def _with_folder(trainer: TrainerFlags, spec: SpecFlags) -> TrainerFlags:
    """As in gcloud the folder is the current one where a module or script is named without it."""
    if trainer.local_package_path is not None or spec.worker_pool_spec:
        return trainer
    if not (trainer.python_module or trainer.script):
        if spec.config:
            return trainer
        raise UsageError("local-run needs --python-module=MODULE or --script=FILE, or --config=FILE.")
    return msgspec.structs.replace(trainer, local_package_path=".")


def _with_defaults(request: JobRequest) -> JobRequest:
    """A name, and a place for the model, where none is given."""
    source = request.source
    name = request.display_name or _name_of(source)
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "run"
    base = join_uri(OUTPUT_BUCKET, f"{slug}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    return msgspec.structs.replace(
        request, fallback_name=name, fallback_fields={"baseOutputDirectory": {"outputUriPrefix": base}}
    )


def _watch(session: Session, job: CustomJob, on_interrupt: str) -> CustomJob:
    from vtrain.output.sinks import PassThroughSink, TextSink

    replicas = sum(pool.replica_count for _, pool in non_empty_pools(job))
    single = replicas == 1
    sink = PassThroughSink(session.console) if single else TextSink(session.console, stderr=False)
    order = Stay(
        console=session.console,
        backend=session.backend,
        name=job.name,
        sink=sink,
        query=LogQuery(name=job.name, raw=single),
        on_interrupt=on_interrupt,
        slowest_poll=0.05,
    )
    return stay(order)


def _say_where(session: Session, job: CustomJob) -> None:
    """Where the model lies; then how the job ended."""
    base = job.job_spec.base_output_directory
    if base is not None and job.state == SUCCEEDED:
        folder = LocalBuckets(session.settings.home).local_path(join_uri(base.output_uri_prefix, "model"))
        files = [file for file in folder.rglob("*") if file.is_file()] if folder.is_dir() else []
        if files:
            session.console.progress(
                f"Model: {folder} ({len(files)} {'file' if len(files) == 1 else 'files'})"
            )
    conclude(session.console, job)


def _name_of(source: TrainerSource | None) -> str:
    """What a run is called that has no name: after its script, or its folder."""
    if source is None:
        return "local-run"
    return Path(source.script).stem if source.script else source.folder.name
