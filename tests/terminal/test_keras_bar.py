"""Keras' progress bar: the bytes that Keras 3 writes to a terminal, with its backspaces and colours."""

from __future__ import annotations

from itertools import pairwise

import pyte
import pytest
from terminal.conftest import Start, Trainer

pytestmark = pytest.mark.end_to_end

WIDTH = 20


def drawn(step: int, rest: str, before: str = "") -> str:
    """One state of the bar; Keras goes back over the state before it, character by character."""
    done = WIDTH * step // 3
    bar = f"\x1b[32m{'━' * done}\x1b[0m\x1b[37m{'━' * (WIDTH - done)}\x1b[0m"
    return "\b" * len(before) + f"\r\x1b[1m{step}/3\x1b[0m {bar} \x1b[1m{rest[:2]}\x1b[0m{rest[2:]}"


def seen(step: int, rest: str) -> str:
    return f"{step}/3 {'━' * WIDTH} {rest}"


STATES = [
    (1, "0s 489ms/step - loss: 5.1880"),
    (2, "0s 201ms/step - loss: 5.6330"),
    (3, "0s 201ms/step - loss: 5.3959"),
    (3, "1s 283ms/step - loss: 5.3959 - val_loss: 4.8254"),
]
PIECES = [drawn(*STATES[0])]
PIECES += [drawn(*now, seen(*before)) for before, now in pairwise(STATES)]
TRAINER = f"""
print("Epoch 1/2", flush=True)
for piece in {PIECES!r}:
    print(piece, end="", flush=True)
    time.sleep(0.25)
print(flush=True)
hold()
"""


def test_the_states_are_drawn_as_keras_draws_them() -> None:
    screen = pyte.Screen(80, 5)
    stream = pyte.Stream(screen)
    for piece, state in zip(PIECES, STATES, strict=True):
        stream.feed(piece)
        assert screen.display[0].rstrip() == seen(*state)


@pytest.mark.parametrize("columns", [80, 120])
def test_the_bar_looks_as_without_vtrain(start: Start, trainer: Trainer, columns: int) -> None:
    terminal = start("custom-jobs", "local-run", f"--script={trainer(TRAINER)}", columns=columns)
    terminal.wait_for(seen(*STATES[-1]))
    began = next(n for n, frame in enumerate(terminal.frames) if "1/3 " in str(frame))
    ended = next(n for n, frame in enumerate(terminal.frames) if "val_loss" in str(frame))
    bars = [frame.lines[frame.lines.index("Epoch 1/2") + 1] for frame in terminal.frames[began : ended + 1]]
    assert set(bars) <= {seen(*state) for state in STATES}
    assert all("RUNNING" not in str(frame) for frame in terminal.frames[began : ended + 1])
    trainer.release()
    assert terminal.end() == 0
    rows = terminal.transcript.splitlines()
    assert rows[rows.index("Epoch 1/2") + 1] == seen(*STATES[-1])
    bar = next(row for row in terminal.rows if "".join(cell.data for cell in row).startswith("3/3"))
    assert (bar[0].bold, bar[4].fg) == (True, "green")


def test_a_bar_counts_more_in_the_status_line_than_what_the_job_uses(start: Start, trainer: Trainer) -> None:
    script = trainer(TRAINER.replace("    time.sleep(0.25)", "    hold()"))
    bar = seen(*STATES[0])
    terminal = start("submit", script, "--backend=process", "--stream-logs", columns=len(bar) + 34)
    terminal.wait_until(lambda: f"worker0-0 {bar}" in terminal.shown)
    trainer.release()
    assert terminal.end() == 0


def test_followed_logs_show_it_in_the_status_line(start: Start, trainer: Trainer) -> None:
    script = trainer(TRAINER.replace("    time.sleep(0.25)", "    hold()"))
    terminal = start("submit", script, "--backend=process", "--stream-logs", columns=120)
    terminal.wait_until(lambda: "RUNNING" in terminal.shown and seen(*STATES[0]) in terminal.shown)
    trainer.release()
    assert terminal.end() == 0
    assert f"│ {seen(*STATES[-1])}\n" in terminal.transcript
    assert seen(*STATES[0]) not in terminal.transcript
