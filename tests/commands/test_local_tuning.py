"""Tuning jobs on this machine, from the command line to the best trial's model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.end_to_end

STUDY = """
maxTrialCount: 3
parallelTrialCount: 2
studySpec:
  metrics: [{metricId: loss, goal: MINIMIZE}]
  algorithm: GRID_SEARCH
  parameters:
  - {parameterId: rate, discreteValueSpec: {values: [1, 2, 3]}}
"""
TRAINER = """
import argparse, json, os, pathlib, sys
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
parser.add_argument("--metric", default="loss")
parser.add_argument("--fails", type=float, default=0)
args = parser.parse_args()
print("rate", args.rate, flush=True)
if args.rate == args.fails:
    sys.exit(3)
line = {args.metric: str((args.rate - 2) ** 2), "global_step": "7"}
pathlib.Path(os.environ["CLOUD_ML_HP_METRIC_FILE"]).write_text(json.dumps(line) + "\\n")
model = pathlib.Path(os.environ["AIP_MODEL_DIR"])
model.mkdir(parents=True, exist_ok=True)
(model / "rate").write_text(str(args.rate))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vtrain: Any) -> Iterator[Path]:
    """The current folder with a study and a trainer. Every job has ended afterwards."""
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "train.py").write_text(TRAINER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VTRAIN_BACKEND", "process")
    yield tmp_path
    with suppress(AssertionError):
        names = vtrain("hp-tuning-jobs", "list", "--format=value(name)").out.split()
        for name in names:
            vtrain("stop", name)
            vtrain("hp-tuning-jobs", "wait", name)


@pytest.fixture
def create(vtrain: Any, folder: Path) -> Any:
    """Creates a tuning job and waits for its end."""

    def run(name: str, *flags: str, arguments: tuple[str, ...] = ()) -> Any:
        words = (
            f"--display-name={name}",
            "--config=study.yaml",
            "--local-package-path=.",
            "--script=train.py",
        )
        rest = ("--", *arguments) if arguments else ()
        return vtrain("hp-tuning-jobs", "create", *words, "--wait", "--format=json", *flags, *rest)

    return run


def test_a_study_ends_with_its_best_trial_and_model(vtrain: Any, create: Any, folder: Path) -> None:
    ended = create("tune")
    assert ended.code == 0, ended.err
    job = json.loads(ended.out)
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert sorted(each["parameters"][0]["value"] for each in job["trials"]) == [1.0, 2.0, 3.0]
    (best,) = json.loads(vtrain("hp-tuning-jobs", "trials", "tune", "--best", "--format=json").out)
    assert best["parameters"] == [{"parameterId": "rate", "value": 2.0}]
    assert (Path(best["modelDir"]) / "rate").read_text() == "2.0"
    told = [line for line in ended.err.splitlines() if line.startswith("Trial ")]
    assert len(told) == 3 and all(" SUCCEEDED after " in line for line in told)
    assert f"best    trial {best['id']}: loss=0" in ended.err
    assert f"model   {best['modelDir']}" in ended.err
    table = vtrain("hp-tuning-jobs", "trials", "@last").out.splitlines()
    assert table[1].split()[:5] == [best["id"], "*", "SUCCEEDED", "0", "2"]


def test_a_study_goes_on_with_the_models_of_the_first(vtrain: Any, create: Any, folder: Path) -> None:
    assert create("first", "--max-trial-count=2").code == 0
    ended = create("second", "--continue-from=first")
    assert ended.code == 0, ended.err
    job = json.loads(ended.out)
    assert [each["id"] for each in job["trials"]] == ["1", "2", "3"]
    assert sorted(each["parameters"][0]["value"] for each in job["trials"]) == [1.0, 2.0, 3.0]
    printed = json.loads(vtrain("hp-tuning-jobs", "trials", "second", "--format=json").out)
    rates = [(Path(each["modelDir"]) / "rate").read_text() for each in printed]
    assert rates == [str(each["parameters"][0]["value"]) for each in printed]


def test_a_metric_of_another_name_is_told(create: Any) -> None:
    ended = create("wrong", arguments=("--metric=lost",))
    assert ended.code == 10
    assert "INFEASIBLE" in ended.err and "lost" in ended.err


def test_the_reason_of_a_failed_trial_is_one_line(create: Any) -> None:
    ended = create("fails", "--max-failed-trial-count=2", arguments=("--fails=2",))
    assert ended.code == 0, ended.err
    (line,) = [line for line in ended.err.splitlines() if "INFEASIBLE" in line]
    assert "exited with a non-zero status of 3" in line and line.endswith("(rate=2)")
    assert "\\x0a" not in ended.err


def test_short_commands_take_a_tuning_job(vtrain: Any, create: Any) -> None:
    assert create("tune").code == 0
    assert vtrain("ps", "--format=value(displayName)").out == "tune\n"
    assert json.loads(vtrain("show", "tune", "--format=json").out)["displayName"] == "tune"
    for words in (("tune-trial-1",), ("tune", "--task-name=trial-1/workerpool0-0")):
        (line,) = (line for line in vtrain("logs", *words).out.splitlines() if "workerpool0-0" in line)
        assert line.endswith("\trate 1.0")
    removed = vtrain("rm", "tune")
    assert removed.code == 0 and "Deleted HyperparameterTuningJob" in removed.err
    assert vtrain("ps", "--format=value(displayName)").out == ""


def test_a_key_makes_one_tuning_job(create: Any) -> None:
    first, again = (create("tune", "--idempotency-key=a1") for _ in range(2))
    assert json.loads(first.out)["name"] == json.loads(again.out)["name"]
    assert "was submitted with this key before" in again.err


def test_a_dry_run_makes_nothing(vtrain: Any, create: Any, vtrain_home: Path) -> None:
    ended = create("tune", "--dry-run", arguments=("--fails=9",))
    assert ended.code == 0 and json.loads(ended.out)["maxTrialCount"] == 3
    assert "Would run 3 trials, 2 at a time." in ended.err
    assert "Would start workerpool0-0 in each trial: python3 -m vtrain_script --fails=9 --rate=…" in ended.err
    assert not (vtrain_home / "jobs").exists()


def test_the_sampler_that_auto_takes_is_told(create: Any) -> None:
    pytest.importorskip("optuna", reason="needs the extra tuning")
    told = "Note: Parameters are suggested by"
    assert told in create("tune", "--dry-run", "--algorithm=algorithm-unspecified").err
    assert told not in create("tune", "--dry-run").err


def test_parts_of_a_study_without_effect_are_told(create: Any) -> None:
    convex = "--set=studySpec.convexAutomatedStoppingSpec.maxStepCount=10"
    told = create("tune", "--dry-run", convex).err
    assert "Note: convexAutomatedStoppingSpec has no effect here" in told


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
    vtrain: Any, folder: Path, flags: tuple[str, ...], code: int, words: str
) -> None:
    ended = vtrain("hp-tuning-jobs", "create", "--display-name=a", "--config=study.yaml", *flags)
    assert ended.code == code and words in ended.err


def test_the_sampler_and_the_seed_are_kept(vtrain: Any, create: Any) -> None:
    ended = create("tune", "--seed=7", "--algorithm=random-search")
    study = json.loads(ended.out)["study"]
    assert (study["sampler"], study["seed"]) == ("random", "7")
