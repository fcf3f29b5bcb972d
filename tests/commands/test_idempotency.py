"""`--idempotency-key`: the step that is run again finds the job of its first run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vtrain.backends import Query
from vtrain.commands.idempotency import LABEL
from vtrain.messages.codec import to_document
from vtrain.testing.memory import MemoryBackend
from vtrain.testing.script import Script, script_job

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
    for flags in (["--idempotency-key=a"], ["--idempotency-key=b"], [], []):
        assert vtrain(*CREATE, *flags, stdin=config).code == 0
    assert len(jobs(memory)) == 4


def test_the_key_joins_the_other_labels(vtrain: Any, memory: MemoryBackend, config: str) -> None:
    flags = ("--labels=team=a,z=1", "--idempotency-key=k", "--dry-run", "--format=json")
    ended = vtrain("custom-jobs", "create", "--config=-", *flags, stdin=config)
    assert json.loads(ended.out)["labels"] == {"team": "a", LABEL: "k", "z": "1"}
    assert jobs(memory) == []


@pytest.mark.parametrize("key", ["", "Upper", "a b", "x" * 64])
def test_what_cannot_be_a_label_is_refused(vtrain: Any, memory: MemoryBackend, config: str, key: str) -> None:
    ended = vtrain(*CREATE, f"--idempotency-key={key}", stdin=config)
    assert ended.code == 2
    assert "--idempotency-key" in ended.err
    assert jobs(memory) == []


def test_waiting_again_gives_the_first_verdict(vtrain: Any, memory: MemoryBackend) -> None:
    document = to_document(script_job(Script().exit(3), display_name="demo job"))
    document["jobSpec"]["workerPoolSpecs"][0]["pythonPackageSpec"]["executorImageUri"] = "gcr.io/p/i"
    for _ in range(2):
        ended = vtrain(*CREATE, "--idempotency-key=k", "--wait", stdin=json.dumps(document))
        assert ended.code == 10
    assert len(jobs(memory)) == 1
