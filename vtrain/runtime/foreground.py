"""A program in the foreground: it has this process's terminal until it ends."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
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
        child = subprocess.Popen(argv, **options)
        code = child.wait()
    except TerminatedBySignal:
        if child is not None:
            child.terminate()
        raise
    finally:
        signal.signal(signal.SIGINT, previous)
    return code if code >= 0 else 128 - code
