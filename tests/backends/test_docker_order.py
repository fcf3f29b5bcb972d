"""The docker backend's own part of a job's order, and lines that may be lost while the engine is away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vtrain.backends import Mount, ReplicaOptions
from vtrain.backends.docker.docker_part import docker_part, with_docker_part
from vtrain.containers.discovery import EngineAddress
from vtrain.messages.custom_job import CustomJob
from vtrain.runtime.folder import JobFolder, ReplicaExit, write_struct
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.log.service_log import ServiceLog

ENGINE = EngineAddress(host="unix:///run/engine.sock", origin="DOCKER_HOST")
OPTIONS = ReplicaOptions(memory_bytes=2**30, mounts=(Mount(source="/data", target="/data"),))
ORDER = JobOrder(
    home="/home",
    name="projects/local/locations/us-central1/customJobs/1",
    job=CustomJob(display_name="a"),
    backend="docker",
    grace_seconds=30.0,
)


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    (tmp_path / "logs").mkdir()
    return JobFolder(tmp_path)


def stored(folder: JobFolder) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder.path / "spec.json").read_bytes())
    return document


def test_the_part_is_one_document_of_its_own(folder: JobFolder) -> None:
    write_struct(folder.path / "spec.json", with_docker_part(ORDER, ENGINE, OPTIONS))
    assert "engine" not in stored(folder) and "container" not in stored(folder)
    part = docker_part(folder.order())
    assert (part.engine, part.container) == (ENGINE, OPTIONS)


def test_lines_that_may_be_lost_are_told_with_what_was_away(folder: JobFolder) -> None:
    replica = folder.replica("workerpool0-0")
    replica.path.mkdir(parents=True)
    ended = ReplicaExit(code=0, started=0.0, ended=9.0, gap=(1.0, 2.0), gap_of="The Docker engine")
    write_struct(replica.path / "exit.json", ended)
    log = ServiceLog(folder)
    log.tell_losses((replica,))
    log.close()
    (file,) = (folder.path / "logs").glob("*.log")
    assert "The Docker engine" in file.read_text() and "1970-01-01T00:00:01" in file.read_text()
