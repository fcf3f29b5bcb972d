"""`vtrain custom-jobs local-run`: a trainer, here and now, to its end."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from vtrain.commands.drafting import (
    POOL_KEY,
    becomes_image,
    draft_request,
    image_order,
    open_for,
    packages_place,
    show_plan,
    warn_of_name,
    with_local_flags,
)
from vtrain.commands.session import Session, find_target, resource_document
from vtrain.commands.watching import CANCEL, Stay, conclude, interrupt_action, stay
from vtrain.errors import ConfigError, LocalRunError, PackagingError, UsageError, VtrainError
from vtrain.flags.compose import Draft, JobRequest, make_source
from vtrain.flags.local import LocalFlags
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
from vtrain.flags.request import job_request, with_key_of
from vtrain.flags.secrets import check_secrets
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogQuery
from vtrain.messages.rules import MAX_DISPLAY_NAME, non_empty_pools
from vtrain.messages.states import SUCCEEDED
from vtrain.packaging.source import TrainerSource
from vtrain.settings import user_path
from vtrain.staging import LocalBuckets, join_uri
from vtrain.submit import Place, Prepared, launch, prepare
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
    local: LocalFlags,
    place: PlaceFlags,
    common: CommonFlags,
    remainder: tuple[str, ...] | None,
) -> None:
    """The path of `create` on a local backend, to its end."""
    with _before_the_trainer(ConfigError, PackagingError):
        target = with_local_flags(find_target(common, place, local_only=True), local)
        on_interrupt = interrupt_action(interrupt.on_interrupt, default=CANCEL)
        packages = packages_place(target, trainer)
        trainer = _with_folder(trainer, spec)
        request = with_key_of(job_request(spec, trainer, remainder), spec, target.settings.project)
        draft = draft_request(target, _with_defaults(request, trainer, gpu.output_image_uri or ""))
        baked = becomes_image(target, draft, packages, trainer, container)
        session = open_for(target, draft, container, gpu, baked=baked)
        baked = baked or _is_named(session, draft, trainer, gpu)
        if not baked:
            warn_of_name(session, draft, "--output-image-uri" if gpu.output_image_uri else POOL_KEY)
        image = image_order(session, draft) if baked else None
        prepared = prepare(draft, session.backend, packages, strict=trainer.strict, image=image)
        check_secrets(prepared.plan.job, local=True, allowed=False)
    if gpu.docker_run_options:
        session.console.warn("--docker-run-options has no effect, as in gcloud; --mount, --user, … have.")
    show_plan(session, prepared, dry_run=run.dry_run)
    if run.dry_run:
        session.console.result(resource_document(prepared.plan.job), "yaml")
        return
    with _before_the_trainer():
        ended = _run(session, prepared, packages, on_interrupt)
    _say_where(session, ended)
    raise_local_verdict(ended)


@contextmanager
def _before_the_trainer(*refusals: type[VtrainError]) -> Iterator[None]:
    """What keeps the trainer from running is 125, so that it is not taken for the trainer's own code.

    But for `refusals`: what is wrong with the command itself ends as it does in every other command.
    """
    try:
        yield
    except refusals:
        raise
    except VtrainError as error:
        if error.exit_code != 1:
            raise
        raise LocalRunError(error.message, hint=error.hint) from error


def _run(session: Session, prepared: Prepared, packages: Place, on_interrupt: str) -> CustomJob:
    job = launch(prepared, session.backend, packages, session.console.progress)
    assert isinstance(job, CustomJob)
    return _watch(session, job, on_interrupt)


def _is_named(session: Session, draft: Draft, trainer: TrainerFlags, gpu: GpuFlags) -> bool:
    """Whether an image is made of the trainer because there is a name for it, as gcloud's local-run does."""
    wanted = bool(gpu.output_image_uri) and draft.source is not None and trainer.package_format == "auto"
    return wanted and session.backend_name == "docker"


def _with_folder(trainer: TrainerFlags, spec: SpecFlags) -> TrainerFlags:
    """As in gcloud the folder is the current one where a module or script is named without it.

    Without either, an executor image is run as it is. Raises UsageError where nothing is named,
    ConfigError for flags that an image which is run as it is has no use for.
    """
    path = trainer.local_package_path
    if spec.worker_pool_spec:
        return trainer
    if trainer.python_module or trainer.script:
        return msgspec.structs.replace(trainer, local_package_path=path or ".")
    if spec.config or (path is not None and user_path(path).is_file()):
        return trainer
    if not trainer.executor_image_uri:
        raise UsageError("local-run needs --python-module=MODULE or --script=FILE, or --config=FILE.")
    return _without_trainer(trainer)


def _without_trainer(trainer: TrainerFlags) -> TrainerFlags:
    """The flags of an image that is run as it is."""
    names = [name for name in ("requirements", "extra_packages", "extra_dirs") if getattr(trainer, name)]
    if names:
        raise ConfigError(
            f"--{names[0].replace('_', '-')} goes with a trainer, and none is named.",
            hint="Give --python-module=MODULE or --script=FILE; without either the image runs as it is.",
        )
    if trainer.local_package_path is not None:
        make_source(folder=trainer.local_package_path, python_module="", script="")
    return msgspec.structs.replace(trainer, local_package_path=None)


def _with_defaults(request: JobRequest, trainer: TrainerFlags, output_image_uri: str) -> JobRequest:
    """A name, and a place for the model, where none is given; an image alone is a container."""
    source, pools = request.source, request.pools
    if not (source or pools or request.config):
        if output_image_uri:
            raise ConfigError("--output-image-uri names a trainer's image, and no trainer is named.")
        pools = ({"machine-type": "", "container-image-uri": trainer.executor_image_uri},)
    name = request.display_name or _name_of(source)[:MAX_DISPLAY_NAME]
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "run"
    base = join_uri(OUTPUT_BUCKET, f"{slug}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    return msgspec.structs.replace(
        request,
        pools=pools,
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
    ended = stay(order)
    assert isinstance(ended, CustomJob)
    return ended


def _say_where(session: Session, job: CustomJob) -> None:
    """Where the model lies and what else the trainer left; then how the job ended."""
    from vtrain.engine.working_folder import remarks_on

    output = job.job_spec.output_uri
    if output and job.state == SUCCEEDED:
        folder = LocalBuckets(session.settings.home).local_path(join_uri(output, "model"))
        files = [file for file in folder.rglob("*") if file.is_file()] if folder.is_dir() else []
        if files:
            session.console.progress(
                f"Model: {folder} ({len(files)} {'file' if len(files) == 1 else 'files'})"
            )
    remarks = remarks_on(session.settings.home, job.name.rpartition("/")[2])
    for note in remarks.notes:
        session.console.progress(note)
    for warning in remarks.warnings:
        session.console.warn(warning)
    conclude(session.console, job)


def _name_of(source: TrainerSource | None) -> str:
    """What a run is called that has no name: after its script, or its folder."""
    if source is None:
        return "local-run"
    return Path(source.script).stem if source.script else source.folder.name
