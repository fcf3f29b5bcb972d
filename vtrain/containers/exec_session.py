"""A command in a running container, on this process's stdin, stdout and stderr: the Engine's exec.

Source: the Engine API's "Exec". The connection carries the bytes of a terminal as they are; without one, the
output comes in frames.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from vtrain.containers.client import CallRefused, EngineCalls
from vtrain.containers.streams import FrameReader
from vtrain.errors import ClosedPipeError
from vtrain.retry import wait_until

STDIN, STDOUT, STDERR = 0, 1, 2
BLOCK_BYTES = 64 * 1024
END_SECONDS = 5.0
END_PAUSE_SECONDS = 0.01
"""The time for the engine to tell the exit code of a command whose output has ended."""
START_SECONDS = 5.0
START_PAUSE_SECONDS = 0.02
"""The time for the engine to start a command, in which its terminal has no size yet."""
DETACH_KEYS = ",".join(["ctrl-@"] * 8)
"""Nobody types this. The engine's default takes Ctrl-P away, which is a shell's previous command."""


class ExecSession:
    """One command, from its start to its exit code."""

    def __init__(
        self, calls: EngineCalls, container: str, argv: Sequence[str], *, env: Sequence[str], terminal: bool
    ) -> None:
        """`env` are `NAME=VALUE` beside the container's own. With `terminal` the command gets one.

        Raises CallRefused, as for a container that has ended.
        """
        self._calls = calls
        self._terminal = terminal
        streams = dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr"), True)
        body: dict[str, Any] = {**streams, "Tty": terminal, "Cmd": list(argv), "Env": list(env)}
        body |= {"DetachKeys": DETACH_KEYS} if terminal else {}
        self._id: str = calls.post(f"/containers/{container}/exec", body)["Id"]

    def run(self) -> int:
        """The command's exit code. Raises CallRefused, and ConnectionError where the engine goes away."""
        with self._calls.hijack(f"/exec/{self._id}/start", {"Detach": False, "Tty": self._terminal}) as link:
            if self._terminal:
                threading.Thread(target=self._tell_first_size, name="size", daemon=True).start()
                with self._own_terminal(), _typed_into(link, STDIN):
                    while block := link.recv(BLOCK_BYTES):
                        _write(STDOUT, block)
            else:
                frames = FrameReader()
                with _typed_into(link, STDIN):
                    while block := link.recv(BLOCK_BYTES):
                        for stream, payload in frames.feed(block):
                            _write(STDERR if stream == STDERR else STDOUT, payload)
        return self._exit_code()

    @contextmanager
    def _own_terminal(self) -> Iterator[None]:
        """The terminal of the caller passes each key on, Ctrl-C too, and its size as it changes."""
        before = termios.tcgetattr(STDIN)
        heard = signal.signal(signal.SIGWINCH, lambda *_: self._tell_size())
        tty.setraw(STDIN)
        try:
            yield
        finally:
            termios.tcsetattr(STDIN, termios.TCSADRAIN, before)
            signal.signal(signal.SIGWINCH, heard)

    def _tell_first_size(self) -> None:
        """The engine refuses the size of a command that it has not started yet."""
        wait_until(self._tell_size, START_SECONDS, START_PAUSE_SECONDS)

    def _tell_size(self) -> bool:
        """Whether the engine took the size: not if the command or the engine has just ended, or is slow."""
        try:
            columns, lines = os.get_terminal_size(STDIN)  # not COLUMNS and LINES, which a shell may have set
            self._calls.post(f"/exec/{self._id}/resize", h=lines, w=columns)
        except (CallRefused, OSError):
            return False
        return True

    def _exit_code(self) -> int:
        state: dict[str, Any] = {}

        def has_ended() -> bool:
            state.update(self._calls.get(f"/exec/{self._id}/json"))
            return not state["Running"]

        wait_until(has_ended, END_SECONDS, END_PAUSE_SECONDS)
        code = state["ExitCode"]
        if code is None:
            raise ConnectionError("the command's output has ended, and its exit code is not known")
        return int(code)


@contextmanager
def _typed_into(link: socket.socket, source: int) -> Iterator[None]:
    """Pass on what can be read from a descriptor, and its end, for as long as the block lasts.

    A thread does it: a command that is not read from stops reading, and would keep this process from reading.
    """
    over, tell = os.pipe()

    def pass_on() -> None:
        with suppress(OSError):  # the command has ended, and the connection with it
            while over not in select.select([source, over], [], [])[0]:
                block = os.read(source, BLOCK_BYTES)
                if not block:
                    socket.socket.shutdown(link, socket.SHUT_WR)  # an SSLSocket's own would end both ways
                    return
                link.sendall(block)

    thread = threading.Thread(target=pass_on, name="stdin", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.close(tell)
        with suppress(OSError):  # the engine was faster
            socket.socket.shutdown(link, socket.SHUT_RDWR)
        thread.join()
        os.close(over)


def _write(descriptor: int, data: bytes) -> None:
    """Write all of it. Raises ClosedPipeError where nobody reads any more."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except BrokenPipeError:
        raise ClosedPipeError("") from None
