"""A container's terminal: the window whose size it has, and the keys that are typed for it.

The engine gives a container's program one terminal as stdin, stdout and stderr, or none. A job without
`--interactive` has nobody who types: its terminal gets, now and then, an end of the input, so that a
trainer that reads fails at once instead of waiting for ever.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

import msgspec

from vtrain.containers.engine import Engine, engine_errors
from vtrain.containers.exec_session import DETACH_KEYS
from vtrain.errors import EngineError
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.job_order import JobOrder, LentTerminal
from vtrain.runtime.process.trainer_terminal import WindowMessages

END_OF_INPUT = b"\x04"
END_OF_INPUT_SECONDS = 1.0
"""A program that reads key by key drops what was typed before, so that the end is sent again."""
_LARGEST_UNREAD = 64 * 1024


def own_terminal(order: JobOrder, folder: JobFolder) -> LentTerminal | None:
    """The terminal that the job's container gets; None: it gets pipes.

    An engine gives it for all streams or for none. To type, stdout is enough, as for `docker run -it`.
    """
    terminal = order.terminal
    if terminal is None or not terminal.stdout or not (terminal.stderr or terminal.interactive):
        return None
    return msgspec.structs.replace(terminal, fifo=str(folder.terminal_fifo))


class ContainerWindow:
    """The window that one container has."""

    def __init__(self, engine: Callable[[], Engine], container: str, terminal: LentTerminal) -> None:
        """`engine` gives the engine, or raises EngineError."""
        self._engine = engine
        self._path = f"/containers/{container}"
        self._terminal = terminal
        self._size = (0, 0)
        self._link: socket.socket | None = None
        self._links = ExitStack()
        self._over, self._tell = os.pipe()
        self._thread = threading.Thread(target=self._pass_on, name="window", daemon=True)

    def open(self) -> None:
        """Give the program its size, at once, and pass on what comes until `close`."""
        if self._thread.ident is None:
            self._resize((self._terminal.lines, self._terminal.columns))
            self._thread.start()

    def close(self) -> None:
        """Pass nothing on any more."""
        os.close(self._tell)
        if self._thread.ident is not None:
            self._thread.join()
        self._links.close()
        os.close(self._over)

    def _pass_on(self) -> None:
        messages = WindowMessages(self._terminal.fifo)
        heard = [messages.fifo] if messages.fifo >= 0 else []
        typed, end_at = b"", time.monotonic()
        try:
            while True:
                writable = [self._link] if typed and self._link is not None else []
                readable, _, _ = select.select([self._over, *heard], writable, [], END_OF_INPUT_SECONDS)
                if self._over in readable:
                    return
                if heard and heard[0] in readable:
                    keys = messages.hear()
                    if self._terminal.interactive:
                        typed = (typed + keys)[:_LARGEST_UNREAD]
                    self._resize(messages.size)
                if not self._terminal.interactive and time.monotonic() >= end_at:
                    typed, end_at = END_OF_INPUT, time.monotonic() + END_OF_INPUT_SECONDS
                typed = self._type(typed)
        finally:
            if messages.fifo >= 0:
                os.close(messages.fifo)

    def _type(self, keys: bytes) -> bytes:
        """Type as many keys as the connection takes now; those that are left."""
        if not keys:
            return b""
        try:
            if self._link is None:
                params = {"stream": 1, "stdin": 1, "detachKeys": DETACH_KEYS}
                attached = self._engine().calls.hijack(f"{self._path}/attach", params=params)
                with engine_errors("attach to the container"):
                    self._link = self._links.enter_context(attached)
            if not select.select([], [self._link], [], 0)[1]:
                return keys
            return keys[self._link.send(keys) :]
        except (EngineError, OSError):  # the container has ended, or the engine is away: the next try tells
            self._links.close()
            self._link = None
            return keys if self._terminal.interactive else b""

    def _resize(self, size: tuple[int, int]) -> None:
        if size == self._size or not all(size):
            return
        # After an error the next try tells, as above: the command sends its size every second.
        with suppress(EngineError), engine_errors("resize the container's terminal"):
            self._engine().calls.post(f"{self._path}/resize", h=size[0], w=size[1])
            self._size = size
