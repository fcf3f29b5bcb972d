"""The end of a job on a terminal: a failure told once, in few lines, and what is being installed."""

from __future__ import annotations

import pytest
from terminal.conftest import Golden, Start, Trainer

pytestmark = pytest.mark.end_to_end

RAISING = """
def main():
    raise ValueError("no such digit")


main()
"""
BUG = """
import json


def load(text):
    return json.loads(text)


load("no json")
"""


def test_a_bug_is_told_once_in_at_most_25_lines(start: Start, trainer: Trainer, golden: Golden) -> None:
    # vtrain's colours are compared, and not those that Python has from 3.13 on.
    terminal = start("run", trainer(RAISING), "--env=PYTHON_COLORS=0")
    assert terminal.end() == 1
    lines = terminal.transcript.splitlines()
    assert len(lines) <= 25
    assert sum(line.startswith("Traceback") for line in lines) == 1
    assert "\n  error   ValueError: no such digit\n  at      train.py:" in terminal.transcript
    golden("run-bug", terminal, colours=True)


def test_a_traceback_that_was_not_shown_is_in_the_card_without_the_frames_of_libraries(
    start: Start, trainer: Trainer
) -> None:
    terminal = start("submit", trainer(BUG), "--display-name=bug", "--wait", "--backend=process")
    assert terminal.end() == 10
    assert "    … 3 frames in json\n  json.decoder.JSONDecodeError: Expecting value" in terminal.transcript


def test_a_bug_is_told_once_in_at_most_30_lines_of_a_log_that_is_followed(
    start: Start, trainer: Trainer, golden: Golden
) -> None:
    words = ("submit", trainer(RAISING), "--display-name=bug", "--stream-logs", "--backend=process")
    terminal = start(*words)
    assert terminal.end() == 10
    lines = terminal.transcript.splitlines()
    assert len(lines) <= 30
    assert sum("Traceback" in line for line in lines) == 1
    golden("submit-bug", terminal)
