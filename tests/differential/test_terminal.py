"""The recorded runs on a terminal: menus, Ctrl-C, and a job that is created."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from differential.judge import differences
from differential.runner import Case, cases_of
from differential.terminal_player import play_on_terminal
from lib.stand_in_engine import stand_in_engine

pytestmark = pytest.mark.child

PLAYED = [case for case in cases_of(packaging=False) if case.tty is not None]


@pytest.mark.parametrize("case", PLAYED, ids=lambda case: case.id)
def test_a_line_does_on_a_terminal_what_it_does_with_gcloud(case: Case, tmp_path: Path) -> None:
    outcome = play_on_terminal(case, tmp_path, os.environ)
    assert not differences(case, outcome), outcome.stderr


@pytest.mark.parametrize(
    "case", [c for c in cases_of(packaging=True) if c.tty is not None], ids=lambda c: c.id
)
def test_a_container_on_a_terminal_ends_as_it_does_with_gcloud(case: Case, tmp_path: Path) -> None:
    with stand_in_engine() as engine:
        engine.run_seconds = 5.0
        outcome = play_on_terminal(case, tmp_path, os.environ | {"DOCKER_HOST": engine.host})
    assert not differences(case, outcome), outcome.stderr
