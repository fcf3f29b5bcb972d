"""`vtrain ps`, `stop` and `rm` of many jobs: by their states, by their names, or all of them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from lib.stored_jobs import add_job, local_name
from lib.tables import rows

from vtrain.messages.names import TRAINING_PIPELINES, TRIAL_LABEL
from vtrain.messages.states import KNOWN, names_of, short

NAMES = "--format=value(displayName)"


@pytest.fixture
def jobs(vtrain_home: Path) -> Path:
    """Jobs in four states, one of them a training pipeline, and a trial."""
    rows = [
        ("1", "good", "JOB_STATE_SUCCEEDED"),
        ("2", "bad", "JOB_STATE_FAILED"),
        ("3", "waiting", "JOB_STATE_QUEUED"),
        ("4", "later", "JOB_STATE_QUEUED"),
    ]
    for minute, (job_id, name, state) in enumerate(rows):
        add_job(vtrain_home, job_id * 19, name, state=state, created=f"2026-11-01T10:0{minute}:00Z")
    pipe = {"state": "PIPELINE_STATE_FAILED", "collection": TRAINING_PIPELINES}
    add_job(vtrain_home, "5" * 19, "pipe", created="2026-11-01T10:05:00Z", **pipe)
    trial = {"labels": {TRIAL_LABEL: "1"}}
    add_job(vtrain_home, "6" * 19, "trial", fields=trial, created="2026-11-01T10:06:00Z")
    return vtrain_home


SELECTED = rows(
    """
    --all | trial pipe later waiting bad good
    -a --state=succeeded | trial good
    --state=failed | pipe bad
    --state=FAILED,JOB_STATE_QUEUED | pipe later waiting bad
    --state=running
    --state=failed -n 1 | pipe
    --state=queued --sort-by=displayName | later waiting
    --filter=state=FAILED | pipe bad
    '--filter=state=failed AND displayName:b' | bad
    --filter=state!=FAILED | later waiting good
    '--filter=state=(FAILED QUEUED)' | pipe later waiting bad
    --filter=state=JOB_STATE_FAILED | pipe bad
    --filter=state:FAILED | pipe bad
    --filter=displayName=FAILED
    """,
    2,
)


@pytest.mark.parametrize(("flags", "expected"), [("", "pipe later waiting bad good"), *SELECTED])
def test_states(vtrain: Any, jobs: Path, flags: str, expected: str) -> None:
    ended = vtrain("ps", *shlex.split(flags), NAMES)
    assert (ended.code, ended.out.split()) == (0, expected.split()), ended.err


def test_a_state_has_the_names_of_both_apis() -> None:
    assert names_of("failed") == ("failed", "JOB_STATE_FAILED", "PIPELINE_STATE_FAILED")
    assert names_of("PIPELINE_STATE_FAILED")[1:] == ("JOB_STATE_FAILED", "PIPELINE_STATE_FAILED")
    assert names_of("PROVISIONING") == ("PROVISIONING",) and names_of("") == ("",)
    assert all(len(names_of(short(state))) == 3 for state in KNOWN)


def test_metrics_take_the_same_jobs(vtrain: Any, jobs: Path) -> None:
    assert vtrain("ps", "--metrics", "--state=queued", NAMES).out.split() == ["later", "waiting"]
    table = vtrain("ps", "--metrics")
    assert table.err.endswith(
        'No metrics: a trainer prints them in lines such as {"accuracy": 0.91, "step": 3}.\n'
    )


def test_what_cannot_be_watched(vtrain: Any, jobs: Path) -> None:
    ended = vtrain("ps", "--watch")
    assert (ended.code, ended.out) == (2, "")
    assert "--watch draws a table on a terminal.\n  Leave out --watch.\n" in ended.err
    ended = vtrain("ps", "--state=faild")
    assert ended.code == 2 and "--state: there is no state 'faild'.\n  Did you mean failed?" in ended.err


def test_several_are_stopped_and_one_that_fails_keeps_nobody_from_the_next(vtrain: Any, jobs: Path) -> None:
    ended = vtrain("stop", "waiting", "nobody", "later", "waiting")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.count("has been sent.") == 2 and ended.err.count("Backend: ") == 1
    assert "ERROR: No job on this machine has the name 'nobody'." in ended.err
    assert "has ended already: SUCCEEDED." in vtrain("stop", "good").err


def test_all_are_stopped_only_with_consent(vtrain: Any, jobs: Path) -> None:
    ended = vtrain("stop", "--all")
    assert ended.code == 1 and "has been sent" not in ended.err
    assert ended.err.endswith(
        "ERROR: Nothing was stopped.\n  Stop 2 jobs (later, waiting)? To say yes, add --quiet.\n"
    )
    ended = vtrain("stop", "--all", "--quiet")
    assert ended.code == 0 and ended.err.count("has been sent.") == 2, ended.err
    assert vtrain("stop", "--all", "good").code == vtrain("stop").code == 2


def test_jobs_of_the_same_name_are_asked_about_by_id(vtrain: Any, jobs: Path) -> None:
    add_job(jobs, "7" * 19, "later", state="JOB_STATE_QUEUED")
    assert "Stop 3 jobs (later-777777, later-444444, waiting)?" in vtrain("stop", "--all").err


def test_jobs_of_a_service_are_not_stopped_or_awaited_all_at_once(vtrain: Any, vertex: Any) -> None:
    for command in ("stop", "wait"):
        ended = vtrain(command, "--all", "--quiet")
        assert ended.code == 1 and f"{command} --all is for jobs of this machine" in ended.err
    assert vertex.calls() == []


def test_all_are_awaited(vtrain: Any, jobs: Path) -> None:
    """Each is named before it is told of; nobody else's are waited for."""
    ended = vtrain("wait", "--all", "--wait-timeout=0s")
    assert ended.code == 124 and ended.err.count("has not ended after 0 s") == 2, ended.err
    assert [line for line in ended.err.splitlines() if line.startswith("Job ")] == [
        f"Job {digit * 19}:" for digit in "34"
    ]
    refused = vtrain("wait", "--all", "good")
    assert (refused.code, "wait takes names of jobs or --all." in refused.err) == (2, True)
    vtrain("stop", "waiting", "later")


def test_all_of_nothing(vtrain: Any, vtrain_home: Path) -> None:
    add_job(vtrain_home, "1" * 19, "good")
    ended = vtrain("stop", "--all")
    assert ended.code == 0 and ended.err.endswith("No job is running or waiting.\n")
    assert vtrain("wait", "--all").code == 0


def test_several_are_removed(vtrain: Any, jobs: Path) -> None:
    ended = vtrain("rm", "good", "nobody", "bad")
    assert ended.code == 1 and ended.err.count("Deleted CustomJob") == 2
    assert f"[{local_name('1' * 19)}]" in ended.err
    assert vtrain("ps", NAMES).out.split() == ["pipe", "later", "waiting"]
    assert vtrain("rm").code == 2


def test_states_are_completed_in_lists() -> None:
    from vtrain.flags.completion import states

    assert states("fa") == ["failed"] and states("running,S") == ["running,succeeded"]
