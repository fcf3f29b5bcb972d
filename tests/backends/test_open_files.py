"""Jobs of many replicas for users who may have few files open."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lib.local_jobs import ended, folder_of, kill_supervisor, lines
from lib.waiting import wait_until

from vtrain.backends.local import LocalBackend
from vtrain.messages import states

pytestmark = pytest.mark.end_to_end

FEW = 64
REPLICAS = 45
TRAINER = """
import os, resource, time
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True)
while not os.path.exists({gate!r}):
    time.sleep(0.1)
"""


def vtrain(*words: str, hard: int = -1) -> Any:
    """A command of a user who may have few files open, or may raise that to `hard`."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if hard < 0 else hard
    return subprocess.run(
        [sys.executable, "-m", "vtrain", *words],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, most)),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def create(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The words that create a job of many replicas; it runs until the gate is open."""
    monkeypatch.setenv("VTRAIN_MEMORY", "none")
    (tmp_path / "snippet.py").write_text(TRAINER.format(gate=str(tmp_path / "gate")))
    env = [{"name": "PYTHONPATH", "value": str(tmp_path)}]
    task = {"pythonModule": "snippet", "packageUris": [], "executorImageUri": "", "env": env}
    machine = {"machineType": "n1-standard-4"}
    pools = [
        {"replicaCount": count, "machineSpec": machine, "pythonPackageSpec": task}
        for count in (1, REPLICAS - 1)
    ]
    (tmp_path / "job.json").write_text(json.dumps({"workerPoolSpecs": pools}))
    config = f"--config={tmp_path / 'job.json'}"
    yield ["custom-jobs", "create", "--display-name=x", "--format=value(name)", config, "--backend=process"]
    (tmp_path / "gate").touch()


def test_a_supervisor_may_have_as_many_files_open_as_its_job_needs(
    create: list[str], process_backend: LocalBackend, tmp_path: Path, home: Path
) -> None:
    created = vtrain(*create)
    assert created.returncode == 0, created.stderr
    name = created.stdout.strip()
    wait_until(lambda: process_backend.get(name).state == states.RUNNING)
    for replica in ("workerpool0-0", *(f"workerpool1-{number}" for number in range(REPLICAS - 1))):
        wait_until(lambda: lines(process_backend, name, replica) != [])  # noqa: B023 - it is called at once
        assert lines(process_backend, name, replica) == [str(FEW)], "a trainer has the limit of its user"
    kill_supervisor(folder_of(home, name))
    read = vtrain("logs", name, hard=FEW)
    assert read.returncode == 0
    assert f"needs up to {2 * REPLICAS + 64} open files, and this user may have {FEW}." in read.stderr
    assert read.stdout.count(f"\t{FEW}\n") == REPLICAS
    (tmp_path / "gate").touch()
    assert vtrain("custom-jobs", "wait", name).returncode == 0
    assert ended(process_backend, name).state == states.SUCCEEDED


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_job_that_cannot_have_enough_is_refused(create: list[str], home: Path, more: list[str]) -> None:
    refused = vtrain(*create, *more, hard=FEW)
    assert (refused.returncode, refused.stdout) == (1, "")
    sentence = f"The job needs up to {2 * REPLICAS + 64} open files, and this user may have {FEW}."
    assert sentence in refused.stderr and "ulimit -Hn" in refused.stderr
    assert not (home / "jobs").exists()
