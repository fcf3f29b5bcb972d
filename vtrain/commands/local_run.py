"""`vtrain custom-jobs local-run`: a trainer, here and now, to its end."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import msgspec

from vtrain.commands.drafting import draft_request, image_order, is_baked, open_for, packages_place, show_plan
from vtrain.commands.session import Session, find_target, job_document
from vtrain.commands.watching import CANCEL, Stay, conclude, interrupt_action, stay
from vtrain.errors import LocalRunError, UsageError, VtrainError
from vtrain.flags.compose import Draft, JobRequest
from vtrain.flags.containers import output_image
from vtrain.flags.options import (
    CommonFlags,
    ContainerFlags,
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
from vtrain.submit import Place
from vtrain.verdict import raise_local_verdict

OUTPUT_BUCKET = "gs://local-runs"
"""Where a run that names no base output directory writes: a folder of its own in this bucket."""


def local_run(
    spec: SpecFlags,
    trainer: TrainerFlags,
    run: DryRunFlag,
    interrupt: InterruptFlag,
    gpu: GpuFlags,
    container: ContainerFlags,
    place: PlaceFlags,
    common: CommonFlags,
    remainder: tuple[str, ...] | None,
) -> None:
    """Run a trainer on this machine and end with its exit code.

    One replica's stdout and stderr pass through untouched; lines of several carry their replica's
    name. What follows -- are the trainer's own arguments.
    """
    try:
        target = find_target(common, place, local_only=True)
        on_interrupt = interrupt_action(interrupt.on_interrupt, default=CANCEL)
        packages = packages_place(target, trainer)
        request = _with_defaults(
            job_request(spec, _with_folder(trainer, spec), remainder, target.settings.project),
            output_image(gpu),
        )
        draft = draft_request(target, request, packages, trainer)
        baked = is_baked(trainer, container)
        session = open_for(target, draft, container, gpu, baked=baked)
        job = _start(session, draft, packages, strict=trainer.strict, baked=baked, dry_run=run.dry_run)
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


def _start(
    session: Session, draft: Draft, packages: Place, *, strict: bool, baked: bool, dry_run: bool
) -> CustomJob | None:
    from vtrain.submit import launch, prepare

    image = image_order(session, draft) if baked else None
    prepared = prepare(draft, session.backend, packages, strict=strict, executor_required=False, image=image)
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


def _with_defaults(request: JobRequest, output_image_uri: str) -> JobRequest:
    """A name, and a place for the model, where none is given."""
    source = request.source
    name = request.display_name or _name_of(source)
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "run"
    base = join_uri(OUTPUT_BUCKET, f"{slug}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    return msgspec.structs.replace(
        request,
        output_image_uri=output_image_uri,
        fallback_name=name,
        fallback_fields={"baseOutputDirectory": {"outputUriPrefix": base}},
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
        slowest_poll=0.02,
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
