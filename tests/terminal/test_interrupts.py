"""Ctrl-C at a terminal, and what a run shows of restarts."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lib.pseudo_terminal import CTRL_C
from terminal.conftest import Golden, Start, Trainer

pytestmark = pytest.mark.end_to_end

SAVES = """
import pathlib, signal
def save(*_):
    print("got SIGTERM, saving", flush=True)
    folder = pathlib.Path(os.environ["AIP_CHECKPOINT_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "step-2").write_text("weights")
    print("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("step 2", flush=True)
os.write(1, b"training\\n")  # a signal in a print would make that of the handler a fault
time.sleep(60)
"""
CRASHES_ONCE = """
marker = os.path.join({place!r}, "crashed")
if not os.path.exists(marker):
    open(marker, "w").close()
    print("about to crash", flush=True)
    os.kill(os.getpid(), 11)
print("resumed")
"""


def test_after_ctrl_c_the_trainer_has_its_say(start: Start, trainer: Trainer, golden: Golden) -> None:
    terminal = start("-q", "custom-jobs", "local-run", f"--script={trainer(SAVES)}")
    terminal.wait_until(lambda: b"training\r\n" in terminal.raw)  # what is typed may break into a line
    terminal.press(CTRL_C)
    assert terminal.end() == 130
    golden("stopped", terminal)


def test_each_line_of_a_stopped_job_is_shown_once(trainer: Trainer, place: Path) -> None:
    script = trainer(SAVES.replace('print("step 2"', 'print("\\n".join(map(str, range(20_000)))'))
    argv = [sys.executable, "-m", "vtrain", "-q", "custom-jobs", "local-run", f"--script={script}"]
    with subprocess.Popen(argv, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        lines = [run.stdout.readline().strip()]
        while lines[-1] != "training":
            lines.append(run.stdout.readline().strip())
        run.send_signal(signal.SIGINT)
        rest, _ = run.communicate(timeout=60)
    assert lines == [*map(str, range(20_000)), "training"]
    assert (rest, run.returncode) == ("got SIGTERM, saving\nsaved\n", 130)


def test_a_restart_is_one_line(start: Start, trainer: Trainer, place: Path) -> None:
    script = trainer(CRASHES_ONCE.format(place=str(place)))
    terminal = start(
        "-q", "custom-jobs", "local-run", f"--script={script}", "--enable-web-access", columns=200
    )
    terminal.end()
    assert [line for line in terminal.transcript.splitlines() if "Restarting" in line] == [
        "workerpool0-0 ended: exit code 139, a crash in native code (SIGSEGV). "
        "Restarting all replicas (restart 1 of this job)."
    ]


@pytest.mark.parametrize("flag", ["cancel", "detach"])
def test_the_last_words_do_not_stand_behind_an_open_line(start: Start, trainer: Trainer, flag: str) -> None:
    script = trainer("print('\\r7/20', end='', file=sys.stderr, flush=True)\nhold()\n")
    terminal = start("run", script, f"--on-interrupt={flag}")
    terminal.wait_for("7/20")
    terminal.press(CTRL_C)
    assert terminal.end() == 130
    rows = terminal.transcript.splitlines()
    assert any(row.startswith("7/20") for row in rows)
    assert ("Stopped." if flag == "cancel" else "Detached; the job goes on.") in rows
    trainer.release()
