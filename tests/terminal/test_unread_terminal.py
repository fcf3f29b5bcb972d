"""Commands on a terminal that nobody reads, as after Ctrl-S, or that was closed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from lib.waiting import wait_until
from terminal.conftest import Start, Trainer

from vtrain.output.writing import UNREAD_SECONDS

pytestmark = pytest.mark.end_to_end

CTRL_S = "\x13"
LINES = 20_000
NOISY = f"""
for number in range({LINES}):
    print("x" * 79)
print("all written", flush=True)
hold()
"""
SILENT = "print('ready', flush=True)\nhold()\n"


def state_of_the_job(start: Start) -> str:
    listed = start("custom-jobs", "list", "--format=value(state)")
    assert listed.end() == 0
    return listed.transcript.splitlines()[-1]


def await_log(place: Path, text: bytes) -> None:
    """Wait until the job's log has this: the trainer never waits for the terminal."""
    logs = ".vtrain/jobs/*/logs/w*.log"
    wait_until(lambda: any(text in log.read_bytes()[-100:] for log in place.parent.glob(logs)))


def test_sigterm_ends_a_run_whose_output_nobody_reads(start: Start, trainer: Trainer, place: Path) -> None:
    terminal = start("run", trainer(NOISY))
    terminal.wait_for("xxx")
    await_log(place, b"all written\n")  # of which a terminal takes a small part
    os.kill(terminal.process_id, signal.SIGTERM)
    assert terminal.exit_code() == 143
    terminal.hang_up()
    assert state_of_the_job(start) == "JOB_STATE_CANCELLED"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_whose_status_line_nobody_reads(
    start: Start, trainer: Trainer, number: signal.Signals
) -> None:
    terminal = start("run", trainer(SILENT))
    terminal.wait_until(lambda: "ready" in terminal.shown and "RUNNING" in terminal.shown)
    terminal.press(CTRL_S)
    terminal.read_for(0.5)  # in which a frame of the status line begins to wait
    os.kill(terminal.process_id, number)
    assert terminal.exit_code() == 128 + number
    terminal.hang_up()
    assert state_of_the_job(start) == "JOB_STATE_CANCELLED"


def test_a_terminal_that_is_read_again_in_time_gets_every_line(start: Start, trainer: Trainer) -> None:
    script = trainer("""
import signal
def stop(*_):
    for number in range(2000):
        print(f"saved {number}", "x" * 60)
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
os.write(1, b"ready\\n")
hold()
""")
    terminal = start("run", script)
    terminal.wait_for("ready")
    os.kill(terminal.process_id, signal.SIGTERM)
    assert terminal.has_more()
    time.sleep(UNREAD_SECONDS / 6)  # the terminal is full by now, or will be
    assert terminal.end() == 143
    assert terminal.transcript.count("saved ") == 2000
    assert "Stopped." in terminal.transcript


def test_a_closed_window_ends_a_run_with_129(start: Start, trainer: Trainer) -> None:
    terminal = start("run", trainer(SILENT))
    terminal.wait_for("ready")
    terminal.hang_up()
    assert terminal.exit_code() == 129
    assert state_of_the_job(start) == "JOB_STATE_CANCELLED"
