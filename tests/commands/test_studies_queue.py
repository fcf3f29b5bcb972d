"""Tuning jobs and pipelines whose jobs do not all fit at once: each waits for its turn, and none is lost."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lib.tuning_jobs import GRID_STUDY, GRID_TRAINER

from vtrain.messages.names import CUSTOM_JOBS, HYPERPARAMETER_TUNING_JOBS
from vtrain.runtime.store import Store

pytestmark = pytest.mark.end_to_end

TRIALS = 5
TEAM = ("persistent-resources", "create", "--persistent-resource-id=team", "--backend=local")


class Crowd:
    """Jobs that all want the same. `fields` are those of a job that takes all of it."""

    def __init__(self, vtrain: Any, code: Path, fields: dict[str, str]) -> None:
        self.vtrain = vtrain
        self.code = code
        self.fields = fields
        self.study = code / "study.yaml"
        self.study.write_text(GRID_STUDY.format(trials=TRIALS, parallel=3, failures=0, most=9))
        (code / "train.py").write_text(GRID_TRAINER)

    def create(self, group: str, *flags: str) -> str:
        """Create a job; its name."""
        spec = "trialJobSpec." if group == "hp-tuning-jobs" else ""
        made = self.vtrain(
            *(group, "create", "--display-name=one", "--format=value(name)", f"--config={self.study}"),
            *(f"--local-package-path={self.code}", "--script=train.py", *(flags or ["--backend=process"])),
            *(f"--set={spec}{field}={value}" for field, value in self.fields.items()),
        )
        assert made.code == 0, made.err
        return str(made.out.strip())

    def result(self, group: str, name: str) -> Any:
        """The job, once it has ended well."""
        ended = self.vtrain(group, "wait", name, "--format=json")
        assert ended.code == 0, ended.err
        return json.loads(ended.out)


@pytest.fixture(params=["memory", "GPUs", "slots"])
def crowd(
    request: pytest.FixtureRequest, vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Crowd]:
    """A machine with room for one job: in memory, with one GPU, or with one slot."""
    machine = "workerPoolSpecs[0].machineSpec"
    fields = {f"{machine}.machineType": "n1-standard-4"}
    monkeypatch.setenv("VTRAIN_MEMORY", "16g")
    if request.param == "GPUs":
        tool = tmp_path / "bin" / "nvidia-smi"
        tool.parent.mkdir()
        tool.write_text("#!/bin/sh\necho '0, GPU-a, NVIDIA T4, 15360 MiB'\n")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
        monkeypatch.setenv("VTRAIN_MEMORY", "none")
        fields |= {f"{machine}.acceleratorType": "NVIDIA_TESLA_T4", f"{machine}.acceleratorCount": "1"}
    if request.param == "slots":
        made = vtrain(*TEAM, "--resource-pool-spec=machine-type=n1-standard-4,replica-count=1")
        assert made.code == 0, made.err
        fields["persistentResourceId"] = "team"
    (tmp_path / "code").mkdir()
    yield Crowd(vtrain, tmp_path / "code", fields)
    if request.param == "slots":
        assert vtrain("persistent-resources", "delete", "team", "--force", "--backend=local", "-q").code == 0


def check_trials(home: Path, *studies: Any) -> None:
    """Each trial of these studies has run once, in a job and a folder of its own."""
    trials = [trial for study in studies for trial in study["trials"]]
    found = Counter((trial["state"], trial.get("infeasibleReason", "")) for trial in trials)
    assert found == {("SUCCEEDED", ""): TRIALS * len(studies)}
    jobs = {trial["customJob"].rpartition("/")[2] for trial in trials}
    assert len(jobs) == len(trials)
    assert Store.open(home).ids(CUSTOM_JOBS) == jobs
    folders = {path.name for path in (home / "jobs").iterdir()}
    assert {study["name"].rpartition("/")[2] for study in studies} | jobs <= folders


def test_trials_that_wait_for_their_turn_all_run(crowd: Crowd, vtrain_home: Path) -> None:
    name = crowd.create("hp-tuning-jobs")
    check_trials(vtrain_home, crowd.result("hp-tuning-jobs", name))


@pytest.mark.parametrize("crowd", ["memory"], indirect=True)
def test_trials_of_two_studies_take_turns(crowd: Crowd, vtrain_home: Path) -> None:
    names = [crowd.create("hp-tuning-jobs") for _ in range(2)]
    check_trials(vtrain_home, *(crowd.result("hp-tuning-jobs", name) for name in names))


@pytest.mark.docker
@pytest.mark.parametrize("crowd", ["memory", "slots"], indirect=True)
def test_trials_in_containers_that_wait_for_their_turn_all_run(
    crowd: Crowd, vtrain_home: Path, base_image: str
) -> None:
    flags = ("--backend=docker", f"--executor-image-uri={base_image}")
    name = crowd.create("hp-tuning-jobs", *flags)
    check_trials(vtrain_home, crowd.result("hp-tuning-jobs", name))


@pytest.mark.parametrize("crowd", ["memory"], indirect=True)
def test_tasks_of_pipelines_wait_for_their_turn(crowd: Crowd, vtrain_home: Path) -> None:
    """Each is a tuning job, and the trials of both stand in one line."""
    names = [crowd.create("training-pipelines") for _ in range(2)]
    for name in names:
        crowd.result("training-pipelines", name)
    studies, _ = Store.open(vtrain_home).page(HYPERPARAMETER_TUNING_JOBS, size=10, token="")
    check_trials(vtrain_home, *(json.loads(study.document) for study in studies))
