"""Tuning jobs whose supervisors and commands are killed at random: each trial is run and counted once."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator

import msgspec
import pytest
from aftermath import check_nothing_left, check_unborn
from lib.chaos_report import KILLS_VARIABLE
from lib.waiting import wait_until
from places import Place, on_machine
from victims import kill, supervisors

from vtrain.messages import states
from vtrain.messages.codec import from_document
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.messages.names import CUSTOM_JOBS, HYPERPARAMETER_TUNING_JOBS
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.store import Store
from vtrain.runtime.tuning.trial_record import read_records, readable_records

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

TRIALS = 20
KILLS = 10 if os.environ.get(KILLS_VARIABLE) else 4
"""Read here: a test has no such variable."""
STUDIES = int(os.environ.get("VTRAIN_CHAOS_STUDIES") or 4)
"""Studies on each crowded machine; half of them see kills."""
MACHINES = ("n1-standard-1", "n1-standard-2", "n1-standard-4")
"""In 16 GB there is room for four, for two, or for one."""
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


def study(
    place: Place, title: str = "study", *, trials: int = TRIALS, parallel: int = 3
) -> HyperparameterTuningJob:
    """A study of quick trials."""
    return HyperparameterTuningJob(
        display_name=title,
        study_spec=from_document(StudySpec, STUDY),
        max_trial_count=trials,
        parallel_trial_count=parallel,
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


def check_trials(place: Place, name: str, trials: int) -> set[str]:
    """Each trial of the study has run once, in a job and a folder of its own; the ids of their jobs."""
    job, folder = place.backend.get(name), place.folder(name)
    assert isinstance(job, HyperparameterTuningJob)
    found = [(trial.id, trial.state, trial.infeasible_reason) for trial in job.trials]
    assert (job.state, found) == (
        states.SUCCEEDED,
        [(str(number), "SUCCEEDED", "") for number in range(1, trials + 1)],
    )
    records = read_records(folder)
    assert len({record.job for record in records}) == trials
    assert len({json.dumps(record.parameters) for record in records}) == trials
    logs = [place.folder(record.job).log("workerpool0-0") for record in records]
    assert [log.read_text().count("trial ") for log in logs] == [1] * trials
    return {log.parents[1].name for log in logs}


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

    wait_until(over, "the study does not end", pause=0.05)
    assert killed == KILLS, "the study was too quick"
    jobs = check_trials(place, name, TRIALS)
    assert {path.name for path in (place.home / "jobs").iterdir()} == {folder.path.name, *jobs}


@pytest.fixture(params=["memory", "slots"])
def resource(request: pytest.FixtureRequest, place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The persistent resource of all jobs, if there is one: it has two slots. This machine has 16 GB."""
    monkeypatch.setenv("VTRAIN_MEMORY", "16g")
    if request.param == "memory":
        yield ""
        return
    pool = f"--resource-pool-spec=machine-type={MACHINES[0]},replica-count=2"
    place.run("persistent-resources", "create", "--persistent-resource-id=team", pool, "--backend=local")
    yield "team"
    place.run("persistent-resources", "delete", "team", "--force", "--backend=local", "-q")


@pytest.mark.timeout(600 + 60 * STUDIES)
def test_trials_that_do_not_all_fit_are_run_once(place: Place, resource: str) -> None:
    """Two studies at a time share the machine. The second one, its trials and its command are killed."""
    jobs: set[str] = set()
    for number in range(0, STUDIES, 2):
        quiet, hunted = (crowded_study(place, f"study{number + each}", resource) for each in (0, 1))
        names = [create(place, quiet), create(place, hunted, is_killed=place.chance.random() < 0.6)]
        waits = [place.command("hp-tuning-jobs", "wait", name) for name in names]
        kill_until_ended(place, names[1], waits)
        for name, one, wait in zip(names, (quiet, hunted), waits, strict=True):
            _, err = wait.communicate()
            assert wait.returncode == 0, err.decode()
            jobs |= check_trials(place, name, one.max_trial_count)
            place.tally.event("studies")
            place.tally.event("trials", one.max_trial_count)
    store = Store.open(place.home)
    assert store.ids(CUSTOM_JOBS) == jobs
    assert len(store.ids(HYPERPARAMETER_TUNING_JOBS)) == len(range(0, STUDIES, 2)) * 2
    check_unborn(place)
    check_nothing_left(place)


def crowded_study(place: Place, title: str, resource: str) -> HyperparameterTuningJob:
    """A study whose trials do not all fit, most often."""
    parallel = place.chance.randint(2, 6)
    made = study(place, title, trials=parallel + 2, parallel=parallel)
    machine = MACHINES[0] if resource else place.chance.choice(MACHINES)
    spec = msgspec.structs.replace(on_machine(made.trial_job_spec, machine), persistent_resource_id=resource)
    return msgspec.structs.replace(made, trial_job_spec=spec)


def create(place: Place, job: HyperparameterTuningJob, *, is_killed: bool = False) -> str:
    """Create a study by a command, which may be killed at any moment; then by another. The study's name."""
    words = (
        "hp-tuning-jobs",
        "create",
        f"--display-name={job.display_name}",
        "--idempotency-key",
        job.display_name,
    )
    if is_killed:
        creation = place.command(*words, job=job)
        time.sleep(place.chance.uniform(0.2, 2.0))
        creation.kill()
        creation.communicate()
        place.tally.kill("command", "create")
    creation = place.command(*words, "--format=value(name)", job=job)
    out, err = creation.communicate()
    assert creation.returncode == 0, err.decode()
    return out.decode().strip()


def kill_until_ended(place: Place, name: str, waits: list[subprocess.Popen[bytes]]) -> None:
    """Kill supervisors of a study and of its trials at random, until the commands that wait have ended."""
    left = 2 * KILLS
    while any(wait.poll() is None for wait in waits):
        own = {record.job.rpartition("/")[2] for record in readable_records(place.folder(name))}
        victims = [
            (pid, folder)
            for pid, folder in supervisors(place.home).items()
            if folder == place.folder(name).path or folder.name in own
        ]
        if left and victims and place.chance.random() < 0.3:
            pid, folder = place.chance.choice(sorted(victims))
            if kill(pid):
                left -= 1
                place.tally.kill("supervisor", "trial" if folder.name in own else "study")
        time.sleep(place.chance.uniform(0.05, 0.3))
