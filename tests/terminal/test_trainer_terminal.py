"""The terminal that `local-run` lends to the only replica of a job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lib.pseudo_terminal import CTRL_C, CTRL_D
from lib.waiting import wait_until
from terminal.conftest import Start, Trainer

pytestmark = pytest.mark.end_to_end

LOCAL_RUN = ("-q", "custom-jobs", "local-run")
SEES = """
import shutil
print([os.isatty(number) for number in range(3)], shutil.get_terminal_size().columns, os.environ.get("TERM"))
"""


def log_of(place: Path) -> bytes:
    """What the only replica of the only job has written."""
    (log,) = place.parent.glob(".vtrain/jobs/*/logs/workerpool0-0.0.log")
    return log.read_bytes()


def test_a_trainer_sees_a_terminal_as_wide_as_this_one(start: Start, trainer: Trainer, place: Path) -> None:
    written = "\\x1b[32mgreen\\x1b[0m\\r\\n\\tcaf\\xe9\\x00\\n\\ndots"
    script = trainer(f"{SEES}sys.stdout.write('{written}')\nsys.stderr.write('bar\\rbar 2\\n')")
    terminal = start(*LOCAL_RUN, f"--script={script}", columns=97, env={"TERM": "xterm"})
    assert terminal.end() == 0
    assert "[False, True, True] 97 xterm" in terminal.transcript
    sees, *rest = log_of(place).replace(b"bar\rbar 2\n", b"").split(b"\n")
    assert sees == b"[False, True, True] 97 xterm"
    assert b"\n".join(rest) == b"\x1b[32mgreen\x1b[0m\r\n\tcaf\xc3\xa9\x00\n\ndots"
    assert b"bar\rbar 2\n" in log_of(place)


def test_a_terminal_whose_name_is_not_text_has_none(start: Start, trainer: Trainer) -> None:
    terminal = start(*LOCAL_RUN, f"--script={trainer(SEES)}", env={"TERM": "\udcff"})
    assert terminal.end() == 0
    assert "[False, True, True] 80 None" in terminal.transcript


def test_a_pipe_gives_a_pipe(trainer: Trainer, place: Path) -> None:
    argv = [sys.executable, "-m", "vtrain", *LOCAL_RUN, f"--script={trainer(SEES)}"]
    done = subprocess.run(argv, cwd=place, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("[False, False, False] 80 None")


def test_only_the_stream_that_is_a_terminal_is_one(start: Start, trainer: Trainer, place: Path) -> None:
    words = " ".join([sys.executable, "-m", "vtrain", *LOCAL_RUN, f"--script={trainer(SEES)}"])
    terminal = start(program=("sh", "-c", f"{words} > out"))
    assert terminal.end() == 0
    assert (place / "out").read_text().startswith("[False, False, True]")


def test_a_window_that_changes_its_size_is_told_to_the_trainer(start: Start, trainer: Trainer) -> None:
    script = trainer("""
import shutil, signal
signal.signal(signal.SIGWINCH, lambda *_: print("width", shutil.get_terminal_size().columns))
os.write(1, b"ready\\n")
hold()
""")
    terminal = start(*LOCAL_RUN, f"--script={script}")
    terminal.wait_for("ready")
    terminal.resize(100, 30)
    terminal.wait_for("width 100")
    trainer.release()
    assert terminal.end() == 0


def test_a_breakpoint_works(start: Start, trainer: Trainer) -> None:
    script = trainer("""
name = input("name? ")
breakpoint()
print("and?")
print("rest:", sys.stdin.read())
""")
    terminal = start(*LOCAL_RUN, f"--script={script}", "--interactive")
    terminal.wait_for("name? ")
    terminal.press("Ada\r")
    terminal.wait_for("(Pdb) ")
    terminal.press("pp name * 2\r")
    terminal.wait_for("'AdaAda'")
    terminal.press("continue\r")
    terminal.wait_for("\nand?")  # not in the line that pdb has shown
    terminal.press("äöü\r" + CTRL_D)
    terminal.wait_for("rest: äöü")
    assert terminal.end() == 0
    assert terminal.transcript.count("äöü") == 2, "typed, and read"


def test_a_breakpoint_without_a_keyboard_says_what_to_do(start: Start, trainer: Trainer) -> None:
    terminal = start("custom-jobs", "local-run", f"--script={trainer('breakpoint()')}", columns=120)
    assert terminal.end() == 1
    assert "Run it with `vtrain run … --interactive` in a terminal" in terminal.transcript


def test_ctrl_c_is_for_vtrain_while_the_trainer_reads(start: Start, trainer: Trainer) -> None:
    script = trainer("""
import signal
signal.signal(signal.SIGINT, lambda *_: print("SIGINT"))
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"saved\\n"), os._exit(3)))
input("name? ")
""")
    terminal = start("custom-jobs", "local-run", f"--script={script}", "-i")
    terminal.wait_for("name? ")
    terminal.press(CTRL_C)
    assert terminal.end() == 130
    assert "SIGINT" not in terminal.transcript
    terminal = start("custom-jobs", "list", "--format=value(state)")
    assert terminal.end() == 0
    assert "JOB_STATE_CANCELLED" in terminal.transcript


@pytest.mark.parametrize("way", ["detach", "hangup", "killed"])
def test_the_trainer_outlives_the_terminal(start: Start, trainer: Trainer, place: Path, way: str) -> None:
    script = trainer("""
print("ready")
hold()
print("still a terminal:", os.isatty(1))
print("and stderr", file=sys.stderr)
""")
    terminal = start(*LOCAL_RUN, f"--script={script}", "--on-interrupt=detach")
    terminal.wait_for("ready")
    if way == "detach":
        terminal.press(CTRL_C)
        assert terminal.end() == 130
    elif way == "killed":
        os.kill(terminal.process_id, signal.SIGKILL)
    terminal.hang_up()
    trainer.release()
    (job,) = place.parent.glob(".vtrain/jobs/[0-9]*")
    wait_until((job / "replicas/workerpool0-0/exit.json").exists)
    assert b"still a terminal: True\n" in log_of(place)
    assert b"and stderr\n" in log_of(place)


def test_stdout_and_stderr_keep_their_order(start: Start, trainer: Trainer) -> None:
    script = trainer("""
for epoch in range(20):
    for step in range(3):
        print(f"\\rbar {step}", end="", file=sys.stderr)
    print(file=sys.stderr)
    print("loss")
    print("warning", file=sys.stderr)
""")
    terminal = start(*LOCAL_RUN, f"--script={script}", lines=70)
    assert terminal.end() == 0
    assert terminal.transcript == "\n".join(["bar 2", "loss", "warning"] * 20)


def test_the_error_of_a_job_that_had_a_terminal_is_plain(start: Start, trainer: Trainer) -> None:
    script = trainer(r"""
print("\x1b[31mloading\x1b[0m", file=sys.stderr)
print("\rstep 1\r\x1b[Kstep 2", file=sys.stderr)
sys.exit("\x1b[1mno data\x1b[0m")
""")
    terminal = start(*LOCAL_RUN, f"--script={script}")
    assert terminal.end() == 1
    listing = start("custom-jobs", "list", "--format=value(error.message)", columns=200)
    assert listing.end() == 0
    assert "Termination reason: Error.\nloading\nstep 2\nno data\n" in listing.transcript


def test_interactive_without_a_terminal_is_refused(trainer: Trainer, place: Path) -> None:
    argv = [sys.executable, "-m", "vtrain", *LOCAL_RUN, f"--script={trainer('')}", "-i"]
    done = subprocess.run(argv, cwd=place, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        "ERROR: --interactive needs a terminal, and stdin or stdout is none.",
    )


def test_interactive_is_for_one_replica(start: Start, trainer: Trainer) -> None:
    pool = "machine-type=n1-standard-4,replica-count=1"
    first = f"--worker-pool-spec={pool},local-package-path=.,script={trainer('')}"
    words = (first, f"--worker-pool-spec={pool}", "--interactive")
    terminal = start("custom-jobs", "local-run", *words)
    assert terminal.end() == 2
    assert "--interactive is for a job of one replica." in terminal.transcript
