"""How tests wait: until something is so, or is gone. No test has a loop with a deadline of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sized
from typing import TypeVar

T = TypeVar("T")
S = TypeVar("S", bound=Sized)

PATIENCE_SECONDS = 150.0
"""Far longer than anything takes here, also on a machine that does other things."""


def wait_until(
    reached: Callable[[], T],
    why: object = "this took too long",
    *,
    pause: float = 0.02,
    patience: float = PATIENCE_SECONDS,
) -> T:
    """Ask every `pause` seconds until the answer is true; that answer.

    After `patience` seconds the test fails and says `why`, or what it returns where it is a function.
    """
    deadline = time.monotonic() + patience
    while not (found := reached()):
        if time.monotonic() > deadline:
            raise AssertionError(why() if callable(why) else why)
        time.sleep(pause)
    return found


def wait_until_gone(
    find: Callable[[], S], *, pause: float = 0.02, patience: float = PATIENCE_SECONDS
) -> None:
    """Look every `pause` seconds until nothing is found; after `patience` seconds the test fails."""
    wait_until(lambda: not find(), lambda: f"still there: {find()}", pause=pause, patience=patience)
