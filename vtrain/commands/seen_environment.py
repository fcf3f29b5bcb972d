"""`vtrain custom-jobs environment`: what a replica would see, without running anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import Replica, ViewingBackend
from vtrain.commands.drafting import PROJECT_HINT, is_baked, open_for, warn_all
from vtrain.commands.session import Session, find_target
from vtrain.core.preparation import draft_request, image_order, packages_place
from vtrain.core.submission import plan_job
from vtrain.errors import ConfigError, UnavailableError, UsageError
from vtrain.flags.job_options import EnvironmentLine
from vtrain.flags.request import job_line, key_layers
from vtrain.messages.secrets import masked_replica

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

NAME = "environment"
"""The name of a job without one; no replica sees it."""


def environment(given: EnvironmentLine, remainder: tuple[str, ...] | None) -> None:
    """Print the environment and the command of one replica of the job that the flags describe."""
    trial = given.wanted.trial
    if trial and not re.fullmatch("0*[1-9][0-9]{,17}", trial):
        raise UsageError(f"--trial: expected a number from 1 on, found {trial[:100]!r}.")
    line = job_line(given.spec, given.trainer)
    request = line.request(remainder)
    if not request.says_what_runs:
        hint = f"Give --config, --worker-pool-spec or both. {PROJECT_HINT}"
        raise UsageError("What would run is not given.", hint=hint)
    request = msgspec.structs.replace(request, fallback_name=NAME)
    target = find_target(given.common, given.place, region=line.region)
    packages = packages_place(target, line.trainer.staging_bucket)
    draft = draft_request(target, request.over(*key_layers(line.spec, target.settings.project)))
    baked = is_baked(target, draft, packages, line.trainer, given.container)
    session, packages = open_for(target, draft, packages, line, given.container, baked=baked)
    image = image_order(session, draft) if baked else None
    job, package, _ = plan_job(draft, packages, strict=line.trainer.strict, image=image)
    warn_all(session.console, package.warnings if package is not None else ())
    replica = _chosen(_view(session, job, trial.lstrip("0")), given.wanted.replica)
    env, argv = masked_replica(replica.env, replica.argv)
    session.console.result({"replica": replica.name, "command": list(argv), "env": env}, "yaml")


def _view(session: Session, job: Job, trial: str) -> tuple[Replica, ...]:
    """The replicas as they would see themselves. Raises UnavailableError for a backend that does not tell."""
    if isinstance(session.jobs, ViewingBackend):
        return session.jobs.view(job, trial)
    replicas = session.jobs.plan(job).replicas
    if trial or not replicas:
        raise UnavailableError(f"The backend {session.backend.name} does not tell what replicas see.")
    return replicas


def _chosen(replicas: tuple[Replica, ...], name: str) -> Replica:
    """The replica of that name. Raises ConfigError if the job has none."""
    for replica in replicas:
        if replica.name == name:
            return replica
    names = ", ".join(replica.name for replica in replicas)
    raise ConfigError(f"The job has no replica {name!r}.", hint=f"It has {names}.")
