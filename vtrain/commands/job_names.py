"""The names of jobs that a shell offers behind a TAB."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from vtrain.commands.jobs import query_all
from vtrain.commands.kinds import KINDS
from vtrain.commands.session import open_session
from vtrain.errors import VtrainError, WaitTimeoutError
from vtrain.flags.options import CommonFlags, PlaceFlags
from vtrain.messages.names import parse_name

MAX_JOBS = 50
PATIENCE = 3.0
"""Seconds that somebody who pressed TAB will wait for a service."""


def newest_jobs(collection: str, given: Mapping[str, Any]) -> list[str]:
    """Ids of the newest jobs of the place that the flags given so far name; none where it cannot be asked."""
    kind = KINDS[collection]
    common = CommonFlags(project=given.get("project"), quiet=True, user_output=False)
    place = PlaceFlags(backend=given.get("backend") or "", region=given.get("region") or "")
    with suppress(VtrainError, OSError), _at_most(PATIENCE):
        session = open_session(common, place, kind=kind)
        query = msgspec.structs.replace(query_all(session, kind), page_size=MAX_JOBS)
        names = [parse_name(job.name) for job in session.backend.list(query).jobs]
        return [name.id for name in names if name is not None]
    return []


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
