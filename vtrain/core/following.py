"""The only loop that waits for a job: it reads states and log entries until the job has ended."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from vtrain.backends import LOCAL_PACE, JobBackend, Pace
from vtrain.errors import (
    ContactLostError,
    CredentialsError,
    HomeError,
    NotFoundError,
    ServiceAwayError,
    ServiceBusyError,
    ServiceError,
    StorageError,
    VtrainError,
    WaitTimeoutError,
)
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.states import has_ended, short
from vtrain.retry import retry, steady

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

T = TypeVar("T")

PASSING = (StorageError, ServiceAwayError, ServiceBusyError)
"""Errors after which the same request is sent again."""
LASTING = (ServiceError, CredentialsError, HomeError)
"""Errors that repeating a request does not change: a revoked role, an expired token."""
SILENCE = 30.0
"""Seconds without a line after which the watcher learns that the job goes on."""
_GROWTH = 1.5
_ASK_AGAIN = 1.0
_NO_LOG = LogPage(entries=(), cursor="")


class Watcher(Protocol):
    """The display of a job that is followed."""

    def saw_page(self, page: LogPage) -> None:
        """New log entries, in order."""

    def saw_job(self, job: Job, elapsed: float) -> None:
        """The job's present state; called at every poll."""

    def cannot_ask(self, error: VtrainError) -> None:
        """A request failed for now, and is repeated; called once until a request succeeds."""

    def cannot_read(self, trouble: str) -> None:
        """The log cannot be read at present, or any more; called once for the same trouble."""

    def heard_nothing(self, job: Job, elapsed: float) -> None:
        """No line for another `SILENCE` seconds."""


class Follow(msgspec.Struct, frozen=True, kw_only=True):
    """A job to follow to its end, with its log (`query`) or without, for at most `timeout` seconds.

    The backend sets the pauses between polls; `slowest_poll` is an upper limit, in seconds.
    """

    backend: JobBackend
    name: str
    query: LogQuery | None = None
    timeout: float | None = None
    slowest_poll: float | None = None


def follow(order: Follow, watcher: Watcher) -> Job:
    """Wait until the job has ended and every line of its log was shown; return the ended job.

    Raises WaitTimeoutError, NotFoundError, and ContactLostError when the backend does not answer, or refuses
    after it has answered once, or when somebody deletes the job before its end was seen.
    """
    job: Job | None = None
    for seen in looks(order, watcher):
        job = seen
    assert job is not None
    return job


def looks(order: Follow, watcher: Watcher) -> Iterator[Job]:
    """The same in steps: the job at each look, the ended job last. Raises as `follow` does."""
    return _Following(order, watcher).looks()


class _Following:
    """The state while one job is followed."""

    def __init__(self, order: Follow, watcher: Watcher) -> None:
        self._order = order
        self._watcher = watcher
        self._pace = _pace(order)
        self._pause = self._pace.fastest
        self._cursor = order.query.cursor if order.query else ""
        self._started = self._heard = time.monotonic()
        self._has_lines = False
        self._told: set[str] = set()
        self._job: Job | None = None

    def looks(self) -> Iterator[Job]:
        while True:
            job, page = self._look()
            yield job
            if has_ended(job.state):
                if self._is_last(page):
                    return
                self._pause = self._pace.fastest
            else:
                self._check_timeout()
                if time.monotonic() - self._heard >= SILENCE:
                    self._watcher.heard_nothing(job, self._elapsed())
                    self._heard = time.monotonic()
            if not (page.entries and page.more):
                time.sleep(min(self._pause, self._time_left()))
                self._pause = min(self._pause * _GROWTH, self._pace.slowest)

    def _look(self) -> tuple[Job, LogPage]:
        """The job and its next page, both of which the watcher has seen."""
        # The state is read before the log: an empty page of an ended job is then the last one.
        try:
            job = self._ask(lambda: self._order.backend.get(self._order.name))
            if has_ended(job.state) and not self._has_ended():
                self._heard = time.monotonic()
            self._job = job
            self._watcher.saw_job(job, self._elapsed())
            page = self._read()
            if not (page.entries or self._has_ended()):
                self._look_after()
        except NotFoundError as error:
            job, page = self._deleted(error)
        except LASTING as error:
            if self._job is None:
                raise
            raise _lost(self._order.name, error) from error
        self._tell(page.trouble)
        if page.entries and self._has_lines and page.cursor == self._cursor:
            # Each look would bring the same lines, and with `more` without a pause.
            self._tell("The log repeats itself; what it repeats is not shown.")
            page = msgspec.structs.replace(page, entries=(), more=False)
        self._cursor = page.cursor
        if page.entries:
            self._has_lines = True
            self._pause, self._heard = self._pace.fastest, time.monotonic()
            self._watcher.saw_page(page)
        return job, page

    def _deleted(self, error: NotFoundError) -> tuple[Job, LogPage]:
        """The end of a job that was deleted after it had ended; any other deleted job has no known end."""
        if self._job is None:
            raise error
        if not self._has_ended():
            state = short(self._job.state)
            raise ContactLostError(
                f"{self._order.name} was deleted while it was {state}: how it ended is not known."
            ) from error
        trouble = "The job was deleted before its log was read to the end." if self._order.query else ""
        return self._job, LogPage(entries=(), cursor=self._cursor, trouble=trouble)

    def _read(self) -> LogPage:
        if self._order.query is None:
            return _NO_LOG
        query = msgspec.structs.replace(self._order.query, cursor=self._cursor)
        return self._ask(lambda: self._order.backend.logs(query))

    def _look_after(self) -> None:
        """Hear why the job does not go on, where its backend tells. Raises HomeError if it never will."""
        try:
            getattr(self._order.backend, "look_after", lambda _name: None)(self._order.name)
        except HomeError:
            raise
        except StorageError as error:
            self._tell(error.message)

    def _is_last(self, page: LogPage) -> bool:
        """Whether this page of a job that has ended is the last; a log that does not end is given up."""
        if not page.entries and page.settled:
            return True
        patience = self._pace.patience
        if not page.entries and time.monotonic() - self._heard >= patience:
            self._tell(f"No line for {patience:g} s after the job's end: the end of the log may be missing.")
            return True
        timeout = self._order.timeout
        if timeout is not None and self._elapsed() >= timeout + patience:
            self._tell(f"The job has ended, and its log is not read through after {self._elapsed():.0f} s.")
            return True
        return False

    def _ask(self, question: Callable[[], T]) -> T:
        """Send a request, and repeat it while storage or network fail for the moment."""
        has_said = False

        def tell(error: VtrainError) -> None:
            nonlocal has_said
            if not has_said:
                self._watcher.cannot_ask(error)
            has_said = True
            if self._job is None and self._time_left() <= 0:
                raise _lost(self._order.name, error) from error
            self._check_timeout()

        try:
            return retry(
                question,
                PASSING,
                passes=lambda error: not isinstance(error, HomeError),
                before_pause=tell,
                pauses=steady(_ASK_AGAIN),
                seconds=self._pace.patience,
                sleep=lambda pause: time.sleep(min(pause, self._time_left())),
            )
        except HomeError:
            raise
        except PASSING as error:
            if not has_said:
                self._watcher.cannot_ask(error)
            raise _lost(self._order.name, error) from error

    def _check_timeout(self) -> None:
        if self._time_left() <= 0:
            text = f"{self._order.name} has not ended after {self._order.timeout:g} s; it goes on."
            raise WaitTimeoutError(text)

    def _tell(self, trouble: str) -> None:
        if trouble and trouble not in self._told:
            self._told.add(trouble)
            self._watcher.cannot_read(trouble)

    def _has_ended(self) -> bool:
        return self._job is not None and has_ended(self._job.state)

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _time_left(self) -> float:
        """Seconds until `timeout`, which limits the job and not the reading of its log."""
        if self._order.timeout is None or self._has_ended():
            return math.inf
        return self._order.timeout - self._elapsed()


def _pace(order: Follow) -> Pace:
    pace: Pace = getattr(order.backend, "pace", LOCAL_PACE)
    if order.slowest_poll is None:
        return pace
    fastest, slowest = min(pace.fastest, order.slowest_poll), min(pace.slowest, order.slowest_poll)
    return msgspec.structs.replace(pace, fastest=fastest, slowest=slowest)


def _lost(name: str, error: VtrainError) -> ContactLostError:
    return ContactLostError(f"Contact to {name} is lost: {error.message}", hint=error.hint)
