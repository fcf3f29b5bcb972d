"""A program in the foreground: it has this process's terminal until it ends."""

from __future__ import annotations

import signal
import subprocess

from vtrain.errors import TerminatedBySignal


def wait_in_foreground(child: subprocess.Popen[bytes]) -> int:
    """The exit code of a child, 128+n for a signal. Ctrl-C is the child's: the terminal sends it to both."""
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = child.wait()
    except TerminatedBySignal:
        child.terminate()
        raise
    finally:
        signal.signal(signal.SIGINT, previous)
    return code if code >= 0 else 128 - code
