"""How soon a command that takes longer says what it does: within 0.4 s on a machine that is not busy."""

from __future__ import annotations

import subprocess
import sys
import time

from lib.pseudo_terminal import CTRL_C
from terminal.conftest import Start, Trainer

PROMISE = 0.4  # seconds
IMPORT_TYPER = (sys.executable, "-c", "import typer")
MOST_IMPORTS = 6
"""On a busy machine the promise is relative: the first words take at most this many imports of typer."""
ATTEMPTS = 5


def _seconds_to_import_typer() -> float:
    began = time.monotonic()
    subprocess.run(IMPORT_TYPER, check=True)
    return time.monotonic() - began


def test_the_first_words_come_soon(start: Start, trainer: Trainer) -> None:
    script = trainer("hold()\n")
    seen = []
    for _ in range(ATTEMPTS):
        terminal = start("run", script)
        terminal.wait_for("Backend")
        bound = max(PROMISE, MOST_IMPORTS * _seconds_to_import_typer())
        seen.append((terminal.frames[0].time, bound))
        terminal.press(CTRL_C)
        if terminal.frames[0].time <= bound:
            return
    raise AssertionError(f"seconds to the first words, and the bounds: {seen}")
