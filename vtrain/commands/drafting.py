"""What create and local-run share: flags to a draft, and the plan as words."""

from __future__ import annotations

from collections.abc import Sequence

from vtrain.commands.session import Session
from vtrain.errors import UnavailableError, UsageError
from vtrain.flags.compose import Draft, JobRequest, compose
from vtrain.flags.options import SpecFlags, TrainerFlags
from vtrain.flags.request import job_request
from vtrain.output.console import Console
from vtrain.settings import find_staging_bucket
from vtrain.submit import Place, Prepared, describe

MAX_WARNINGS = 10


def draft_job(
    session: Session, spec: SpecFlags, trainer: TrainerFlags, remainder: tuple[str, ...] | None
) -> tuple[Draft, Place]:
    """The job that the flags of `create` describe, and where its packages go."""
    request = job_request(spec, trainer, remainder, session.settings.project)
    if not (request.config or request.pools or request.source):
        raise UsageError("What to run is not given.", hint="Give --worker-pool-spec, --config or both.")
    place = packages_place(session, trainer)
    draft = draft_request(session, request, place, trainer)
    if "displayName" not in draft.document:
        raise UsageError("--display-name=NAME must be given, or displayName in the file of --config.")
    return draft, place


def draft_request(session: Session, request: JobRequest, place: Place, trainer: TrainerFlags) -> Draft:
    """The draft of a request. Raises UnavailableError where an image would have to be built."""
    draft = compose(request, executor_required=not session.is_local)
    wants_image = trainer.package_format == "auto" and not session.is_local and not place.staging_bucket
    if draft.source is not None and wants_image:
        raise UnavailableError(
            "This version of vtrain does not build images yet.", hint="Give --staging-bucket=gs://NAME."
        )
    return draft


def packages_place(session: Session, trainer: TrainerFlags) -> Place:
    """Where packages are made and staged."""
    return Place(home=session.settings.home, staging_bucket=find_staging_bucket(trainer.staging_bucket))


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
        console.progress(f"Would package {package.file_name}: {describe(package)}.")
    for step in prepared.plan.steps:
        console.progress(step)
    for replica in prepared.plan.replicas if dry_run else ():
        console.progress(f"Would start {replica.name}: {' '.join(replica.argv)}")
