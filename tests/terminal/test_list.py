"""`vtrain ps` on a terminal."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from stored_jobs import add_job
from terminal.conftest import Golden, Start

from vtrain.messages import states
from vtrain.times import from_epoch

LONG = "a name that is too long for eighty columns of a terminal"
JOBS = (
    ("1000002000000000000", "mnist", states.SUCCEEDED, 0, 5, "process"),
    ("1000003000000000000", LONG, states.FAILED, 1, 4, "docker"),
    ("2000000000000000000", "digits", states.CANCELLED, 143, 3, "process"),
)


@pytest.mark.parametrize("columns", [80, 120])
def test_jobs_with_age_duration_state_and_exit_code(
    start: Start, place: Path, golden: Golden, columns: int
) -> None:
    now = time.time()
    for job_id, display_name, state, code, hours, backend in JOBS:
        began = now - hours * 3600 - 60
        add_job(
            place.parent / ".vtrain",
            job_id,
            display_name,
            state=state,
            created=from_epoch(began),
            ended=from_epoch(began + 7500),
            backend=backend,
            fields={"replicas": [{"name": "workerpool0-0", "attempts": [{"attempt": 0, "exitCode": code}]}]},
        )
    terminal = start("ps", columns=columns)
    assert terminal.end() == 0
    golden("ps", terminal, colours=columns == 120)
