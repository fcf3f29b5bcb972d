"""A tuning job on a terminal: its trials as a table, the live table, and the end."""

from __future__ import annotations

import pytest
from lib.tuning_jobs import TRIALS, tuning_document
from lib.vertex_service import VertexService
from terminal.conftest import PLAIN, Golden, Start

pytest.importorskip("google.auth", reason="needs the extra vertex")

pytestmark = pytest.mark.end_to_end

NAME = "projects/demo/locations/us-central1/hyperparameterTuningJobs/2001"
ACTIVE = {
    "id": "5",
    "state": "ACTIVE",
    "parameters": [{"parameterId": "rate", "value": 0.05}, {"parameterId": "units", "value": 3.0}],
}


def test_the_trials_as_a_table(start: Start, golden: Golden, vertex: VertexService, columns: int) -> None:
    vertex.resources[NAME] = tuning_document(NAME)
    is_plain = columns == 120
    terminal = start("hp-tuning-jobs", "trials", "2001", "-q", env=PLAIN if is_plain else {})
    assert terminal.end() == 0
    golden("trials", terminal, colours=not is_plain)


def test_the_live_table_and_the_end(start: Start, golden: Golden, vertex: VertexService) -> None:
    running = {"state": "JOB_STATE_RUNNING", "maxTrialCount": 5, "endTime": ""}
    vertex.resources[NAME] = tuning_document(NAME, trials=[ACTIVE], **running)
    terminal = start("hp-tuning-jobs", "wait", "2001")
    terminal.wait_until(lambda: "0 of 5 trials" in terminal.shown and "ACTIVE" in terminal.shown)
    vertex.resources[NAME] = tuning_document(NAME, trials=[*TRIALS, ACTIVE], **running)
    terminal.wait_until(lambda: "4 of 5 trials, about 12 s left, the best is 2" in terminal.shown)
    shown = [line.split()[:2] for line in terminal.shown.splitlines()]
    assert ["2", "*"] in shown and ["5", "ACTIVE"] in shown and ["3", "INFEASIBLE"] in shown
    vertex.resources[NAME] = tuning_document(NAME, trials=TRIALS)
    assert terminal.end() == 0
    assert "of 5 trials" not in terminal.transcript, "the live table is taken away"
    golden("trials-ended", terminal)
