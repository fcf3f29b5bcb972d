"""The status line on a terminal, read frame by frame, and the plainest run."""

from __future__ import annotations

import shlex
import sys

import pytest
from terminal.conftest import Golden, Start, Trainer

pytestmark = pytest.mark.end_to_end


def test_a_script_that_prints_a_line(start: Start, trainer: Trainer, golden: Golden) -> None:
    script = trainer('print("hello")\n')
    terminal = start("custom-jobs", "local-run", f"--local-package-path={script}")
    assert terminal.end() == 0
    golden("local-run-hello", terminal)


DOTS = """
for _ in range(5):
    print(".", end="", flush=True)
    time.sleep(0.25)
print(" done", flush=True)
hold()
"""
BAR = """
for step in range(4):
    print(f"\\repoch 0: {step}/3", end="", file=sys.stderr, flush=True)
    time.sleep(0.25)
print(file=sys.stderr, flush=True)
hold()
"""


def has_status(text: str) -> bool:
    return "RUNNING" in text or "PENDING" in text


@pytest.mark.parametrize("pipe", [False, True], ids=["terminal", "cat"])
def test_dots_without_a_newline_stay_whole(start: Start, trainer: Trainer, pipe: bool) -> None:
    script = trainer(DOTS)
    words = (sys.executable, "-m", "vtrain", "custom-jobs", "local-run", f"--local-package-path={script}")
    terminal = start(program=("sh", "-c", f"{shlex.join(words)} | cat") if pipe else words)
    terminal.wait_for("..... done\n")
    terminal.wait_until(lambda: has_status(terminal.shown))
    trainer.release()
    assert terminal.end() == 0
    rows = [row for frame in terminal.frames for row in frame.lines if row.startswith(".")]
    assert rows and not any(has_status(row) for row in rows)


def test_a_bar_that_is_redrawn_is_always_seen(start: Start, trainer: Trainer) -> None:
    terminal = start("custom-jobs", "local-run", f"--local-package-path={trainer(BAR)}")
    terminal.wait_for("epoch 0: 3/3\n")
    ended = len(terminal.frames) - 1
    terminal.wait_until(lambda: has_status(terminal.shown))
    trainer.release()
    assert terminal.end() == 0
    began = next(n for n, frame in enumerate(terminal.frames) if "epoch 0: 0/3" in str(frame))
    for frame in terminal.frames[began:ended]:
        assert "epoch 0: " in str(frame) and not has_status(str(frame)), str(frame)


def test_a_status_line_that_is_too_long_is_cut(start: Start, trainer: Trainer) -> None:
    name = "long-" * 25
    script = trainer("hold()\n")
    terminal = start("custom-jobs", "local-run", f"--local-package-path={script}", f"--display-name={name}")
    terminal.wait_until(lambda: has_status(terminal.shown) and "…" in terminal.shown)
    trainer.release()
    assert terminal.end() == 0
    assert not has_status(terminal.transcript)
