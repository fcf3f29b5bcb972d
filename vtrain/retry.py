"""Retries of a call that failed, and waiting until a condition is true."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


def retry(
    call: Callable[[], T],
    errors: type[E] | tuple[type[E], ...],
    *,
    pauses: Iterable[float],
    seconds: float = math.inf,
    passes: Callable[[E], bool] = lambda _: True,
    before_pause: Callable[[E], float | None] = lambda _: None,
    sleep: Callable[[float], object] | None = None,
) -> T:
    """The answer of `call`, which is made again after each pause while it raises one of `errors`.

    The last error is raised when the pauses are used up, or `seconds` have passed since the first call; an
    error for which `passes` is false is raised at once. `before_pause` gets each error that is not the last;
    it may return the least number of seconds to wait, and may raise. No pause ends after the `seconds`.
    """
    deadline = time.monotonic() + seconds
    for pause in pauses:
        try:
            return call()
        except errors as error:
            if time.monotonic() >= deadline or not passes(error):
                raise
            least = before_pause(error)
        (sleep or time.sleep)(min(max(pause, least or 0.0), max(deadline - time.monotonic(), 0.0)))
    return call()


def wait_until(
    condition: Callable[[], object], seconds: float, pause: float = 0.01, *, longest: float = 0.0
) -> bool:
    """Whether the condition became true within that time; it is asked at least once.

    With `longest` the pause between two questions doubles, up to that.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = max(pause, min(pause * 2, longest))
    return True


def steady(pause: float) -> Iterator[float]:
    """The same pause for ever."""
    return repeat(pause)


def growing(
    first: float, longest: float, *, times: int | None = None, jitter: float = 0.0
) -> Iterator[float]:
    """Pauses that double up to the longest; `times` of them, or for ever.

    Where many clients ask one service, each pause is changed by a random part of at most `jitter`, so that
    they do not all come back at once.
    """
    import random

    number, pause = 0, first
    while times is None or number < times:
        yield pause * random.uniform(1 - jitter, 1 + jitter)
        number, pause = number + 1, min(pause * 2, longest)
