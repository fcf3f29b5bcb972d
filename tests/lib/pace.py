"""Limits on time that hold on a slow machine too, and beside other work."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

LOOP_SECONDS = 0.05
"""What `_loop` takes on the machine for which the limits were chosen."""


@contextlib.contextmanager
def at_most(seconds: float, why: str = "") -> Iterator[None]:
    """Fail where the block takes more of this process's processor time than that.

    A machine that counts more slowly than the one of the limits gets as many times the seconds.
    """
    began = time.process_time()
    yield
    taken = time.process_time() - began
    limit = seconds * max(1.0, _loop() / LOOP_SECONDS)
    assert taken < limit, f"{taken:.2f} s, of {limit:.2f} s. {why}"


def _loop() -> float:
    began = time.process_time()
    sum(number % 7 for number in range(1_000_000))
    return time.process_time() - began
