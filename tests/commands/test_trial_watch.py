"""Staying with a tuning job: a line for each trial that ends, and the best at the end."""

from __future__ import annotations

from typing import Any

import pytest
from lib.tuning_jobs import OUTPUT, TRIALS, tuning_document
from lib.vertex_service import VertexService

from vtrain.commands.tuning_trials import TrialWatch
from vtrain.messages.codec import from_document
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.output.console import Console
from vtrain.output.trials import end_text, live_lines, progress_text, seconds_left

NAME = "projects/demo/locations/us-central1/hyperparameterTuningJobs/2001"
ACTIVE = {"id": "5", "state": "ACTIVE", "parameters": [{"parameterId": "rate", "value": 0.05}]}
LINES = """\
Trial 1 SUCCEEDED after 12 s: accuracy=0.5 (rate=0.001 units=80 optimizer=adam)
Trial 2 SUCCEEDED after 12 s: accuracy=0.91235 (rate=0.0123 units=8 optimizer=sgd momentum=0.9)
Trial 3 INFEASIBLE after 12 s: The trial reported no accuracy. (rate=0.1 units=1 optimizer=adam)
"""


def job_with(*trials: dict[str, Any], **fields: Any) -> HyperparameterTuningJob:
    return from_document(HyperparameterTuningJob, tuning_document(NAME, trials=list(trials), **fields))


def test_each_trial_is_told_once_when_it_has_ended(capfd: pytest.CaptureFixture[str]) -> None:
    watch = TrialWatch(Console())
    running = {"state": "JOB_STATE_RUNNING"}
    watch.show(job_with(**running), "RUNNING", more=True)
    watch.show(job_with(TRIALS[0], ACTIVE, **running), "RUNNING", more=True)
    watch.show(job_with(*TRIALS[:3], ACTIVE, **running), "RUNNING", more=True)
    watch.show(job_with(*TRIALS[:3]), "SUCCEEDED", more=True)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", LINES)


def test_of_a_job_that_has_ended_before_no_trial_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    watch = TrialWatch(Console())
    watch.show(job_with(*TRIALS), "SUCCEEDED", more=True)
    assert capfd.readouterr().err == ""
    assert not watch.has_told(60)


def test_a_failed_trial_is_told_by_its_exception() -> None:
    trace = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nValueError: no data'
    reason = f"The replica workerpool0-0 exited with a non-zero status of 1.\n{trace}\nTo find out more: …"
    job = job_with({**TRIALS[2], "infeasibleReason": reason})
    assert ": ValueError: no data (" in end_text(job.trials[0])


def test_the_live_table_keeps_the_best_and_those_that_run() -> None:
    job = job_with(*TRIALS, ACTIVE)
    shown = [line.split()[0] for line in live_lines(job, most=3)]
    assert shown == ["TRIAL", "2", "4", "5"]
    assert [line.split()[0] for line in live_lines(job, most=20)] == ["TRIAL", "2", "4", "1", "3", "5"]
    assert live_lines(job_with(), most=3) == []


def test_how_far_the_trials_are() -> None:
    assert progress_text(job_with(*TRIALS[:2], ACTIVE)) == (
        "2 of 4 trials, the best is 2: accuracy=0.91235 (rate=0.0123 units=8 optimizer=sgd momentum=0.9)"
    )
    assert progress_text(job_with(ACTIVE)) == "0 of 4 trials"


def test_the_time_that_is_left_is_told_by_the_trials_that_have_ended() -> None:
    """Two trials took 12 seconds each; a third runs for longer than that, and a fourth has to begin."""
    active = {**ACTIVE, "startTime": "2026-01-01T00:00:00Z"}
    running = job_with(*TRIALS[:2], active, state="JOB_STATE_RUNNING")
    assert seconds_left(running) == 6.0
    assert progress_text(running).startswith("2 of 4 trials, about 6 s left, the best is 2: ")
    assert seconds_left(job_with(ACTIVE, state="JOB_STATE_RUNNING")) == 0.0
    assert seconds_left(job_with(*TRIALS)) == 0.0


def test_the_end_names_the_best_trial_and_its_model(vtrain: Any, vertex: VertexService) -> None:
    vertex.resources[NAME] = tuning_document(NAME)
    ended = vtrain("hp-tuning-jobs", "wait", "2001", "--format=value(state)")
    assert (ended.code, ended.out) == (0, "JOB_STATE_SUCCEEDED\n"), ended.err
    assert "Trial 1" not in ended.err  # they are no news of a job that has ended
    assert "best    trial 2: accuracy=0.91235" in ended.err
    assert "with    rate=0.0123 units=8 optimizer=sgd momentum=0.9" in ended.err
    assert f"model   {OUTPUT}/2/model" in ended.err
    assert f"$ vtrain hp-tuning-jobs trials {NAME}" in ended.err


def test_a_failed_job_names_its_best_trial_too(vtrain: Any, vertex: VertexService) -> None:
    error = {"code": 3, "message": "Too many trials failed."}
    vertex.resources[NAME] = tuning_document(NAME, state="JOB_STATE_FAILED", error=error)
    ended = vtrain("hp-tuning-jobs", "wait", "2001", "--format=value(state)")
    assert ended.code == 10
    assert "Too many trials failed." in ended.err and "trial 2: accuracy=0.91235" in ended.err


def test_quiet_leaves_the_trials_out(vtrain: Any, vertex: VertexService) -> None:
    vertex.resources[NAME] = tuning_document(NAME)
    assert vtrain("-q", "hp-tuning-jobs", "wait", "2001", "--format=value(state)").err == ""
