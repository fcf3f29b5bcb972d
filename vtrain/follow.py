"""The only loop that waits: states and log entries until a job has ended."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from vtrain.backends import LOCAL_PACE, JobBackend, Pace
from vtrain.errors import (
    ContactLostError,
    CredentialsError,
    HomeError,
    ServiceAwayError,
    ServiceBusyError,
    ServiceError,
    StorageError,
    VtrainError,
    WaitTimeoutError,
)
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.states import has_ended

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

T = TypeVar("T")

PASSING = (StorageError, ServiceAwayError, ServiceBusyError)
"""Answers after which the same question is asked again."""
LASTING = (ServiceError, CredentialsError, HomeError)
"""Answers that do not change by asking: a role was taken away, a token has run out."""
SILENCE = 30.0
"""Seconds without a line after which a watcher is told that the job still lives."""
_GROWTH = 1.5
_NO_LOG = LogPage(entries=(), cursor="")


class Watcher(Protocol):
    """Who looks on."""

    def saw_page(self, page: LogPage) -> None:
        """New log entries, in order."""

    def saw_job(self, job: Job, elapsed: float) -> None:
        """The job as it stands; called at every question."""

    def cannot_ask(self, error: VtrainError) -> None:
        """The question was refused for now, and is asked again; told once per trouble."""

    def cannot_read(self, trouble: str) -> None:
        """The log cannot be read at present, or no more; the same trouble is told once."""

    def heard_nothing(self, job: Job, elapsed: float) -> None:
        """No line for another `SILENCE` seconds."""


class Follow(msgspec.Struct, frozen=True, kw_only=True):
    """What to wait for: the end of a job, with its log or without, for at most `timeout` seconds.

    The backend says how often to ask; with `slowest_poll`, no pause is longer than that.
    """

    backend: JobBackend
    name: str
    query: LogQuery | None = None
    timeout: float | None = None
    slowest_poll: float | None = None


def follow(order: Follow, watcher: Watcher) -> Job:
    """The ended job, after every line of its log was shown.

    The state is asked before the log is read, so a page that comes back empty after an end may be the last.
    Raises WaitTimeoutError, NotFoundError, and ContactLostError when the backend stays silent, or refuses
    after it has answered once.
    """
    pace = _pace(order)
    started = last_line = time.monotonic()
    page, pause = LogPage(entries=(), cursor=order.query.cursor if order.query else ""), pace.fastest
    told: set[str] = set()
    job: Job | None = None
    while True:
        try:
            job = _ask(lambda: order.backend.get(order.name), order.name, pace, watcher)
            watcher.saw_job(job, time.monotonic() - started)
            page = _read(order, page.cursor, pace, watcher)
        except LASTING as error:
            if job is None:
                raise
            raise _lost(order.name, error) from error
        now = time.monotonic()
        if page.trouble and page.trouble not in told:
            told.add(page.trouble)
            watcher.cannot_read(page.trouble)
        if page.entries:
            pause, last_line = pace.fastest, now
            watcher.saw_page(page)
            if page.more:
                continue
        if has_ended(job.state):
            if not page.entries and page.settled:
                return job
            time.sleep(pace.fastest)
            continue
        time_left = math.inf if order.timeout is None else order.timeout - (now - started)
        if time_left <= 0:
            raise WaitTimeoutError(f"{order.name} has not ended after {order.timeout:g} s; it goes on.")
        if now - last_line >= SILENCE:
            watcher.heard_nothing(job, now - started)
            last_line = now
        time.sleep(min(pause, time_left))
        pause = min(pause * _GROWTH, pace.slowest)


def _pace(order: Follow) -> Pace:
    pace: Pace = getattr(order.backend, "pace", LOCAL_PACE)
    if order.slowest_poll is None:
        return pace
    fastest, slowest = min(pace.fastest, order.slowest_poll), min(pace.slowest, order.slowest_poll)
    return msgspec.structs.replace(pace, fastest=fastest, slowest=slowest)


def _read(order: Follow, cursor: str, pace: Pace, watcher: Watcher) -> LogPage:
    if order.query is None:
        return _NO_LOG
    query = msgspec.structs.replace(order.query, cursor=cursor)
    return _ask(lambda: order.backend.logs(query), order.name, pace, watcher)


def _ask(question: Callable[[], T], name: str, pace: Pace, watcher: Watcher) -> T:
    """Ask, and ask again while the answer is that storage or network refuse for the moment."""
    deadline, told = time.monotonic() + pace.patience, False
    while True:
        try:
            return question()
        except HomeError:
            raise
        except PASSING as error:
            if not told:
                watcher.cannot_ask(error)
            told = True
            if time.monotonic() > deadline:
                raise _lost(name, error) from error
            time.sleep(1.0)


def _lost(name: str, error: VtrainError) -> ContactLostError:
    return ContactLostError(f"Contact to {name} is lost: {error.message}", hint=error.hint)
