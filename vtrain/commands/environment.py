"""`vtrain custom-jobs environment`: what a replica would see, without running anything."""

from __future__ import annotations

from typing import Any

import msgspec

from vtrain.backends import Replica, ViewingBackend
from vtrain.commands.drafting import (
    becomes_image,
    draft_request,
    image_order,
    open_for,
    packages_place,
    warn_all,
)
from vtrain.commands.session import Session, find_target
from vtrain.errors import ConfigError, UnavailableError, UsageError
from vtrain.flags.compose import JobRequest
from vtrain.flags.options import (
    CommonFlags,
    ContainerFlags,
    PlaceFlags,
    ReplicaFlags,
    SpecFlags,
    TrainerFlags,
)
from vtrain.flags.request import job_request, with_key_of
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.secrets import masked_replica
from vtrain.submit import plan_job

NAME = "environment"
"""What a job is called that has no name; no replica sees it."""


def environment(
    spec: SpecFlags,
    trainer: TrainerFlags,
    wanted: ReplicaFlags,
    container: ContainerFlags,
    place: PlaceFlags,
    common: CommonFlags,
    remainder: tuple[str, ...] | None,
) -> None:
    """From the flags of `create` to what one replica of the job would see."""
    trial = _trial_id(wanted.trial)
    request = _unnamed(job_request(spec, trainer, remainder))
    target = find_target(common, place)
    packages = packages_place(target, trainer)
    draft = draft_request(target, with_key_of(request, spec, target.settings.project))
    baked = becomes_image(target, draft, packages, trainer, container)
    session = open_for(target, draft, container, baked=baked)
    image = image_order(session, draft) if baked else None
    job, package, _ = plan_job(draft, packages, strict=trainer.strict, image=image)
    warn_all(session.console, package.warnings if package is not None else ())
    replica = _chosen(_view(session, job, trial), wanted.replica)
    session.console.result(_document(replica), "yaml")


def _unnamed(request: JobRequest) -> JobRequest:
    """The request, which needs no display name here. Raises UsageError where what would run is missing."""
    if request.config is None and not request.pools and request.source is None:
        raise UsageError("What would run is not given.", hint="Give --config, --worker-pool-spec or both.")
    return msgspec.structs.replace(request, fallback_name=NAME)


def _trial_id(text: str) -> str:
    if text and not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise UsageError(f"--trial: expected a number from 1 on, found {text!r}.")
    return str(int(text)) if text else ""


def _view(session: Session, job: CustomJob, trial: str) -> tuple[Replica, ...]:
    """Raises UnavailableError for a backend that does not tell what replicas see."""
    if isinstance(session.backend, ViewingBackend):
        return session.backend.view(job, trial)
    replicas = session.backend.plan(job).replicas
    if trial or not replicas:
        raise UnavailableError(f"The backend {session.backend_name} does not tell what replicas see.")
    return replicas


def _chosen(replicas: tuple[Replica, ...], name: str) -> Replica:
    """Raises ConfigError for a replica that the job does not have."""
    for replica in replicas:
        if replica.name == name:
            return replica
    names = ", ".join(replica.name for replica in replicas)
    raise ConfigError(f"The job has no replica {name!r}.", hint=f"It has {names}.")


def _document(replica: Replica) -> dict[str, Any]:
    env, argv = masked_replica(replica.env, replica.argv)
    return {"replica": replica.name, "command": list(argv), "env": env}
