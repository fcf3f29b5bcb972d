"""Supervisors of tuning jobs that are killed at random: each trial is suggested, run and counted once."""

from __future__ import annotations

import json
import os

import pytest
from chaos_report import KILLS_VARIABLE
from places import Place, until
from victims import supervisors

from vtrain.messages import states
from vtrain.messages.codec import from_document
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.tuning.trial_record import read_records

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

TRIALS = 20
KILLS = 10 if os.environ.get(KILLS_VARIABLE) else 4
"""Read here: a test has no such variable."""
REPORTER = """
import argparse, json, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--x", type=float)
options, _ = parser.parse_known_args()
time.sleep(0.2)
with open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "w") as file:
    print(json.dumps({"score": str(options.x), "global_step": "1", "trial": "0"}), file=file)
print("trial", os.environ["CLOUD_ML_TRIAL_ID"], flush=True)
"""
STUDY = {
    "algorithm": "RANDOM_SEARCH",
    "metrics": [{"metricId": "score", "goal": "MAXIMIZE"}],
    "parameters": [{"parameterId": "x", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
}


def study(place: Place) -> HyperparameterTuningJob:
    """A study of quick trials, three at a time."""
    return HyperparameterTuningJob(
        display_name="study",
        study_spec=from_document(StudySpec, STUDY),
        max_trial_count=TRIALS,
        parallel_trial_count=3,
        trial_job_spec=place.job(code=REPORTER).job_spec,
    )


def kill_supervisor_of(place: Place, folder: JobFolder) -> bool:
    """SIGKILL to the study's own supervisor; whether one lived."""
    for pid, job in supervisors(place.home).items():
        if job == folder.path:
            os.kill(pid, 9)
            place.tally.kill("supervisor", "study")
            return True
    return False


def test_each_trial_is_suggested_and_run_once(place: Place) -> None:
    name = place.backend.submit(place.backend.plan(study(place))).name
    folder = place.folder(name)
    killed = 0

    def over() -> bool:
        nonlocal killed
        job = place.backend.get(name)
        if killed < KILLS and place.chance.random() < 0.4:
            killed += kill_supervisor_of(place, folder)
        return states.has_ended(job.state)

    until(over, "the study does not end", pause=0.05)
    assert killed == KILLS, "the study was too quick"
    job = place.backend.get(name)
    assert isinstance(job, HyperparameterTuningJob)
    assert (job.state, [trial.id for trial in job.trials]) == (
        states.SUCCEEDED,
        [str(number) for number in range(1, TRIALS + 1)],
    )
    assert all(trial.state == "SUCCEEDED" for trial in job.trials)
    records = read_records(folder)
    assert len({record.job for record in records}) == TRIALS
    assert len({json.dumps(record.parameters) for record in records}) == TRIALS
    logs = [folder.path.with_name(record.job.rpartition("/")[2]) / "logs" for record in records]
    said = [(log / "workerpool0-0.log").read_text() for log in logs]
    assert [text.count("trial ") for text in said] == [1] * TRIALS
    jobs = {path.name for path in (place.home / "jobs").iterdir()}
    assert jobs == {folder.path.name, *(log.parent.name for log in logs)}
