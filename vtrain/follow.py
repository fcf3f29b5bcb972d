"""The only loop that waits: states and log entries until a job has ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from vtrain.backends import JobBackend
from vtrain.errors import ContactLostError, StorageError, WaitTimeoutError
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.states import has_ended

T = TypeVar("T")

FASTEST_POLL = 0.015
SLOWEST_POLL = 0.15
SILENCE = 30.0
"""Seconds without a line after which a watcher is told that the job still lives."""
CONTACT_PATIENCE = 60.0
"""Seconds of failed questions after which contact counts as lost."""


class Watcher(Protocol):
    """Who looks on."""

    def saw_page(self, page: LogPage) -> None:
        """New log entries, in order."""

    def saw_job(self, job: CustomJob, elapsed: float) -> None:
        """The job as it stands; called at every question."""

    def cannot_ask(self, error: StorageError) -> None:
        """The question was refused for now, and is asked again; told once per trouble."""

    def heard_nothing(self, job: CustomJob, elapsed: float) -> None:
        """No line for another `SILENCE` seconds."""


class Follow(msgspec.Struct, frozen=True, kw_only=True):
    """What to wait for: the end of a job, with its log or without, for at most `timeout` seconds."""

    backend: JobBackend
    name: str
    query: LogQuery | None = None
    timeout: float | None = None
    slowest_poll: float = SLOWEST_POLL


def follow(order: Follow, watcher: Watcher) -> CustomJob:
    """The ended job, after every line of its log was shown.

    The state is asked before the log is read, so the page that comes back empty after an end is the last.
    Raises WaitTimeoutError, NotFoundError, and ContactLostError when the backend stays silent.
    """
    started = last_line = time.monotonic()
    cursor, pause = (order.query.cursor if order.query else ""), FASTEST_POLL
    while True:
        job = _ask(lambda: order.backend.get(order.name), order.name, watcher)
        page = _read(order, cursor, watcher)
        now = time.monotonic()
        watcher.saw_job(job, now - started)
        if page and page.entries:
            cursor, pause, last_line = page.cursor, FASTEST_POLL, now
            watcher.saw_page(page)
            continue
        cursor = page.cursor if page else cursor
        if has_ended(job.state):
            return job
        if order.timeout is not None and now - started >= order.timeout:
            raise WaitTimeoutError(f"{order.name} has not ended after {order.timeout:g} s; it goes on.")
        if now - last_line >= SILENCE:
            watcher.heard_nothing(job, now - started)
            last_line = now
        time.sleep(pause)
        pause = min(pause * 1.5, order.slowest_poll)


def _read(order: Follow, cursor: str, watcher: Watcher) -> LogPage | None:
    if order.query is None:
        return None
    query = msgspec.structs.replace(order.query, cursor=cursor)
    return _ask(lambda: order.backend.logs(query), order.name, watcher)


def _ask(question: Callable[[], T], name: str, watcher: Watcher) -> T:
    """Ask, and ask again while the answer is that storage or network refuse for the moment."""
    deadline, told = time.monotonic() + CONTACT_PATIENCE, False
    while True:
        try:
            return question()
        except StorageError as error:
            if not told:
                watcher.cannot_ask(error)
            told = True
            if time.monotonic() > deadline:
                raise ContactLostError(f"Contact to {name} is lost: {error.message}") from error
            time.sleep(1.0)
