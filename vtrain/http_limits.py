"""Limits of an HTTP exchange with a service: one deadline for the whole answer, and its size.

The time-outs of sockets hold for each read. A service that sends a byte now and then passes them for ever.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Condition, Thread
from typing import Any

LARGEST_ANSWER = 64 << 20
"""Bytes of an answer."""
SLOWEST_UPLOAD = 16 * 1024
"""Bytes per second: a deadline is prolonged by the time that the request's body takes at this rate."""
CUT_AGAIN_SECONDS = 1.0
"""A socket that is not yet there at the deadline is looked for again after this time."""


class Expiry:
    """A deadline that may have passed."""

    def __init__(self, find_socket: Callable[[], Any]) -> None:
        self.passed = False
        self._find_socket = find_socket

    def cut(self) -> None:
        """Shut the socket down, so that a read of it ends."""
        self.passed = True
        connected = self._find_socket()
        if isinstance(connected, socket.socket):
            with suppress(OSError):  # the other side was faster
                # Not the method of an SSLSocket, which would take the object apart that another thread reads.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)


class _Watchdog:
    """All deadlines of this process, watched by one thread, which begins with the first of them."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._due: dict[Expiry, float] = {}
        self._wakes = 0.0
        self._thread: Thread | None = None

    def add(self, expiry: Expiry, seconds: float) -> None:
        with self._changed:
            self._due[expiry] = due = time.monotonic() + seconds
            if self._thread is None:
                self._thread = Thread(target=self._run, name="deadlines", daemon=True)
                self._thread.start()
            elif due < self._wakes:
                self._changed.notify()

    def drop(self, expiry: Expiry) -> None:
        with self._changed:
            self._due.pop(expiry, None)

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for expiry in [each for each, due in self._due.items() if due <= now]:
                    expiry.cut()
                    self._due[expiry] = now + CUT_AGAIN_SECONDS
                self._wakes = min(self._due.values(), default=float("inf"))
                self._changed.wait(self._wakes - now if self._due else None)


_watch = _Watchdog()


@contextmanager
def deadline(seconds: float, find_socket: Callable[[], Any]) -> Iterator[Expiry]:
    """A block whose socket is shut down after that time, so that a read of it ends."""
    expiry = Expiry(find_socket)
    _watch.add(expiry, seconds)
    try:
        yield expiry
    finally:
        _watch.drop(expiry)
