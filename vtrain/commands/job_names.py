"""The names of jobs that a shell offers behind a TAB."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from vtrain.commands.jobs import query_all
from vtrain.commands.kinds import CUSTOM_JOB, KINDS
from vtrain.commands.session import open_named, open_session
from vtrain.errors import VtrainError, WaitTimeoutError
from vtrain.flags.options import CommonFlags, PlaceFlags
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.resources import Job
from vtrain.messages.states import has_ended, short
from vtrain.output.terminal import visible
from vtrain.times import ago

MAX_JOBS = 50
PATIENCE = 3.0
"""Seconds that somebody who pressed TAB will wait for a service."""


_RUNNING_ONLY = frozenset({"cancel", "stop", "wait", "shell", "exec"})
_ENDED_ONLY = frozenset({"delete", "rm"})
"""Commands that are about jobs in some states only."""


def newest_jobs(collection: str, command: str, given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Ids of jobs that the command can be about, the newest first, each with its state, age and display name.

    They are in the place that the flags given so far name; there are none where it cannot be asked.
    """
    kind = KINDS[collection]
    with suppress(VtrainError, OSError), _at_most(PATIENCE):
        session = open_session(*_flags(given), kind=kind)
        query = msgspec.structs.replace(query_all(session, kind), page_size=MAX_JOBS)
        jobs = session.jobs.list(query).jobs
        return [(job.name.rpartition("/")[2], _text(job)) for job in jobs if _is_meant(command, job.state)]
    return []


def replicas_of(job: str, given: Mapping[str, Any]) -> list[str]:
    """The names of a custom job's replicas; none where it cannot be asked."""
    from vtrain.runtime.replica import replica_ids

    with suppress(VtrainError, OSError), _at_most(PATIENCE):
        common, place = _flags(given)
        session, name = open_named(common, place, job, CUSTOM_JOB)
        found = session.jobs.get(name)
        return (
            [replica.name for replica in replica_ids(found.job_spec)] if isinstance(found, CustomJob) else []
        )
    return []


def _flags(given: Mapping[str, Any]) -> tuple[CommonFlags, PlaceFlags]:
    common = CommonFlags(project=given.get("project"), quiet=True, user_output=False)
    return common, PlaceFlags(backend=given.get("backend") or "", region=given.get("region") or "")


def _is_meant(command: str, state: str) -> bool:
    ended = has_ended(state)
    return not ((command in _RUNNING_ONLY and ended) or (command in _ENDED_ONLY and not ended))


def _text(job: Job) -> str:
    words = (short(job.state), ago(job.create_time), job.display_name)
    return visible(", ".join(filter(None, words)))


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """End the block with WaitTimeoutError when it takes longer."""

    def give_up(_number: int, _frame: object) -> None:
        raise WaitTimeoutError("")

    previous = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
