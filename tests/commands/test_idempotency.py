"""`--idempotency-key`: the step that is run again finds the job of its first run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lib.vertex_service import VertexService

import vtrain as package
from vtrain.backends import Query
from vtrain.messages import states
from vtrain.messages.codec import to_document
from vtrain.messages.names import KEY_LABEL as LABEL
from vtrain.testing.memory import MemoryBackend
from vtrain.testing.script import Script, script_job

ROOT = Path(package.__file__).parents[1]
CREATE = ("custom-jobs", "create", "--config=-", "--format=value(name)")


@pytest.fixture
def config() -> str:
    document = to_document(script_job(Script(), display_name="demo job"))
    for pool in document["jobSpec"]["workerPoolSpecs"]:
        pool["pythonPackageSpec"]["executorImageUri"] = "gcr.io/p/i"
    return json.dumps(document)


def jobs(memory: MemoryBackend) -> list[str]:
    return [job.name for job in memory.list(Query()).jobs]


def test_a_second_create_returns_the_first_job(vtrain: Any, memory: MemoryBackend, config: str) -> None:
    first = vtrain(*CREATE, "--idempotency-key=build-7", stdin=config)
    second = vtrain(*CREATE, "--idempotency-key=build-7", stdin=config)
    assert (first.code, second.code) == (0, 0), second.err
    assert first.out == second.out
    assert "before" in second.err and "before" not in first.err
    assert jobs(memory) == [first.out.strip()]
    assert memory.get(first.out.strip()).labels == {LABEL: "build-7"}


def test_another_key_and_no_key_make_jobs_of_their_own(
    vtrain: Any, memory: MemoryBackend, config: str
) -> None:
    flags = ("--labels=team=a,z=1", "--idempotency-key=k", "--dry-run", "--format=json")
    planned = vtrain("custom-jobs", "create", "--config=-", *flags, stdin=config)
    assert json.loads(planned.out)["labels"] == {"team": "a", LABEL: "k", "z": "1"}
    assert jobs(memory) == []
    for key in (["--idempotency-key=a"], ["--idempotency-key=b"], [], []):
        assert vtrain(*CREATE, *key, stdin=config).code == 0
    assert len(jobs(memory)) == 4


def test_what_cannot_be_a_label_is_refused(vtrain: Any, memory: MemoryBackend, config: str) -> None:
    for key in ("", "Upper", "a b", "x" * 64):
        ended = vtrain(*CREATE, f"--idempotency-key={key}", stdin=config)
        assert (ended.code, "--idempotency-key" in ended.err) == (2, True)
    ended = vtrain(*CREATE, "--reuse-failed", stdin=config)
    assert ended.code == 2 and "--reuse-failed goes with --idempotency-key." in ended.err
    assert jobs(memory) == []


def failing() -> str:
    """A job that fails."""
    document = to_document(script_job(Script().exit(3), display_name="demo job"))
    document["jobSpec"]["workerPoolSpecs"][0]["pythonPackageSpec"]["executorImageUri"] = "gcr.io/p/i"
    return json.dumps(document)


def test_a_job_that_failed_counts_only_where_that_is_asked(vtrain: Any, memory: MemoryBackend) -> None:
    """Waiting again then gives the first verdict again."""
    for key, flags, made in (("k", (), 2), ("r", ("--reuse-failed",), 3)):
        for _ in range(2):
            ended = vtrain(*CREATE, f"--idempotency-key={key}", "--wait", *flags, stdin=failing())
            assert ended.code == 10
        assert len(jobs(memory)) == made


def test_a_job_that_was_cancelled_does_not_count(vtrain: Any, memory: MemoryBackend) -> None:
    config = json.dumps(to_document(script_job(Script().hang(), display_name="demo job")))
    first = vtrain(*CREATE, "--idempotency-key=k", stdin=config).out
    assert vtrain("custom-jobs", "cancel", first.strip()).code == 0
    assert states.has_ended([memory.get(first.strip()) for _ in range(3)][-1].state)
    second = vtrain(*CREATE, "--idempotency-key=k", stdin=config).out
    assert first.strip() and first != second
    assert vtrain(*CREATE, "--idempotency-key=k", stdin=config).out == second


POOL = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/img"


def run_at_once(argv: list[str], env: dict[str, str]) -> set[str]:
    """What six commands print that start in the same moment."""
    command = [sys.executable, "-m", "vtrain", *argv]
    pipe = subprocess.PIPE
    crowd = [subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True) for _ in range(6)]
    ended = [(*process.communicate(timeout=300), process.returncode) for process in crowd]
    assert [code for *_, code in ended] == [0] * 6, ended
    return {out for out, *_ in ended}


def test_six_creates_at_once_are_one_local_job(
    vtrain: Any, tmp_path: Path, vtrain_home: Path, config: str
) -> None:
    """The module waits until the test ends, so that the job counts meanwhile."""
    gate = tmp_path / "gate"
    (tmp_path / "waits.py").write_text(
        f"import pathlib, time\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.02)\n"
    )
    document = json.loads(config)
    task = {"pythonModule": "waits", "env": [{"name": "PYTHONPATH", "value": str(tmp_path)}]}
    document["jobSpec"]["workerPoolSpecs"] = [{"replicaCount": 1, "pythonPackageSpec": task}]
    file = tmp_path / "job.json"
    file.write_text(json.dumps(document))
    argv = [
        *("custom-jobs", "create", "--backend=process", f"--config={file}", "--format=value(name)"),
        "--idempotency-key=build-7",
    ]
    names = run_at_once(argv, {**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        assert len(names) == 1
        assert vtrain("custom-jobs", "list", "--format=value(name)").out == names.pop()
        assert len(list((vtrain_home / "jobs").iterdir())) == 1
    finally:
        gate.touch()
        for name in vtrain("custom-jobs", "list", "--format=value(name)").out.split():
            vtrain("custom-jobs", "wait", name)


def test_six_creates_at_once_are_one_job_of_a_service(vertex: VertexService) -> None:
    """Each that made a later one has cancelled it."""
    argv = ["custom-jobs", "create", "--display-name=a", POOL, "--idempotency-key=k", "--format=value(name)"]
    names = run_at_once(argv, {**os.environ, "PYTHONPATH": str(ROOT)})
    assert len(names) == 1
    kept = [name for name, job in vertex.resources.items() if "CANCEL" not in job["state"]]
    assert kept == [names.pop().strip()]
