"""What create and local-run share: flags to a draft, and the plan as words."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from vtrain.commands.session import Session, Target, check_current_folder
from vtrain.errors import UnavailableError, UsageError
from vtrain.flags.compose import Draft, JobRequest, compose
from vtrain.flags.containers import container_options, given_flags
from vtrain.flags.options import ContainerFlags, GpuFlags, SpecFlags, TrainerFlags
from vtrain.flags.request import job_request
from vtrain.output.console import Console
from vtrain.settings import find_staging_bucket
from vtrain.submit import ImageOrder, Place, Prepared, would_make

MAX_WARNINGS = 10
BAKE_HINT = "Take --backend=docker, and name a base with --executor-image-uri=IMAGE."


def draft_job(
    target: Target, spec: SpecFlags, trainer: TrainerFlags, remainder: tuple[str, ...] | None
) -> tuple[Draft, Place]:
    """The job that the flags of `create` describe, and where its packages go."""
    request = job_request(spec, trainer, remainder, target.settings.project)
    if not (request.config or request.pools or request.source):
        raise UsageError("What to run is not given.", hint="Give --worker-pool-spec, --config or both.")
    place = packages_place(target, trainer)
    draft = draft_request(target, request, place, trainer)
    if "displayName" not in draft.document:
        raise UsageError("--display-name=NAME must be given, or displayName in the file of --config.")
    return draft, place


def draft_request(target: Target, request: JobRequest, place: Place, trainer: TrainerFlags) -> Draft:
    """The draft of a request. Raises UnavailableError where an image would have to be built."""
    draft = compose(request, executor_required=not target.is_local)
    wants_image = trainer.package_format == "auto" and not target.is_local and not place.staging_bucket
    if draft.source is not None and wants_image:
        raise UnavailableError(
            "This version of vtrain does not build images yet.", hint="Give --staging-bucket=gs://NAME."
        )
    return draft


def open_for(
    target: Target, draft: Draft, container: ContainerFlags, gpu: GpuFlags | None = None, *, baked: bool
) -> Session:
    """The session in which the draft's job is started. Warns of flags that have no effect in it.

    `baked` says that the trainer becomes an image, which only containers run.
    """
    options = container_options(container, gpu)
    images = draft.images
    if baked:
        images = msgspec.structs.replace(images, containers=(*images.containers, *images.executors))
    session = target.open(images, options)
    if session.backend_name != "docker":
        for flag in given_flags(container, gpu):
            session.console.warn(f"{flag} concerns containers, and has no effect on {session.backend_name}.")
    if draft.output_image_uri and not baked:
        by_flag = gpu is not None and gpu.output_image_uri
        name = "--output-image-uri" if by_flag else "--worker-pool-spec: output-image-uri"
        session.console.warn(f"{name} has no effect: no image is made of the trainer. --bake makes one.")
    return session


def image_order(session: Session, draft: Draft) -> ImageOrder:
    """How the trainer becomes an image. Raises UsageError where there is nothing to make one of."""
    if draft.source is None:
        raise UsageError("There is no trainer to make an image of.", hint="Give --local-package-path=DIR.")
    if session.backend_name == "process":
        raise UsageError("An image is run by containers, and not by the backend process.", hint=BAKE_HINT)
    from vtrain.containers.discovery import find_engine

    options = session.settings.container
    return ImageOrder(platform=options.platform, pull=options.pull, engine=find_engine())


def is_baked(trainer: TrainerFlags, container: ContainerFlags) -> bool:
    """Whether the trainer becomes an image. Raises UsageError for flags that contradict each other."""
    if container.bake and trainer.package_format == "sdist":
        raise UsageError("--bake makes an image, and --package-format=sdist does not.")
    return container.bake or trainer.package_format == "image"


def packages_place(target: Target, trainer: TrainerFlags) -> Place:
    """Where packages are made and staged. Raises ConfigError in a folder that was removed."""
    check_current_folder()
    return Place(home=target.settings.home, staging_bucket=find_staging_bucket(trainer.staging_bucket))


def warn_all(console: Console, warnings: Sequence[str]) -> None:
    """The first warnings, and how many more there are."""
    for warning in warnings[:MAX_WARNINGS]:
        console.warn(warning)
    if len(warnings) > MAX_WARNINGS:
        console.warn(f"There are {len(warnings) - MAX_WARNINGS} more of these warnings.")


def show_plan(session: Session, prepared: Prepared, *, dry_run: bool) -> None:
    """Say what will be made, what is there already, and what this backend does not reproduce."""
    console, package = session.console, prepared.package
    warn_all(console, package.warnings if package is not None else ())
    for notice in prepared.plan.notices:
        console.warn(notice)
    if dry_run and package is not None:
        console.progress(would_make(package))
    for step in prepared.plan.steps:
        console.progress(step)
    for replica in prepared.plan.replicas if dry_run else ():
        console.progress(f"Would start {replica.name}: {' '.join(replica.argv)}")
