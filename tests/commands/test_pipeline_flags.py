"""Flags of `training-pipelines create` over a file whose task is a tuning job: a flag counts more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

STUDY = {
    "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
    "parameters": [{"parameterId": "rate", "doubleValueSpec": {"minValue": 0.1, "maxValue": 1}}],
}
MACHINE = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1}
CONTAINER = MACHINE | {"containerSpec": {"imageUri": "of-file", "command": ["own"]}}
PYTHON = MACHINE | {
    "pythonPackageSpec": {
        "executorImageUri": "of-file",
        "pythonModule": "of.file",
        "packageUris": ["gs://b/file.tar.gz"],
    }
}
PLACE = ("--backend=vertex", "--project=p-1", "--region=us-central1")
POOL = "--worker-pool-spec=machine-type=n1-standard-8"


@pytest.fixture
def planned(vtrain: Any, tmp_path: Path) -> Any:
    """The command that plans a pipeline of that job of trials, and the spec of its trials."""

    def plan(trial: dict[str, Any] | None, *flags: str, **more: Any) -> Any:
        job = {"studySpec": STUDY, **({"trialJobSpec": trial} if trial is not None else {}), **more}
        (tmp_path / "task.yaml").write_text(json.dumps(job))
        line = ("training-pipelines", "create", *PLACE, "--dry-run", "--display-name=d")
        ended = vtrain(*line, f"--config={tmp_path / 'task.yaml'}", *flags)
        sent = yaml.safe_load(ended.out) or {}
        return ended, sent.get("trainingTaskInputs", {}).get("trialJobSpec")

    return plan


def test_a_time_limit(planned: Any) -> None:
    trial = {"workerPoolSpecs": [CONTAINER], "scheduling": {"timeout": "100s", "strategy": "SPOT"}}
    _, spec = planned(trial, "--timeout=1h")
    assert spec["scheduling"] == {"timeout": "3600s", "strategy": "SPOT"}


def test_a_command(planned: Any) -> None:
    _, spec = planned({"workerPoolSpecs": [CONTAINER]}, "--command=given", "--args=a")
    assert spec["workerPoolSpecs"][0]["containerSpec"] == {
        "imageUri": "of-file",
        "command": ["given"],
        "args": ["a"],
    }


@pytest.mark.parametrize("trial", [{"workerPoolSpecs": [CONTAINER]}, {"network": "n"}, None])
def test_pools(planned: Any, trial: dict[str, Any] | None) -> None:
    ended, spec = planned(trial, f"{POOL},container-image-uri=given", "--gpus=T4")
    assert ended.code == 0, ended.err
    (pool,) = spec["workerPoolSpecs"]
    assert pool["containerSpec"] == {"imageUri": "given"}
    assert pool["machineSpec"] == {
        "machineType": "n1-standard-8",
        "acceleratorType": "NVIDIA_TESLA_T4",
        "acceleratorCount": 1,
    }


def test_packages(planned: Any) -> None:
    pool = f"{POOL},executor-image-uri=given,python-module=a.b"
    _, spec = planned({"workerPoolSpecs": [PYTHON]}, pool, "--python-package-uris=gs://b/given.tar.gz")
    assert spec["workerPoolSpecs"][0]["pythonPackageSpec"] == {
        "executorImageUri": "given",
        "pythonModule": "a.b",
        "packageUris": ["gs://b/given.tar.gz"],
    }


def test_an_image_for_the_packages_of_the_file(planned: Any) -> None:
    ended, spec = planned({"workerPoolSpecs": [PYTHON]}, "--executor-image-uri=given")
    assert ended.code == 0, ended.err
    expected = PYTHON["pythonPackageSpec"] | {"executorImageUri": "given"}
    assert spec["workerPoolSpecs"][0]["pythonPackageSpec"] == expected
    assert "containerSpec" not in spec["workerPoolSpecs"][0]


def test_a_flag_about_trials_that_nothing_describes_is_refused(planned: Any) -> None:
    ended, _ = planned(None, "--timeout=1h")
    assert ended.code == 1
    assert "the file has no trialJobSpec, which is where scheduling belongs." in ended.err


def test_unknown_fields_are_sent_where_they_are_allowed(planned: Any) -> None:
    trial = {"workerPoolSpecs": [CONTAINER | {"newField": 1}], "newToo": 2}
    refused, _ = planned(trial)
    assert (refused.code, "newField" in refused.err) == (1, True)
    ended, spec = planned(trial, "--allow-unknown-fields")
    assert ended.code == 0, ended.err
    assert (spec["newToo"], spec["workerPoolSpecs"][0]["newField"]) == (2, 1)
    _, replaced = planned(trial, "--allow-unknown-fields", f"{POOL},container-image-uri=given")
    assert replaced["newToo"] == 2
    assert "newField" not in replaced["workerPoolSpecs"][0]


def test_a_variable_of_the_caller(planned: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", "of caller")
    (tmp_path / "t.py").write_text("print('ran')\n")
    trainer = (f"--local-package-path={tmp_path / 't.py'}", "--env=WORD")
    refused, _ = planned({"workerPoolSpecs": [MACHINE]}, *trainer)
    assert "--env WORD: the value of this environment is taken on local backends only" in refused.err
    ended, spec = planned({"workerPoolSpecs": [MACHINE]}, *trainer, "--backend=process")
    assert ended.code == 0, ended.err
    env = spec["workerPoolSpecs"][0]["pythonPackageSpec"]["env"]
    assert env == [{"name": "WORD", "value": "of caller"}]
