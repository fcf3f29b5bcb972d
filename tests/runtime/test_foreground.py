"""A program in the foreground, and signals for the process that waits for it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from threading import Timer

import pytest
from lib.waiting import wait_until

from vtrain.errors import TerminatedBySignal
from vtrain.runtime.foreground import run_in_foreground

pytestmark = pytest.mark.child


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_a_program_that_starts_while_a_signal_comes_is_ended(tmp_path: Path) -> None:
    started = tmp_path / "pid"

    def start_slowly() -> None:
        started.write_text(str(os.getpid()))
        time.sleep(0.5)

    def terminated(number: int, _frame: object) -> None:
        raise TerminatedBySignal(f"signal {number}")

    previous = signal.signal(signal.SIGTERM, terminated)
    timer = Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    try:
        with pytest.raises(TerminatedBySignal):
            run_in_foreground(["sleep", "60"], preexec_fn=start_slowly)
    finally:
        timer.cancel()
        signal.signal(signal.SIGTERM, previous)
    wait_until(lambda: has_ended(int(started.read_text())), patience=10)


def has_ended(child: int) -> bool:
    """Whether a child of this process has, which `subprocess` may have waited for already."""
    try:
        return os.waitpid(child, os.WNOHANG)[0] == child
    except ChildProcessError:
        return True
