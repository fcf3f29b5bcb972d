"""Tuning jobs that really run on this machine, as processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lib.supervisors import living_supervisor
from lib.tuning_jobs import GRID_STUDY, GRID_TRAINER
from lib.waiting import wait_until

from vtrain.messages.names import CUSTOM_JOBS
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.store import Store
from vtrain.runtime.tuning.trial_record import readable_records

pytestmark = pytest.mark.end_to_end

Tune = Callable[..., Any]


@pytest.fixture
def tune(vtrain: Any, tmp_path: Path) -> Tune:
    """Create a tuning job of that trainer, and stay until it has ended."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(GRID_TRAINER)

    def run(case: str, *flags: str, wait: bool = True, **counts: int) -> Any:
        study = tmp_path / "study.yaml"
        counts = {"trials": 4, "parallel": 2, "failures": 0, "most": 9} | counts
        study.write_text(GRID_STUDY.format(**counts))
        return vtrain(
            *("hp-tuning-jobs", "create", "--backend=process", "--display-name=tune", f"--config={study}"),
            *(f"--local-package-path={tmp_path / 'code'}", "--script=train.py", "--format=json"),
            *(["--wait"] if wait else []),
            *flags,
            *("--", f"--case={case}"),
        )

    return run


@pytest.fixture
def running(tune: Tune, vtrain: Any, vtrain_home: Path) -> JobFolder:
    """The folder of a study of two trials, both of which run until they are cancelled."""
    name = json.loads(tune("hangs", wait=False).out)["name"]

    def states() -> list[str]:
        job = json.loads(vtrain("hp-tuning-jobs", "describe", name, "--format=json").out)
        return [trial["state"] for trial in job.get("trials", [])]

    wait_until(lambda: states() == ["ACTIVE"] * 2)
    return JobFolder(vtrain_home / "jobs" / name.rpartition("/")[2])


def trials_of(ended: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ended.out)["trials"]
    return found


def test_all_trials_succeed_and_are_described_as_by_the_api(tune: Tune, vtrain: Any) -> None:
    ended = tune("good")
    assert ended.code == 0, ended.err
    job = json.loads(ended.out)
    assert (job["state"], job["name"].split("/")[4]) == ("JOB_STATE_SUCCEEDED", "hyperparameterTuningJobs")
    assert job["study"] == {"sampler": "grid", "seed": job["study"]["seed"]}
    assert [trial["id"] for trial in job["trials"]] == ["1", "2", "3", "4"]
    for number, trial in enumerate(job["trials"], 1):
        assert trial["state"] == "SUCCEEDED"
        assert trial["parameters"] == [{"parameterId": "n", "value": float(number)}]
        final = trial["finalMeasurement"]
        assert (final["stepCount"], final["metrics"]) == (
            "2",
            [{"metricId": "accuracy", "value": number / 10}],
        )
        assert job["createTime"] <= trial["startTime"] <= trial["endTime"] <= job["endTime"]
    told = [line for line in ended.err.splitlines() if line.startswith("Trial ")]
    assert len(told) == 4 and all(" SUCCEEDED after " in line for line in told)
    (best,) = json.loads(vtrain("hp-tuning-jobs", "trials", "tune", "--best", "--format=json").out)
    assert (best["id"], (Path(best["modelDir"]) / "model.txt").read_text()) == ("4", "4")
    assert "best    trial 4: accuracy=0.4" in ended.err and f"model   {best['modelDir']}" in ended.err
    table = vtrain("hp-tuning-jobs", "trials", "@last").out.splitlines()
    assert table[1].split()[:5] == ["4", "*", "SUCCEEDED", "0.4", "4"]
    child = json.loads(vtrain("custom-jobs", "describe", job["trials"][2]["customJob"], "--format=json").out)
    assert child["displayName"] == "tune-trial-3"
    assert child["jobSpec"]["baseOutputDirectory"]["outputUriPrefix"].endswith("/3")
    assert child["jobSpec"]["workerPoolSpecs"][0]["pythonPackageSpec"]["args"] == ["--case=good", "--n=3"]


def test_logs_of_trials_are_merged_and_labelled(tune: Tune, vtrain: Any, vtrain_home: Path) -> None:
    job = json.loads(tune("good", trials=3).out)
    name, base = job["name"], job["trialJobSpec"]["baseOutputDirectory"]["outputUriPrefix"]
    folder = vtrain_home / "buckets" / base.removeprefix("gs://")
    assert [(folder / trial / "model/model.txt").read_text() for trial in "123"] == ["1", "2", "3"]
    words = "argv ['--case=good', '--n={}']"
    whole = vtrain("hp-tuning-jobs", "stream-logs", name)
    assert whole.code == 0
    for trial in (1, 2, 3):
        line = f"trial-{trial}/workerpool0-0\t{words.format(trial)}"
        assert whole.out.count(line) == 1
        for task in (f"trial-{trial}", f"trial-{trial}/workerpool0-0"):
            alone = vtrain("hp-tuning-jobs", "stream-logs", name, f"--task-name={task}").out
            assert alone.count("argv") == 1 and line in alone
    assert vtrain("hp-tuning-jobs", "stream-logs", name, "--task-name=workerpool0-0").out.count("argv") == 3
    assert whole.out.count("Job is running.") == 1, "the trials' own service lines are not repeated"


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("nothing", "did not report accuracy"),
        ("wrong-name", "its metric file holds acc"),
        ("nan", "only as nan"),
        ("text", "only as high"),
    ],
)
def test_trials_without_the_metric_are_infeasible(tune: Tune, case: str, reason: str) -> None:
    ended = tune(case, trials=2)
    assert ended.code == 10, ended.err
    assert [trial["state"] for trial in trials_of(ended)] == ["INFEASIBLE"] * 2
    assert all(reason in trial["infeasibleReason"] for trial in trials_of(ended))
    assert ended.err.count("INFEASIBLE after") == 2
    assert "No trial has a measurement of accuracy" in json.loads(ended.out)["error"]["message"]
    assert ("Did you mean --metric=acc:max?" in ended.err) == (case == "wrong-name")


def test_one_failed_trial_of_ten_does_not_end_the_study(tune: Tune) -> None:
    ended = tune("one-fails", trials=9, parallel=3)
    assert ended.code == 0, ended.err
    states = [trial["state"] for trial in trials_of(ended)]
    assert states == ["SUCCEEDED"] * 3 + ["INFEASIBLE"] + ["SUCCEEDED"] * 5
    assert "exited with a non-zero status of 1" in trials_of(ended)[3]["infeasibleReason"]
    (line,) = [line for line in ended.err.splitlines() if "INFEASIBLE" in line]
    assert "exited with a non-zero status of 1" in line and line.endswith("(n=4)")
    assert "\\x0a" not in ended.err


@pytest.mark.parametrize(
    ("failures", "said"),
    [(0, "1 trial has failed"), (3, "3 trials have failed (maxFailedTrialCount is 3)")],
)
def test_as_many_failures_as_are_allowed_end_the_study(tune: Tune, failures: int, said: str) -> None:
    """And the trials that failed are run again where another study goes on."""
    ended = tune("fails", trials=9, parallel=1, failures=failures)
    assert ended.code == 10
    first = json.loads(ended.out)
    assert (first["state"], len(first["trials"])) == ("JOB_STATE_FAILED", failures or 1)
    assert said in first["error"]["message"]
    ended = tune("good", f"--continue-from={first['name']}", trials=3, failures=failures)
    assert ended.code == 0, ended.err
    assert [trial["parameters"][0]["value"] for trial in trials_of(ended)] == [1.0, 2.0, 3.0]


def test_a_study_ends_where_its_grid_is_used_up(tune: Tune) -> None:
    ended = tune("good", trials=20, most=3)
    assert ended.code == 0
    assert [trial["parameters"][0]["value"] for trial in trials_of(ended)] == [1.0, 2.0, 3.0]


def test_a_cancelled_study_ends_its_trials(running: JobFolder, vtrain: Any, vtrain_home: Path) -> None:
    name = running.path.name
    assert vtrain("hp-tuning-jobs", "delete", name).code == 1
    assert vtrain("hp-tuning-jobs", "cancel", name).code == 0
    assert vtrain("hp-tuning-jobs", "wait", name).code == 11
    job = json.loads(vtrain("hp-tuning-jobs", "describe", name, "--format=json").out)
    assert [trial["state"] for trial in job["trials"]] == ["INFEASIBLE"] * 2
    children = [Store.open(vtrain_home).get(trial["customJob"]).state for trial in job["trials"]]
    assert children == ["JOB_STATE_CANCELLED"] * 2


def test_a_trial_without_prospect_is_stopped_early(vtrain: Any, tune: Tune) -> None:
    more = "--set=studySpec.medianAutomatedStoppingSpec={}"
    ended = tune("slow-if-poor", more, "--set=maxTrialCount=5")
    assert ended.code == 0, ended.err
    first = trials_of(ended)[0]
    assert (first["state"], first["finalMeasurement"]["metrics"][0]["value"]) == ("SUCCEEDED", 0.1)
    child = json.loads(vtrain("custom-jobs", "describe", first["customJob"], "--format=json").out)
    assert child["state"] == "JOB_STATE_CANCELLED"


def test_a_study_goes_on_from_another(tune: Tune, vtrain: Any) -> None:
    first = json.loads(tune("good", "--display-name=first", trials=3).out)
    ended = tune("good", "--continue-from=first", trials=5)
    assert ended.code == 0, ended.err
    assert sorted(re.findall(r"^Trial (\d) SUCCEEDED after", ended.err, re.MULTILINE)) == ["4", "5"]
    found = trials_of(ended)
    assert [trial["parameters"][0]["value"] for trial in found] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert [trial["customJob"] for trial in found[:3]] == [trial["customJob"] for trial in first["trials"]]
    second = json.loads(ended.out)
    assert second["study"]["continueFrom"] == first["name"]
    assert second["startTime"] >= second["createTime"], "its own trials started it"
    printed = json.loads(vtrain("hp-tuning-jobs", "trials", "tune", "--sort-by=id", "--format=json").out)
    assert [(Path(each["modelDir"]) / "model.txt").read_text() for each in printed] == [*"12345"]


def test_trials_that_were_cut_off_are_run_again(running: JobFolder, tune: Tune, vtrain: Any) -> None:
    name = running.path.name
    assert vtrain("hp-tuning-jobs", "cancel", name).code == 0
    assert vtrain("hp-tuning-jobs", "wait", name).code == 11
    ended = tune("good", f"--continue-from={name}", trials=3)
    assert ended.code == 0, ended.err
    found = trials_of(ended)
    assert [trial["parameters"][0]["value"] for trial in found] == [1.0, 2.0, 3.0]
    assert [trial["state"] for trial in found] == ["SUCCEEDED"] * 3


def test_deleting_a_study_removes_its_trials_alone(tune: Tune, vtrain: Any, vtrain_home: Path) -> None:
    first, again, second = (
        json.loads(tune("good", *key, trials=2).out)
        for key in (["--idempotency-key=a1"], ["--idempotency-key=a1"], [])
    )
    assert first["name"] == again["name"] != second["name"], "a key makes one job"
    assert vtrain("hp-tuning-jobs", "delete", first["name"]).code == 0
    left = {path.name for path in (vtrain_home / "jobs").iterdir()}
    children = {trial["customJob"].rpartition("/")[2] for trial in second["trials"]}
    assert left == {second["name"].rpartition("/")[2], *children}
    assert Store.open(vtrain_home).ids(CUSTOM_JOBS) == children


def test_a_copy_of_a_trial_is_a_job_of_its_own(
    tune: Tune, vtrain: Any, vtrain_home: Path, tmp_path: Path
) -> None:
    """What is made of the printed job of a trial stays when the study goes."""
    study = json.loads(tune("good", trials=1).out)
    copy = tmp_path / "trial.json"
    printed = vtrain("custom-jobs", "describe", study["trials"][0]["customJob"], "--format=json").out
    fields = ("displayName", "jobSpec", "labels")
    copy.write_text(json.dumps({field: json.loads(printed)[field] for field in fields}))
    made = vtrain(
        *("custom-jobs", "create", "--backend=process", "--display-name=copy", f"--config={copy}", "--wait"),
        *("--labels=team=vision", "--format=json"),
    )
    assert "KeyError: 'CLOUD_ML_TRIAL_ID'" in made.err
    job = json.loads(made.out)
    assert job["labels"] == {"team": "vision"}
    assert vtrain("hp-tuning-jobs", "delete", study["name"]).code == 0
    assert Store.open(vtrain_home).ids(CUSTOM_JOBS) == {job["name"].rpartition("/")[2]}


def test_a_study_that_lost_its_folder_ends_its_trials(
    running: JobFolder, vtrain: Any, vtrain_home: Path
) -> None:
    """It has lost its supervisor, too, which would end them."""
    trials = [record.job for record in readable_records(running)]
    os.kill(living_supervisor(running), signal.SIGKILL)
    shutil.rmtree(running.path)
    assert vtrain("hp-tuning-jobs", "wait", running.path.name).code == 10
    for trial in trials:
        assert vtrain("custom-jobs", "wait", trial, "--wait-timeout=60s").code == 11
    assert vtrain("hp-tuning-jobs", "delete", running.path.name).code == 0
    assert not any((vtrain_home / "jobs").iterdir())


def test_a_study_is_not_deleted_before_its_trials_have_ended(
    running: JobFolder, vtrain: Any, vtrain_home: Path
) -> None:
    trials = [record.job for record in readable_records(running)]
    os.kill(living_supervisor(running), signal.SIGKILL)
    store = Store.open(vtrain_home)
    record = store.get(running.order().name)
    store.update(record.name, state="JOB_STATE_FAILED", end_time="", document=record.document)
    refused = vtrain("hp-tuning-jobs", "delete", running.path.name)
    assert (refused.code, f"once its job {trials[0].rpartition('/')[2]} has ended" in refused.err) == (
        1,
        True,
    )
    for trial in trials:
        assert (vtrain_home / "jobs" / trial.rpartition("/")[2]).exists()
        assert vtrain("custom-jobs", "cancel", trial).code == 0
        assert vtrain("custom-jobs", "wait", trial).code == 11
    assert vtrain("hp-tuning-jobs", "delete", running.path.name).code == 0
    assert not any((vtrain_home / "jobs").iterdir())


def test_the_seed_decides_what_a_random_study_tries(tune: Tune) -> None:
    flags = ("--algorithm=random-search", "--seed=7")
    first, again = (json.loads(tune("good", *flags, trials=3, most=10**6).out) for _ in range(2))
    for job in (first, again):
        assert (job["study"]["sampler"], job["study"]["seed"]) == ("random", "7")
    first, again = ([trial["parameters"] for trial in job["trials"]] for job in (first, again))
    assert first == again


def test_a_damaged_record_ends_the_study_and_its_trials(
    running: JobFolder, vtrain: Any, vtrain_home: Path
) -> None:
    name, children = running.path.name, [record.job for record in readable_records(running)]
    (running.path / "trials" / "1.json").write_text("garbage")
    os.kill(living_supervisor(running), signal.SIGKILL)
    ended = vtrain("hp-tuning-jobs", "wait", name)
    assert ended.code == 10, ended.err
    assert "its trials/1.json cannot be read" in ended.err
    assert [Store.open(vtrain_home).get(child).state for child in children] == ["JOB_STATE_CANCELLED"] * 2
    assert "argv" in vtrain("hp-tuning-jobs", "stream-logs", name, "--task-name=trial-2").out
    assert vtrain("hp-tuning-jobs", "delete", name).code == 0
    assert not any((vtrain_home / "jobs").iterdir())


def test_short_commands_take_a_tuning_job(tune: Tune, vtrain: Any) -> None:
    assert tune("good", trials=1).code == 0
    assert vtrain("ps", "--format=value(displayName)").out == "tune\n"
    assert json.loads(vtrain("show", "tune", "--format=json").out)["displayName"] == "tune"
    for words in (("tune-trial-1",), ("tune", "--task-name=trial-1/workerpool0-0")):
        (line,) = (line for line in vtrain("logs", *words).out.splitlines() if "workerpool0-0" in line)
        assert line.endswith("\targv ['--case=good', '--n=1']")
    removed = vtrain("rm", "tune")
    assert removed.code == 0 and "Deleted HyperparameterTuningJob" in removed.err
    assert vtrain("ps", "--format=value(displayName)").out == ""


def test_a_dry_run_makes_nothing_and_says_what_would_run(tune: Tune, vtrain_home: Path) -> None:
    told = "Note: Parameters are suggested by"
    convex = "--set=studySpec.convexAutomatedStoppingSpec.maxStepCount=10"
    ended = tune("good", "--dry-run", convex, trials=3, parallel=3)
    assert ended.code == 0 and json.loads(ended.out)["maxTrialCount"] == 3
    assert "Would run 3 trials, 3 at a time." in ended.err
    assert "Would run 1 trial, 1 at a time." in tune("good", "--dry-run", trials=1, parallel=9).err
    assert "Would start workerpool0-0 in each trial: python3 -m vtrain_script --case=good --n=…" in ended.err
    assert "Note: convexAutomatedStoppingSpec has no effect here" in ended.err and told not in ended.err
    pytest.importorskip("optuna", reason="needs the extra tuning")
    assert told in tune("good", "--dry-run", "--algorithm=algorithm-unspecified").err
    assert not (vtrain_home / "jobs").exists()


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        ((), 1, "What the trials run is not given.\n  Name a trainer (--local-package-path=DIR)"),
        (("train.py",), 2, "Write --script=train.py --local-package-path=.\n"),
        (("--worker-pool-spec=machine-type=a",), 2, "in the file of --config: trialJobSpec.workerPoolSpecs"),
        (("--epochs=3",), 2, "put it after --: vtrain hp-tuning-jobs create … -- --epochs=3"),
    ],
)
def test_what_is_missing_or_misplaced_is_said(
    vtrain: Any, cwd: Path, flags: tuple[str, ...], code: int, words: str
) -> None:
    (cwd / "train.py").touch()
    (cwd / "study.yaml").write_text(GRID_STUDY.format(trials=3, parallel=2, failures=0, most=9))
    line = ("--display-name=a", "--config=study.yaml", "--backend=process")
    ended = vtrain("hp-tuning-jobs", "create", *line, *flags)
    assert ended.code == code and words in ended.err


@pytest.mark.docker
def test_trials_in_containers_report_and_have_their_own_model(
    tune: Tune, base_image: str, vtrain_home: Path
) -> None:
    ended = tune("good", "--backend=docker", f"--executor-image-uri={base_image}", trials=2)
    assert ended.code == 0, ended.err
    job = json.loads(ended.out)
    values = [trial["finalMeasurement"]["metrics"][0]["value"] for trial in job["trials"]]
    assert values == [0.1, 0.2]
    base = job["trialJobSpec"]["baseOutputDirectory"]["outputUriPrefix"].removeprefix("gs://")
    models = [vtrain_home / "buckets" / base / trial / "model/model.txt" for trial in "12"]
    assert [model.read_text() for model in models] == ["1", "2"]


BLOG_STUDY = """
studySpec:
  metrics:
  - metricId: ACCURACY
    goal: MAXIMIZE
  parameters:
  - parameterId: learning_rate
    scaleType: UNIT_LOG_SCALE
    doubleValueSpec: {minValue: 1e-6, maxValue: 1e-2}
  - parameterId: weight_decay
    discreteValueSpec: {values: [0.0001, 0.001, 0.01]}
  - parameterId: optimizer
    categoricalValueSpec: {values: [adam, sgd]}
  algorithm: RANDOM_SEARCH
"""
BLOG_TRAINER = """
import argparse
import hypertune

parser = argparse.ArgumentParser()
parser.add_argument("--learning_rate", type=float, required=True)
parser.add_argument("--weight_decay", type=float, required=True)
parser.add_argument("--optimizer", choices=("adam", "sgd"), required=True)
options = parser.parse_args()
reporter = hypertune.HyperTune()
for epoch in range(1, 4):
    accuracy = 0.9 - abs(options.learning_rate - 0.001) - options.weight_decay + epoch / 100
    reporter.report_hyperparameter_tuning_metric(
        hyperparameter_metric_tag="ACCURACY", metric_value=accuracy, global_step=epoch
    )
"""


def test_a_trainer_of_the_real_hypertune_is_tuned(vtrain: Any, tmp_path: Path) -> None:
    pytest.importorskip("hypertune", reason="needs cloudml-hypertune")
    (tmp_path / "train.py").write_text(BLOG_TRAINER)
    (tmp_path / "study.yaml").write_text(BLOG_STUDY)
    ended = vtrain(
        *("hp-tuning-jobs", "create", "--backend=process", "--display-name=blog", "--wait", "--format=json"),
        *(f"--config={tmp_path / 'study.yaml'}", "--max-trial-count=6", "--parallel-trial-count=3"),
        *(f"--local-package-path={tmp_path}", "--script=train.py", "--environment=current"),
        f"--python={sys.executable}",
    )
    assert ended.code == 0, ended.err
    trials = trials_of(ended)
    assert [trial["state"] for trial in trials] == ["SUCCEEDED"] * 6
    assert {trial["finalMeasurement"]["stepCount"] for trial in trials} == {"3"}
    name = json.loads(ended.out)["name"]
    best = json.loads(vtrain("hp-tuning-jobs", "trials", name, "--best", "--format=json").out)
    found = max(trials, key=lambda trial: trial["finalMeasurement"]["metrics"][0]["value"])
    assert best[0]["id"] == found["id"]
