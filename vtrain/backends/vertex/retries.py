"""Requests that are made again, and a create that is not: it is looked for first.

Five attempts in all, with growing pauses and jitter, in about half a minute. Reading, cancelling and deleting
may be repeated even when the first request was carried out: the second finds what the first one left. The API
has no token that would make a create safe to repeat. A resource whose create was not answered is known by its
display name or id, its time, and a specification that holds everything that was sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from typing import Any, TypeVar

import msgspec

from vtrain import times
from vtrain.backends.vertex.service_refusals import CallFailed, Trouble
from vtrain.errors import UnusableAnswerError
from vtrain.retry import growing, retry

T = TypeVar("T")
Document = dict[str, Any]
Tell = Callable[[CallFailed], None]
"""Called with each failure after which the same request is made again."""

ATTEMPTS = 5
FIRST_PAUSE = 1.5
"""Seconds before the second attempt; every further pause is twice as long."""
LONGEST_PAUSE = 16.0
LOOKS = 2
"""The number of searches for a resource before its create is repeated: a list may lag behind."""
LOOK_PAUSE = 2.0
"""Seconds between two looks."""
CLOCK_TOLERANCE = 2.0
"""Seconds that a create time may lie before the request: the service tells its clock in whole seconds."""
UNKNOWN_CLOCK_TOLERANCE = 300.0
"""The same where the service does not tell its clock."""
SAFE = (Trouble.NOT_DONE, Trouble.LOST)


def repeat(call: Callable[[], T], *, tell: Tell, troubles: Container[Trouble] = SAFE) -> T:
    """The answer to the call, made again while it fails with one of these troubles.

    Raises CallFailed; at once where the service asks for a pause longer than LONGEST_PAUSE.
    """

    def least_pause(failed: CallFailed) -> float:
        tell(failed)
        return failed.retry_after

    return retry(
        call,
        CallFailed,
        pauses=growing(FIRST_PAUSE, LONGEST_PAUSE, times=ATTEMPTS - 1, jitter=0.3),
        passes=lambda failed: failed.trouble in troubles and failed.retry_after <= LONGEST_PAUSE,
        before_pause=least_pause,
    )


class ServiceSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The search for a resource whose create was not answered.

    `candidates` asks for those that may be it, `service_time` is the service's clock after that question, and
    `as_answer` makes of the found one what the create would have answered.
    """

    candidates: Callable[[], list[Document]]
    service_time: Callable[[], float]
    as_answer: Callable[[Document], Document]


def create_once(post: Callable[[], Document], sent: Document, search: ServiceSearch, tell: Tell) -> Document:
    """The answer to the create: `post` is made again only when what it may have made is not there.

    Raises CallFailed or UnusableAnswerError, of the last attempt.
    """
    started, is_lost = time.time(), False

    def found() -> Document | None:
        return _look(sent, search, started) if is_lost else None

    def attempt() -> Document:
        nonlocal is_lost
        if (resource := found()) is not None:
            return search.as_answer(resource)
        try:
            return post()
        except (CallFailed, UnusableAnswerError) as error:
            is_lost = is_lost or not isinstance(error, CallFailed) or error.trouble is Trouble.LOST
            raise

    try:
        return repeat(attempt, tell=tell)
    except (CallFailed, UnusableAnswerError):
        if (resource := found()) is None:
            raise
        return search.as_answer(resource)


def _look(sent: Document, search: ServiceSearch, started: float) -> Document | None:
    """The resource that the request made; None when there is none, after `LOOKS` looks."""
    for number in range(LOOKS):
        time.sleep(LOOK_PAUSE if number else 0)
        documents = search.candidates()
        earliest = _earliest(started, search.service_time())
        ours = [d for d in documents if covers(sent, d) and _created(d) >= earliest]
        if ours:
            return min(ours, key=_created)
    return None


def _earliest(started: float, service_time: float) -> float:
    """The first moment, on the service's clock, at which the request can have been carried out."""
    if not service_time:
        return started - UNKNOWN_CLOCK_TOLERANCE
    return service_time - (time.time() - started) - CLOCK_TOLERANCE


def _created(document: Document) -> float:
    try:
        return times.epoch(str(document.get("createTime", "")))
    except ValueError:
        return 0.0


def covers(sent: Any, found: Any) -> bool:
    """Whether the service's value holds what was sent; it adds defaults, and a `/` to folders."""
    if found is None:
        return not sent
    if isinstance(sent, dict):
        return isinstance(found, dict) and all(covers(value, found.get(key)) for key, value in sent.items())
    if isinstance(sent, list):
        same_length = isinstance(found, list) and len(found) == len(sent)
        return same_length and all(covers(*pair) for pair in zip(sent, found, strict=True))
    if isinstance(sent, float | int) and isinstance(found, float | int):
        return sent == found
    return str(sent).rstrip("/") == str(found).rstrip("/")
