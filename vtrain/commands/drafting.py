"""What create and local-run share: flags to a draft, and the plan as words."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from vtrain.backends import PUSHED_IMAGE
from vtrain.commands.buckets import find_buckets
from vtrain.commands.session import Session, Target, check_current_folder
from vtrain.engine.notices import declaration
from vtrain.errors import ConfigError, EngineError, UsageError
from vtrain.flags.compose import Draft, JobRequest, compose
from vtrain.flags.containers import container_options, given_flags
from vtrain.flags.local import (
    AIP_DIRS_FLAG,
    PREEMPTION_FLAG,
    LocalFlags,
    aip_dirs_form,
    simulated_preemption,
)
from vtrain.flags.options import ContainerFlags, GpuFlags, SpecFlags, TrainerFlags
from vtrain.flags.request import job_request
from vtrain.flags.secrets import with_callers_values
from vtrain.messages.secrets import masked_words
from vtrain.output.console import Console
from vtrain.settings import find_staging_bucket
from vtrain.submit import ImageOrder, Place, Prepared, would_make

MAX_WARNINGS = 10
IMAGE_FLAGS = ("--pull", "--platform")
"""Flags of containers that also concern the building of an image."""
QUEUE_FLAGS = ("--memory", "--require-accelerators")
"""Flags of containers that also say what a job needs of this machine, whatever it runs in."""
OWN_ACCOUNT = "the job runs as its service account"
POOL_KEY = "--worker-pool-spec: output-image-uri"
BAKE_HINT = "Take --backend=docker, and name a base with --executor-image-uri=IMAGE."


NO_NAME = "--display-name=NAME must be given, or displayName in the file of --config."


def create_request(spec: SpecFlags, trainer: TrainerFlags, remainder: tuple[str, ...] | None) -> JobRequest:
    """What the flags of `create` ask for. Raises UsageError where what to run, or its name, is missing."""
    request = job_request(spec, trainer, remainder)
    if request.config is None and not request.pools and request.source is None:
        raise UsageError("What to run is not given.", hint="Give --worker-pool-spec, --config or both.")
    if request.config is None and request.display_name is None and not request.assignments:
        raise UsageError(NO_NAME)
    return request


def draft_job(target: Target, request: JobRequest, trainer: TrainerFlags) -> tuple[Draft, Place]:
    """The job that the flags of `create` describe, and where its packages go."""
    place = packages_place(target, trainer)
    draft = draft_request(target, request)
    if "displayName" not in draft.document:
        raise UsageError(NO_NAME)
    return draft, place


def draft_request(target: Target, request: JobRequest) -> Draft:
    """The draft of a request, with the caller's values for `--env NAME`."""
    request = with_callers_values(request, local=target.is_local)
    return compose(request, executor_required=not target.is_local)


def with_local_flags(target: Target, local: LocalFlags) -> Target:
    """The target with what only this machine can do. Raises UsageError, ConfigError for a service."""
    preemption, aip_dirs = simulated_preemption(local), aip_dirs_form(local)
    given = [PREEMPTION_FLAG] * bool(preemption) + [AIP_DIRS_FLAG] * bool(aip_dirs)
    if given and not target.is_local:
        raise ConfigError(
            f"{given[0]} is for jobs on this machine.", hint="Leave it out, or take --backend=local."
        )
    settings = msgspec.structs.replace(target.settings, preemption=preemption, aip_dirs=aip_dirs)
    return msgspec.structs.replace(target, settings=settings)


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
            if (baked and flag in IMAGE_FLAGS) or (session.is_local and flag in QUEUE_FLAGS):
                continue
            session.console.warn(f"{flag} concerns containers, and has no effect on {session.backend_name}.")
    if options.credentials_file and not session.is_local:
        session.console.warn(f"--credentials has no effect on {session.backend_name}: {OWN_ACCOUNT}.")
    return session


def warn_of_name(session: Session, draft: Draft, flag: str = POOL_KEY) -> None:
    """Say that a name for an image has no effect where none is made."""
    if draft.output_image_uri:
        session.console.warn(f"{flag} has no effect: no image is made of the trainer. --bake makes one.")


def image_order(session: Session, draft: Draft) -> ImageOrder:
    """How the trainer becomes an image: for the engine here, or published for a service.

    Raises UsageError where there is nothing to make one of, ConfigError for a name or a platform that the
    service does not take.
    """
    if draft.source is None:
        raise UsageError("There is no trainer to make an image of.", hint="Give --local-package-path=DIR.")
    if session.backend_name == "process":
        raise UsageError("An image is run by containers, and not by the backend process.", hint=BAKE_HINT)
    options = session.settings.container
    order = ImageOrder(platform=options.platform, pull=options.pull)
    return with_engine(order if session.is_local else _published(order, session, draft))


def with_engine(order: ImageOrder) -> ImageOrder:
    """With the engine that answers. Without one the plan still tells first what is wrong with the trainer."""
    from vtrain.containers.discovery import find_engine

    with suppress(EngineError):
        return msgspec.structs.replace(order, engine=find_engine())
    return order


def _published(order: ImageOrder, session: Session, draft: Draft) -> ImageOrder:
    from vtrain.containers.publishing import PUBLISHED_PLATFORM, check_published_name, default_repository

    if order.platform not in ("", PUBLISHED_PLATFORM):
        raise ConfigError(
            f"--platform: the machines of Vertex AI are {PUBLISHED_PLATFORM}, not {order.platform}.",
            hint=f"Take --platform={PUBLISHED_PLATFORM}, or leave it out.",
        )
    if draft.output_image_uri:
        check_published_name(draft.output_image_uri, "output-image-uri")
    repository = default_repository(session.settings.project, draft.document["displayName"])
    return msgspec.structs.replace(order, platform=PUBLISHED_PLATFORM, push=True, repository=repository)


def becomes_image(
    target: Target, draft: Draft, place: Place, trainer: TrainerFlags, container: ContainerFlags
) -> bool:
    """Whether the trainer becomes an image: where that is asked for, or the backend runs images.

    A staging bucket decides for a Python package. Raises UsageError for flags that contradict each other.
    """
    if container.bake and trainer.package_format == "sdist":
        raise UsageError("--bake makes an image, and --package-format=sdist does not.")
    if container.bake or trainer.package_format != "auto":
        return container.bake or trainer.package_format == "image"
    pushed = target.traits.trainer_form == PUSHED_IMAGE
    return draft.source is not None and pushed and not place.staging_bucket


def packages_place(target: Target, trainer: TrainerFlags) -> Place:
    """Where packages are made and staged. Raises ConfigError in a folder that was removed."""
    check_current_folder()
    return Place(
        home=target.settings.home,
        buckets=find_buckets(target.choice.value, target.settings),
        staging_bucket=find_staging_bucket(trainer.staging_bucket),
        show=target.console.show_state,
    )


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
    if prepared.plan.not_reproduced:
        console.warn(declaration(prepared.plan.not_reproduced))
    if dry_run and package is not None:
        console.progress(would_make(package))
        if prepared.image is not None and prepared.image.push:
            console.progress(f"Would push {prepared.image_uri}.")
    for step in prepared.plan.steps:
        console.progress(step)
    for replica in prepared.plan.replicas if dry_run else ():
        console.progress(f"Would start {replica.name}: {' '.join(masked_words(replica.argv))}")
