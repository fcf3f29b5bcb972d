"""Writing to stdout and stderr: all of it, however long the reader takes, but not after a signal to end."""

from __future__ import annotations

import os
import select
import sys
import time

from vtrain.errors import ClosedPipeError, OutputError

UNREAD_SECONDS = 3.0
"""After a signal to end: the time for which a reader that takes nothing is waited for."""
_PIECE_BYTES = 512
"""Bytes that a ready pipe takes at once on every system (POSIX's PIPE_BUF)."""


class _Haste:
    """The end of a command that a signal has asked for, and whether anybody still reads what it writes."""

    def __init__(self) -> None:
        self.begun = False
        self.unread = False
        self._terminals: dict[str, int] = {}

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write a part, without waiting for long. Raises OutputError where nobody reads."""
        own = self._descriptor(descriptor)
        deadline = time.monotonic() + UNREAD_SECONDS
        while not self.unread and (left := deadline - time.monotonic()) > 0:
            if select.select([], [own], [], left)[1]:
                try:
                    return os.write(own, data[:_PIECE_BYTES])
                except BlockingIOError:  # there is room, but too little for a newline
                    time.sleep(0.01)
        self.unread = True
        raise OutputError("Nobody reads the output.")

    def _descriptor(self, descriptor: int) -> int:
        """The terminal once more, as a write to it can block although it is ready.

        The caller's own description is shared with other processes, and stays as it is.
        """
        try:
            name = os.ttyname(descriptor)
        except OSError:  # no terminal
            return descriptor
        if name not in self._terminals:
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            self._terminals[name] = os.open(name, flags)
        return self._terminals[name]


_haste = _Haste()


def set_haste(haste: bool) -> None:
    """Wait for no reader from now on, as the command has to end; or begin as usual."""
    _haste.begun = haste


def in_haste() -> bool:
    """Whether the command has to end."""
    return _haste.begun


def is_unread() -> bool:
    """Whether somebody may still be in the middle of a write that does not end."""
    return _haste.unread


def print_text(text: str) -> None:
    """Print a text and a newline on stdout, as UTF-8 in every locale. Raises as `write_all` does."""
    sys.stdout.flush()
    write_all(sys.stdout.fileno(), f"{text}\n".encode("utf-8", "backslashreplace"))


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it. Raises ClosedPipeError where the reader has gone, OutputError for any other reason."""
    view = memoryview(data)
    while view:
        try:
            view = view[_haste.write(descriptor, view) if _haste.begun else os.write(descriptor, view) :]
        except BlockingIOError:  # another process made the pipe non-blocking, and it is full
            time.sleep(0.01)
        except BrokenPipeError:
            raise ClosedPipeError("") from None
        except OSError as error:
            raise OutputError(f"Cannot write the output: {error.strerror}.") from error
