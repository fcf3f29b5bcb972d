"""What the trials of a tuning job run: the file's, a trainer on this machine, or the project's job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lib.vertex_service import VertexService

STUDY = """
studySpec:
  metrics: [{metricId: accuracy, goal: MAXIMIZE}]
  parameters:
  - {parameterId: units, integerValueSpec: {minValue: 1, maxValue: 100}}
"""
MACHINES = """
trialJobSpec:
  scheduling: {timeout: 60s}
  workerPoolSpecs:
  - {machineSpec: {machineType: n1-standard-4}, replicaCount: 1}
  - {machineSpec: {machineType: n1-highmem-2}, replicaCount: 2}
"""
CONTAINER = """
trialJobSpec:
  workerPoolSpecs:
  - {machineSpec: {machineType: n1-standard-4}, replicaCount: 1, containerSpec: {imageUri: gcr.io/p/i}}
"""
PROJECT = """
[project]
name = "digits"
[tool.vtrain.job]
module = "trainer.task"
image = "python:3.12"
args = ["--epochs=3"]
env = {LEVEL = "debug"}
labels = {team = "red"}
machine-type = "n1-standard-8"
region = "europe-west4"
bucket = "gs://staging"
"""
TRAINER = (
    "--python-module=trainer.task",
    "--executor-image-uri=python:3.12",
    "--staging-bucket=gs://staging",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a trainer."""
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").touch()
    (tmp_path / "trainer" / "task.py").write_text("print('hello')\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def planned(vtrain: Any, vertex: VertexService, folder: Path) -> Any:
    """The tuning job that a file and flags make, by a dry run for the service."""

    def plan(file: str, *flags: str) -> dict[str, Any]:
        (folder / "study.yaml").write_text(file)
        create = ("hp-tuning-jobs", "create", "--display-name=tune", "--config=study.yaml", "--dry-run")
        ended = vtrain(*create, "--format=json", *flags)
        assert ended.code == 0, ended.err
        assert vertex.requests == []
        document: dict[str, Any] = json.loads(ended.out)
        return document

    return plan


def tasks_of(job: dict[str, Any]) -> list[dict[str, Any]]:
    return [pool["pythonPackageSpec"] for pool in job["trialJobSpec"]["workerPoolSpecs"]]


def test_a_trainer_of_this_machine_is_in_every_pool_of_the_file(planned: Any) -> None:
    job = planned(STUDY + MACHINES, "--local-package-path=.", *TRAINER, "--", "--epochs=3")
    first, second = tasks_of(job)
    (uri,) = first["packageUris"]
    assert uri.startswith("gs://staging/") and uri.endswith(".tar.gz")
    assert (
        first
        == second
        == {
            "executorImageUri": "python:3.12",
            "packageUris": [uri],
            "pythonModule": "trainer.task",
            "args": ["--epochs=3"],
        }
    )
    assert job["trialJobSpec"]["scheduling"] == {"timeout": "60s"}
    types = [pool["machineSpec"]["machineType"] for pool in job["trialJobSpec"]["workerPoolSpecs"]]
    assert types == ["n1-standard-4", "n1-highmem-2"]
    assert job["studySpec"]["metrics"] == [{"metricId": "accuracy", "goal": "MAXIMIZE"}]


def test_without_pools_in_the_file_there_is_one_replica(planned: Any, vtrain: Any) -> None:
    """The name of its package is that of a custom job."""
    (pool,) = planned(STUDY, "--local-package-path=.", *TRAINER)["trialJobSpec"]["workerPoolSpecs"]
    assert pool["replicaCount"] == "1" and pool["pythonPackageSpec"]["pythonModule"] == "trainer.task"
    words = ("--display-name=a", "--dry-run", "--format=json", "--local-package-path=.")
    (custom,) = json.loads(vtrain("custom-jobs", "create", *words, *TRAINER).out)["jobSpec"][
        "workerPoolSpecs"
    ]
    assert custom["pythonPackageSpec"]["packageUris"] == pool["pythonPackageSpec"]["packageUris"]


def test_the_projects_job_runs_where_nothing_else_is_named(planned: Any, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(PROJECT)
    job = planned(STUDY)
    (task,) = tasks_of(job)
    assert task["pythonModule"] == "trainer.task" and task["args"] == ["--epochs=3"]
    assert task["env"] == [{"name": "LEVEL", "value": "debug"}]
    (pool,) = job["trialJobSpec"]["workerPoolSpecs"]
    assert pool["machineSpec"] == {"machineType": "n1-standard-8"}
    assert (job["displayName"], job["labels"]) == ("tune", {"team": "red"})


def test_the_file_counts_more_than_the_projects_job(planned: Any, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(PROJECT)
    job = planned("labels: {team: blue}\n" + STUDY + MACHINES)
    types = [pool["machineSpec"]["machineType"] for pool in job["trialJobSpec"]["workerPoolSpecs"]]
    assert types == ["n1-standard-4", "n1-highmem-2"]
    assert [task["args"] for task in tasks_of(job)] == [["--epochs=3"]] * 2
    assert job["labels"] == {"team": "blue"}


def test_the_projects_job_may_be_a_file_of_its_own(planned: Any, folder: Path) -> None:
    (folder / "job.yaml").write_text(
        "workerPoolSpecs:\n- {replicaCount: 1, containerSpec: {imageUri: gcr.io/p/own}}\n"
        "scheduling: {timeout: 9s}\n"
    )
    (folder / "pyproject.toml").write_text("[tool.vtrain.job]\nconfig = 'job.yaml'\n")
    spec = planned(STUDY + "trialJobSpec: {scheduling: {timeout: 60s}}\n")["trialJobSpec"]
    assert spec["workerPoolSpecs"][0]["containerSpec"] == {"imageUri": "gcr.io/p/own"}
    assert spec["scheduling"] == {"timeout": "60s"}


def test_a_file_that_names_what_runs_has_nothing_of_the_project(planned: Any, folder: Path) -> None:
    alone = planned(STUDY + CONTAINER)
    (folder / "pyproject.toml").write_text(PROJECT)
    assert planned(STUDY + CONTAINER) == alone


def test_a_count_of_failures_replaces_that_of_the_file(planned: Any) -> None:
    for flag, count in (("3", 3), ("0", 2)):
        job = planned("maxFailedTrialCount: 2\n" + STUDY, f"--max-failed-trial-count={flag}")
        assert job["maxFailedTrialCount"] == count


def test_flags_of_a_study_that_are_refused(vtrain: Any, vertex: VertexService, folder: Path) -> None:
    (folder / "study.yaml").write_text(STUDY + CONTAINER)
    create = ("hp-tuning-jobs", "create", "--display-name=t", "--config=study.yaml")
    for flag in ("--sampler=tpe", "--seed=1", "--continue-from=1", "--continue-from=@last"):
        ended = vtrain(*create, flag)
        assert ended.code == 1 and f"{flag.partition('=')[0]} is for jobs on this machine." in ended.err
    assert vertex.requests == []
    for flag in ("--sampler=random", "--seed=x", "--seed=-1", "--seed=4294967296", "--continue-from="):
        ended = vtrain(*create, "--backend=process", flag)
        assert ended.code == 2 and flag.partition("=")[0] in ended.err
    ended = vtrain(*create, "--backend=process", "--continue-from=nobody")
    assert ended.code == 1 and "No job on this machine has the name 'nobody'" in ended.err


def test_a_trainer_may_become_an_image(planned: Any) -> None:
    flags = ("--python-module=trainer.task", "--executor-image-uri=python:3.12", "--package-format=image")
    job = planned(STUDY + MACHINES, "--local-package-path=.", *flags, "--", "--epochs=3")
    first, second = (pool["containerSpec"] for pool in job["trialJobSpec"]["workerPoolSpecs"])
    assert first == second and first["args"] == ["--epochs=3"]
    assert "demo/" in first["imageUri"]


def test_the_files_line_is_named_for_what_no_flag_has_changed(
    vtrain: Any, vertex: VertexService, folder: Path
) -> None:
    wrong = "n1-standard-4, acceleratorType: NVIDIA_L4, acceleratorCount: 1"
    (folder / "study.yaml").write_text(STUDY + MACHINES.replace("n1-standard-4", wrong))
    create = ("hp-tuning-jobs", "create", "--display-name=tune", "--config=study.yaml", "--backend=process")
    ended = vtrain(*create, "--local-package-path=.", *TRAINER, "--dry-run")
    assert ended.code == 1 and "study.yaml:10: " in ended.err and "NVIDIA_L4" in ended.err
