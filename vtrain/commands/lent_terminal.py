"""This terminal, lent to a trainer for a while: its size, what it can do, and the keys that are typed."""

from __future__ import annotations

import json
import os
import select
import sys
import termios
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vtrain.backends.interface import INTERACTIVE_FLAG
from vtrain.errors import UsageError
from vtrain.runtime.job_order import LentTerminal

VARIABLES = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE")
"""Variables that tell programs what a terminal can do, and whether its user wants colours."""
TELL_AGAIN_SECONDS = 1.0
"""The trainer's terminal may be another one by now: each attempt has its own."""
_KEYS_AT_ONCE = 512  # so that a message, escapes included, is written in one piece
_INPUT_FLAGS, _LOCAL_FLAGS, _KEYS = 0, 3, 6


def find_terminal(*, interactive: bool) -> LentTerminal | None:
    """This command's terminal, as far as its stdout and stderr are one; None where neither is.

    Raises UsageError for `interactive` without a terminal to type on.
    """
    stdout, stderr = sys.stdout.isatty(), sys.stderr.isatty()
    if interactive and not (stdout and sys.stdin is not None and sys.stdin.isatty()):
        raise UsageError(f"{INTERACTIVE_FLAG} needs a terminal, and stdin or stdout is none.")
    if not (stdout or stderr):
        return None
    columns, lines = _size()
    # An order is JSON, which cannot hold any bytes; no terminal's name has others than ASCII's.
    variables = {
        name: os.environ[name] for name in VARIABLES if name in os.environ and os.environ[name].isascii()
    }
    return LentTerminal(
        columns=columns,
        lines=lines,
        stdout=stdout,
        stderr=stderr,
        interactive=interactive,
        variables=variables,
    )


class Window:
    """Tells the trainer's terminal how large this one is."""

    def __init__(self, fifo: Path) -> None:
        self._fifo = fifo
        self._told = (0, 0)
        self._told_at = 0.0

    def keep_up(self) -> None:
        """Tell the size if it has changed, and now and then anyway."""
        size, now = _size(), time.monotonic()
        if size == self._told and now - self._told_at < TELL_AGAIN_SECONDS:
            return
        if _send(self._fifo, {"columns": size[0], "lines": size[1]}):
            self._told, self._told_at = size, now


@contextmanager
def typing_for(fifo: Path) -> Iterator[None]:
    """Pass each key on to the trainer until the block ends; Ctrl-C stays a signal to this command."""
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    ended = threading.Event()
    reader = threading.Thread(target=_pass_keys, args=(stdin, fifo, ended), name="keys", daemon=True)
    termios.tcsetattr(stdin, termios.TCSADRAIN, _key_by_key(before))
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join()
        with suppress(termios.error):  # the window was closed
            termios.tcsetattr(stdin, termios.TCSADRAIN, before)


def _key_by_key(modes: list[Any]) -> list[Any]:
    """The modes in which each key is read at once, as it is: the trainer's own terminal echoes and edits."""
    changed, keys = [*modes], [*modes[_KEYS]]
    changed[_INPUT_FLAGS] &= ~(termios.ICRNL | termios.INLCR)
    changed[_LOCAL_FLAGS] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
    keys[termios.VMIN], keys[termios.VTIME] = 1, 0
    for key in (termios.VSUSP, termios.VQUIT):  # either would leave the terminal as it is now
        keys[key] = b"\0"
    changed[_KEYS] = keys
    return changed


def _pass_keys(stdin: int, fifo: Path, ended: threading.Event) -> None:
    waiting = b""
    while not ended.is_set():
        if not waiting and select.select([stdin], [], [], 0.05)[0]:
            try:
                waiting = os.read(stdin, _KEYS_AT_ONCE)
            except OSError:
                return
            if not waiting:
                return
        if waiting:
            if _send(fifo, {"keys": waiting.decode("latin-1")}):
                waiting = b""
            else:  # the trainer has not started yet, or is between two attempts
                ended.wait(0.05)


def _send(fifo: Path, message: Mapping[str, object]) -> bool:
    """Whether the trainer's shim takes this message now."""
    try:
        descriptor = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(descriptor, json.dumps(message).encode() + b"\n")
    except OSError:  # full, or the shim has ended just now
        return False
    finally:
        os.close(descriptor)
    return True


def _size() -> tuple[int, int]:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            columns, lines = os.get_terminal_size(stream.fileno())
            if columns and lines:
                return columns, lines
    return 80, 24
