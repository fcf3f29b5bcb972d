"""A program in the foreground: it has this process's terminal until it ends."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from vtrain.errors import TerminatedBySignal


def run_in_foreground(argv: Sequence[str], **options: Any) -> int:
    """Run a program; its exit code, 128+n for a signal. `options` are those of `subprocess.Popen`.

    Ctrl-C is the program's: the terminal sends it to both. SIGTERM and SIGHUP are handed on. Raises OSError
    where the program cannot be started.
    """
    # A function, as a signal that is ignored here would be ignored there.
    previous = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    child: subprocess.Popen[bytes] | None = None
    try:
        with signals_later(signal.SIGTERM, signal.SIGHUP):
            child = subprocess.Popen(argv, **options)
        code = child.wait()
    except TerminatedBySignal:
        if child is not None:
            child.terminate()
        raise
    finally:
        signal.signal(signal.SIGINT, previous)
    return code if code >= 0 else 128 - code


@contextmanager
def signals_later(*numbers: signal.Signals) -> Iterator[None]:
    """A block after which signals are handled that came meanwhile: what it makes would be lost in it.

    For blocks that end soon. In a thread beside the main one, which handles all signals, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in numbers}
    kept = [number for number, handler in handlers.items() if callable(handler)]
    for number in kept:
        signal.signal(number, lambda received, _frame: came.append(received))
    try:
        yield
    finally:
        for number in kept:
            signal.signal(number, handlers[number])
        for received in came:
            signal.raise_signal(received)
