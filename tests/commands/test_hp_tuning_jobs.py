"""`vtrain hp-tuning-jobs`, from the command line to what the service gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lib.vertex_service import VertexService

PARENT = "projects/demo/locations/us-central1"
NAME = f"{PARENT}/hyperparameterTuningJobs/2001"
JOB = """
displayName: from file
maxTrialCount: 5
studySpec:
  metrics: [{metricId: accuracy, goal: MAXIMIZE}]
  parameters:
  - {parameterId: units, integerValueSpec: {minValue: 1, maxValue: 100}}
trialJobSpec:
  workerPoolSpecs:
  - {machineSpec: {machineType: n1-standard-4}, replicaCount: 1, containerSpec: {imageUri: gcr.io/p/i}}
"""
PARAMETER = {"parameterId": "units", "integerValueSpec": {"minValue": "1", "maxValue": "100"}}
MACHINE = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1"}
SENT = {
    "displayName": "tune",
    "maxTrialCount": 5,
    "parallelTrialCount": 2,
    "studySpec": {"metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}], "parameters": [PARAMETER]},
    "trialJobSpec": {"workerPoolSpecs": [MACHINE | {"containerSpec": {"imageUri": "gcr.io/p/i"}}]},
}


@pytest.fixture
def create(tmp_path: Path) -> tuple[str, ...]:
    """A command line that creates a job."""
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    words = ("--display-name=tune", f"--config={file}", "--parallel-trial-count=2")
    return ("hp-tuning-jobs", "create", *words)


def test_create_prints_the_job_in_the_format(
    vtrain: Any, vertex: VertexService, create: tuple[str, ...]
) -> None:
    printed = json.loads(vtrain(*create, "--format=json").out)
    assert printed["state"] == "JOB_STATE_PENDING"
    assert {field: printed[field] for field in SENT} == SENT == vertex.requests[0].body


def test_create_that_waits_ends_with_the_verdict(
    vtrain: Any, vertex: VertexService, create: tuple[str, ...]
) -> None:
    error = {"code": 3, "message": "The first trial failed."}
    job = {"name": NAME, "displayName": "tune", "state": "JOB_STATE_FAILED", "error": error}
    vertex.put(NAME, state="JOB_STATE_FAILED", error=error)
    vertex.answer(json.dumps(job).encode(), method="POST")
    ended = vtrain(*create, "--wait", "--format=value(state)")
    assert (ended.code, ended.out) == (10, "JOB_STATE_FAILED\n"), ended.err
    assert "The first trial failed." in ended.err


def test_a_backend_that_runs_no_images_refuses_trials_of_one(
    vtrain: Any, create: tuple[str, ...], vtrain_home: Path
) -> None:
    ended = vtrain(*create, "--backend=process")
    assert ended.code == 1
    assert "gcr.io/p/i is run by Docker" in ended.err and "--backend=docker" in ended.err
    assert not (vtrain_home / "jobs").exists()


def test_what_the_service_may_refuse_is_sent_with_a_warning(
    vtrain: Any, vertex: VertexService, create: tuple[str, ...]
) -> None:
    ended = vtrain(*create, "--set=studySpec.metrics[0].metricId=two words")
    assert ended.code == 0, ended.err
    assert "WARNING: The service may refuse this job. studySpec.metrics[0].metricId" in ended.err
    assert vertex.requests[0].body["studySpec"]["metrics"][0]["metricId"] == "two words"
    assert "WARNING" not in vtrain(*create).err


def test_an_image_is_for_the_packages_of_the_file(
    vtrain: Any, vertex: VertexService, create: tuple[str, ...], tmp_path: Path
) -> None:
    image = "--executor-image-uri=gcr.io/p/other"
    refused = vtrain(*create, image)
    assert refused.code == 2
    assert "--executor-image-uri is for Python packages, and the file describes none." in refused.err
    package = "pythonPackageSpec: {executorImageUri: gcr.io/p/i, pythonModule: a.b, packageUris: [gs://b/a]}"
    (tmp_path / "job.yaml").write_text(JOB.replace("containerSpec: {imageUri: gcr.io/p/i}", package))
    assert vtrain(*create, image).code == 0
    (pool,) = vertex.requests[0].body["trialJobSpec"]["workerPoolSpecs"]
    assert pool["pythonPackageSpec"]["executorImageUri"] == "gcr.io/p/other"


def test_list_cancel_wait_and_delete_are_for_tuning_jobs(vtrain: Any, vertex: VertexService) -> None:
    vertex.put(NAME, displayName="a", state="JOB_STATE_RUNNING")
    vertex.put(f"{PARENT}/hyperparameterTuningJobs/2002", displayName="b")
    vertex.put(f"{PARENT}/customJobs/1", displayName="c")
    ended = vtrain("hp-tuning-jobs", "list", "--format=value(displayName)")
    assert (ended.code, ended.out) == (0, "b\na\n"), ended.err
    assert vertex.calls() == [f"GET /v1/{PARENT}/hyperparameterTuningJobs"]
    ended = vtrain("hp-tuning-jobs", "cancel", NAME, "--format=json")
    assert (ended.code, ended.out) == (0, "{}\n"), ended.err
    assert vertex.calls()[-1] == f"POST /v1/{NAME}:cancel"
    assert vertex.resources[NAME]["state"] == "JOB_STATE_CANCELLED"
    vertex.put(NAME, state="JOB_STATE_SUCCEEDED")
    assert vtrain("hp-tuning-jobs", "wait", "2001").code == 0
    assert vtrain("hp-tuning-jobs", "delete", "2001").code == 0
    assert NAME not in vertex.resources


def test_the_folder_of_the_trials(vtrain: Any, vertex: VertexService, create: tuple[str, ...]) -> None:
    assert vtrain(*create, "--base-output-dir=gs://bucket/study").code == 0
    (request,) = vertex.requests
    assert request.body["trialJobSpec"]["baseOutputDirectory"] == {"outputUriPrefix": "gs://bucket/study"}


def test_a_trial_without_a_machine_is_doubted_before_it_is_sent(
    vtrain: Any, vertex: VertexService, create: tuple[str, ...]
) -> None:
    file = Path(create[3].removeprefix("--config="))
    file.write_text(JOB.replace("machineSpec: {machineType: n1-standard-4}, ", ""))
    planned = vtrain(*create, "--dry-run")
    assert planned.code == 0
    assert "workerPoolSpecs[0].machineSpec.machineType: is required" in planned.err
    file.write_text(JOB)
    assert "is required" not in vtrain(*create, "--dry-run").err
