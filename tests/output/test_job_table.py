"""The table of jobs on a terminal: what its cells are, and how it fits."""

from __future__ import annotations

import time

import pytest
from lib.pace import at_most

from vtrain.output.job_table import JobRow, job_row, job_table
from vtrain.output.layout import display_width
from vtrain.times import from_epoch

ROW = JobRow(
    id="616775",
    name="mnist",
    state="SUCCEEDED",
    trials="",
    created="3 min ago",
    took="12 s",
    exit="0",
    backend="process",
)


def attempts(*codes: tuple[int, str]) -> list[dict[str, object]]:
    return [{"attempts": [{"exitCode": 9}, {"exitCode": code, "endTime": end}]} for code, end in codes]


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ([], ""),
        ([{"attempts": [{"attempt": 0}]}], ""),
        ([{"attempts": []}], ""),
        (attempts((0, "b"), (0, "a")), "0"),
        (attempts((7, "b"), (0, "c"), (3, "a")), "3"),
    ],
)
def test_the_exit_code_is_that_of_the_replica_that_failed_first(replicas: object, expected: str) -> None:
    ended = {"endTime": "2026-11-01T10:00:01Z", "replicas": replicas}
    assert job_row(ended, shown_id="1", backend="process").exit == expected
    assert job_row({"replicas": replicas}, shown_id="1", backend="process").exit == ""


def test_a_job_that_succeeded_has_the_exit_code_of_its_primary() -> None:
    """The others were stopped when that had ended."""
    replicas = attempts((0, "a"), (143, "b"))
    ended = {"endTime": "2026-11-01T10:00:01Z", "state": "JOB_STATE_SUCCEEDED", "replicas": replicas}
    assert job_row(ended, shown_id="1", backend="process").exit == "0"


def test_a_tuning_job_tells_how_many_trials_have_ended() -> None:
    trials = [{"state": "SUCCEEDED"}, {"state": "INFEASIBLE"}, {"state": "ACTIVE"}]
    row = job_row({"maxTrialCount": 20, "trials": trials}, shown_id="1", backend="process")
    assert row.trials == "2 of 20"
    listed = job_row({"maxTrialCount": 20, "state": "JOB_STATE_SUCCEEDED"}, shown_id="1", backend="vertex")
    assert listed.trials == "", "a list of the service has no trials"
    assert "TRIALS" in job_table([row], width=80, coloured=False)
    assert "TRIALS" not in job_table([ROW], width=80, coloured=False)


def test_a_job_that_runs_has_taken_the_time_since_its_start() -> None:
    document = {"startTime": from_epoch(time.time() - 125), "state": "JOB_STATE_RUNNING"}
    row = job_row(document, shown_id="1", backend="docker")
    assert row.took.startswith("2 min ") and (row.state, row.created, row.backend) == (
        "RUNNING",
        "",
        "docker",
    )
    assert job_row({"startTime": "soon"}, shown_id="1", backend="").took == ""


def test_control_characters_of_a_name_are_seen() -> None:
    assert job_row({"displayName": "a\x1b[2J\nb"}, shown_id="1", backend="").name == "a\\x1b[2J\\x0ab"


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("name", ["x" * 128, "名" * 64])
def test_a_long_name_is_cut_to_the_width(width: int, name: str) -> None:
    lines = job_table([ROW, ROW._replace(name=name)], width=width, coloured=False).splitlines()
    assert len(lines) == 3 and all(display_width(line) <= width for line in lines)
    assert "…" in lines[2] and "mnist" in lines[1] and lines[0].split()[0] == "ID"


def test_a_column_that_nobody_fills_is_left_out() -> None:
    table = job_table([ROW._replace(exit="", took="")], width=80, coloured=False)
    assert table.splitlines()[0].split() == ["ID", "NAME", "STATE", "CREATED", "BACKEND"]
    assert "\x1b" not in table


def test_a_state_has_its_colour_and_the_columns_stay_straight() -> None:
    rows = [ROW, ROW._replace(state="FAILED", exit="1")]
    plain, coloured = (job_table(rows, width=80, coloured=on) for on in (False, True))
    assert "\x1b[32mSUCCEEDED\x1b[0m" in coloured and "\x1b[1;31mFAILED\x1b[0m" in coloured
    assert [line.index("process") for line in plain.splitlines()[1:]] == [
        plain.splitlines()[0].index("BACKEND")
    ] * 2


def test_a_name_of_any_length_is_cut_at_once() -> None:
    row = ROW._replace(name="日本" * 500_000)
    with at_most(5):
        line = job_table([row], width=80, coloured=False).splitlines()[1]
    assert display_width(line) <= 80 and "日本…" in line
