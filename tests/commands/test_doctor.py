"""`vtrain doctor`: a line for each need, what mends it, and an end whatever does not answer."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lib.logging_service import LoggingService, serve_logs
from lib.vertex_service import VertexService

from vtrain.commands import doctor

NOBODY = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither an engine nor an index, and no answer takes long."""
    monkeypatch.setenv("DOCKER_HOST", f"tcp://{NOBODY}")
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://me:hush-hush@{NOBODY}/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoggingService]:
    with serve_logs() as service:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", service.url)
        yield service


def findings(ended: Any) -> dict[str, dict[str, Any]]:
    """The checks that a command has printed as JSON, by name."""
    return {entry["check"]: entry for entry in json.loads(ended.out)}


def test_processes_work_without_an_index_an_engine_and_a_project(vtrain: Any, vtrain_home: Path) -> None:
    ended = vtrain("doctor")
    assert ended.code == 0, ended.err
    others = "docker cannot: see engine; vertex cannot: see gcloud configuration"
    assert ended.err == f"Backend: local (no project is set)\nThe backend process can work; {others}.\n"
    assert "  ✓ uv   " in ended.out and "  ! package index " in ended.out and "  ! engine " in ended.out
    assert "  ! gcloud configuration  No project is set.\n" in ended.out
    assert "$ gcloud config set project PROJECT_ID" in ended.out
    assert "hush-hush" not in ended.out + ended.err
    assert not vtrain_home.exists()


def test_the_chosen_backend_decides_the_exit_code(vtrain: Any) -> None:
    ended = vtrain("doctor", "--backend=docker", "--format=json")
    engine = findings(ended)["engine"]
    assert (ended.code, engine["status"], engine["required"]) == (1, "failed", True)
    assert "DOCKER_HOST" in engine["mend"]
    assert "The backend docker cannot work: see engine." in ended.err
    assert "GPU runtime" not in findings(ended)


def test_a_home_that_cannot_be_used_fails_every_backend(
    vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("VTRAIN_HOME", str(file))
    ended = vtrain("doctor")
    assert ended.code == 1
    assert f"  ✗ home                  vtrain cannot use {file}: Not a directory.\n" in ended.out
    assert "Set VTRAIN_HOME." in ended.out


def test_a_service_that_answers(vtrain: Any, vertex: VertexService, logs: LoggingService) -> None:
    ended = vtrain("doctor", "--format=json")
    assert ended.code == 0, ended.err
    found = findings(ended)
    names = ("gcloud configuration", "libraries", "credentials", "Vertex AI API", "Cloud Logging API")
    assert [found[name]["status"] for name in names] == ["ok"] * 5
    assert (found["bucket"]["status"], found["engine"]["required"]) == ("skipped", False)
    assert [request.method for request in vertex.requests] == ["GET"]
    assert found["package index"]["status"] == "skipped"


def test_a_refusal_is_told_with_what_mends_it(
    vtrain: Any, vertex: VertexService, logs: LoggingService
) -> None:
    vertex.fail(403, "Permission 'aiplatform.customJobs.list' denied on resource.", times=9)
    ended = vtrain("doctor")
    assert ended.code == 1
    assert "  ✗ Vertex AI API " in ended.out and "Cloud Logging API" not in ended.out
    assert "roles/aiplatform.user" in ended.out
    assert logs.bodies == []


def test_a_backend_that_nobody_has_chosen_is_asked_nothing_over_the_network(
    vtrain: Any, vertex: VertexService
) -> None:
    ended = vtrain("doctor", "--backend=process", "--format=json")
    assert (ended.code, vertex.requests) == (0, [])
    assert ended.err.endswith("; vertex was not asked.\n")
    found = findings(ended)
    assert found["credentials"]["status"] == "skipped"
    assert found["credentials"]["mend"] == "$ vtrain doctor --backend=vertex"


def test_a_service_that_never_answers_is_given_up(vtrain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "CHECK_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{silent.getsockname()[1]}")
        begun = time.monotonic()
        ended = vtrain("doctor", "--backend=docker")
    assert (ended.code, time.monotonic() - begun < 5) == (1, True)
    assert "  ✗ engine                no answer within 0.2 s.\n" in ended.out
