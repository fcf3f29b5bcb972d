"""A replica's terminal: a pseudo terminal in place of pipes, its size, and the keys that are typed for it.

Standard library only: part of the shim, which loads it only for a replica that gets a terminal. Nothing here
is the controlling terminal of any process: no key becomes a signal, and no window that is closed a hangup.

The process that lends the replica a window writes messages into a FIFO of the job, one JSON document a line:
`{"columns": 80, "lines": 24}` or `{"keys": "next\\r"}`, where each character stands for one byte.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import termios

MAX_MESSAGE_BYTES = 4096
"""The most bytes that a FIFO takes in one piece (POSIX: at least 512, Linux: 4096)."""
_MOST_TYPED = 64 * 1024
_LARGEST_SIZE = 0xFFFF
_OUTPUT_FLAGS = 1


class WindowMessages:
    """The messages about one window: its size by now, and the keys that are typed in it."""

    def __init__(self, fifo: str) -> None:
        self.size = (0, 0)
        self._heard = b""
        try:  # for writing too: it does not end when the last writer leaves
            self.fifo = os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # somebody removed it; the size stays what it was
            self.fifo = -1

    def hear(self) -> bytes:
        """Read the messages that have come; the keys that were typed."""
        try:
            self._heard += os.read(self.fifo, MAX_MESSAGE_BYTES)
        except BlockingIOError:
            return b""
        *messages, self._heard = self._heard.split(b"\n")
        self._heard = self._heard[-MAX_MESSAGE_BYTES:]
        return b"".join(self._take(message) for message in messages)

    def resize(self, sent: dict) -> None:  # type: ignore[type-arg]
        """Take the size out of a document, if it has one that makes sense."""
        lines, columns = sent.get("lines"), sent.get("columns")
        if isinstance(lines, int) and isinstance(columns, int) and min(lines, columns) > 0:
            self.size = min(lines, _LARGEST_SIZE), min(columns, _LARGEST_SIZE)

    def _take(self, message: bytes) -> bytes:
        try:
            sent = json.loads(message)
        except ValueError:  # a trainer may write into its own files whatever it likes
            return b""
        if not isinstance(sent, dict):
            return b""
        self.resize(sent)
        keys = sent.get("keys")
        return keys.encode("latin-1", "replace") if isinstance(keys, str) else b""


class TrainerTerminal:
    """The pseudo terminal of one replica. `spec` is a LentTerminal: which streams it is, and how large.

    It is one for stdout and stderr where both are terminals, as only so their order is kept. The log cannot
    tell them apart then.
    """

    def __init__(self, spec: dict) -> None:  # type: ignore[type-arg]
        self._spec = spec
        self._master = -1
        self._typed = b""
        self._messages = WindowMessages(spec["fifo"])
        self._messages.resize(spec)
        self.fifo = self._messages.fifo

    def replaces(self, stream: str) -> bool:
        """Whether `stdout` or `stderr` is a terminal."""
        return bool(self._spec.get(stream))

    @property
    def is_for_both(self) -> bool:
        """Whether stdout and stderr are this terminal."""
        return self.replaces("stdout") and self.replaces("stderr")

    @property
    def is_interactive(self) -> bool:
        """Whether stdin is the terminal of stdout."""
        return bool(self._spec.get("interactive")) and self.replaces("stdout")

    @property
    def is_typing(self) -> bool:
        """Whether there are keys that the terminal has not taken yet."""
        return bool(self._typed)

    def open(self) -> tuple[int, int]:
        """Make it: our end, and the replica's. The bytes pass as they are written."""
        ours, theirs = os.openpty()
        modes = termios.tcgetattr(theirs)
        modes[_OUTPUT_FLAGS] &= ~termios.OPOST  # else each newline would come with a carriage return
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        self._master = ours
        self._apply_size()
        return ours, theirs

    def hear(self) -> bool:
        """Read the messages that have come. Whether the size has changed: then the replica has to know."""
        before = self._messages.size
        keys = self._messages.hear()
        if self.is_interactive:
            self._typed = (self._typed + keys)[:_MOST_TYPED]
        is_resized = self._messages.size != before
        if is_resized:
            self._apply_size()
        self.type()
        return is_resized

    def type(self) -> None:
        """Hand the waiting keys to the terminal, as many as it takes now."""
        if not self._typed or self._master < 0:
            return
        try:
            self._typed = self._typed[os.write(self._master, self._typed) :]
        except BlockingIOError:
            return
        except OSError:  # the replica has closed it
            self._typed = b""

    def owns(self, descriptor: int) -> bool:
        """Whether this is our end of the terminal."""
        return descriptor == self._master

    def forget(self) -> None:
        """No process of the replica has the terminal any more, and the shim closes it."""
        self._master = -1
        self._typed = b""

    def _apply_size(self) -> None:
        if self._master >= 0:
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", *self._messages.size, 0, 0))
