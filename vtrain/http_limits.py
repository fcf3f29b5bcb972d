"""Limits of an HTTP exchange with a service: one deadline for the whole answer, and its size.

The time-outs of sockets hold for each read. A service that sends a byte now and then passes them for ever.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

LARGEST_ANSWER = 64 << 20
"""Bytes of an answer."""
SLOWEST_UPLOAD = 16 * 1024
"""Bytes per second: a deadline is prolonged by the time that the request's body takes at this rate."""
CUT_AGAIN_SECONDS = 1.0
"""A socket that is not yet there at the deadline is looked for again after this time."""


class Expiry:
    """A deadline that may have passed."""

    def __init__(self) -> None:
        self.passed = False


@contextmanager
def deadline(seconds: float, find_socket: Callable[[], Any]) -> Iterator[Expiry]:
    """A block whose socket is shut down after that time, so that a read of it ends."""
    over, expiry = Event(), Expiry()

    def watch() -> None:
        wait = seconds
        while not over.wait(wait):
            expiry.passed = True
            wait = CUT_AGAIN_SECONDS
            _shut_down(find_socket())

    thread = Thread(target=watch, name="deadline", daemon=True)
    thread.start()
    try:
        yield expiry
    finally:
        over.set()
        thread.join()


def _shut_down(connected: Any) -> None:
    if not isinstance(connected, socket.socket):
        return
    try:
        # not the method of an SSLSocket, which would take the object apart that another thread reads
        socket.socket.shutdown(connected, socket.SHUT_RDWR)
    except OSError:
        return  # the other side was faster
