"""A create whose answer was lost: look whether the job is there before another one is made.

The API has no token that would make a create safe to repeat. What was created is known by its display name or
id, its time, and a specification that holds everything that was sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from vtrain.backends.vertex import retries
from vtrain.backends.vertex.retries import Trouble, trouble_of
from vtrain.errors import TerminatedBySignal, UnusableAnswerError

LOOKS = 2
"""How often one looks before the request is made again: a list may lag behind."""
LOOK_PAUSE = 2.0
"""Seconds between two looks."""
CLOCK_TOLERANCE = 2.0
"""Seconds that a create time may lie before the request: the service tells its clock in whole seconds."""
UNKNOWN_CLOCK_TOLERANCE = 300.0
"""The same where the service does not tell its clock."""

Document = dict[str, Any]


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """How a lost resource is looked for.

    `candidates` asks for those that may be it, `service_time` is the service's clock after that question, and
    `as_answer` makes of what was found what the create would have answered.
    """

    candidates: Callable[[], list[Document]]
    service_time: Callable[[], float]
    as_answer: Callable[[Document], Document]


def create_once(
    post: Callable[[], Document], sent: Document, search: Search, again: retries.Again
) -> Document:
    """The answer to the create: `post` is made again only when what it may have made is not there.

    Raises what the last attempt raised.
    """
    started, was_lost = time.time(), False
    for pause in (*retries.pauses(), None):
        try:
            return post()
        except TerminatedBySignal:
            raise
        except Exception as error:  # whatever is no trouble of the network or the service is raised again
            trouble = trouble_of(error)
            was_lost = was_lost or trouble is Trouble.LOST or isinstance(error, UnusableAnswerError)
            is_last = pause is None or trouble is Trouble.REFUSED or retries.asked_to_stay_away(error)
            if not is_last:
                again(error)
                retries.wait(pause or 0, error)
            if was_lost and (found := _look(sent, search, started)) is not None:
                return search.as_answer(found)
            if is_last:
                raise
    raise AssertionError("the last attempt returns or raises")


def _look(sent: Document, search: Search, started: float) -> Document | None:
    """The resource that the lost request made; None when there is none, after `LOOKS` looks."""
    for number in range(LOOKS):
        time.sleep(LOOK_PAUSE if number else 0)
        documents = search.candidates()
        earliest = _earliest(started, search.service_time())
        ours = [d for d in documents if covers(sent, d) and _instant(d) >= earliest]
        if ours:
            return min(ours, key=_instant)
    return None


def _earliest(started: float, service_time: float) -> float:
    """The first moment, on the service's clock, at which the request can have been carried out."""
    if not service_time:
        return started - UNKNOWN_CLOCK_TOLERANCE
    return service_time - (time.time() - started) - CLOCK_TOLERANCE


def _instant(document: Document) -> float:
    text = str(document.get("createTime", ""))
    try:
        return datetime.fromisoformat(text[:19] + "+00:00").timestamp()
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
