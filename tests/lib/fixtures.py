"""Fixtures that tests of several folders take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lib.stand_in_engine import StandInEngine
    from lib.storage_service import Http, StorageEndpoint
    from lib.vertex_service import VertexService


@pytest.fixture
def vertex(monkeypatch: pytest.MonkeyPatch) -> Iterator[VertexService]:
    """The emulator behind a wire, where command lines go as gcloud's do: without `--backend`."""
    pytest.importorskip("google.cloud.aiplatform_v1.gapic_version", reason="needs the extra vertex")
    from lib.vertex_service import serve_vertex

    with serve_vertex() as service:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", service.url)
        monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true")
        monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "demo")
        monkeypatch.setenv("CLOUDSDK_AI_REGION", "us-central1")
        yield service


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInEngine]:
    """A stand-in for a Docker Engine, which `DOCKER_HOST` names."""
    from lib.stand_in_engine import stand_in_engine

    with stand_in_engine() as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.host)
        yield engine


@pytest.fixture
def by_hand(endpoint: StorageEndpoint) -> Iterator[Http]:
    """Requests by hand to the storage service that the module's tests share."""
    from lib.storage_service import Http

    made = Http(endpoint.url)
    yield made
    made.connection.close()


@pytest.fixture
def cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with an empty script `t.py`."""
    (tmp_path / "t.py").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def debug_port(monkeypatch: pytest.MonkeyPatch) -> int:
    """Where `debug` listens in this test, as a run of other tests beside this one has the usual port."""
    from vtrain.backends.process.process_launcher import free_ports

    (port,) = free_ports(1)
    monkeypatch.setattr("vtrain.commands.entry.DEBUG_PORT", str(port))
    return port


@pytest.fixture
def utc() -> Iterator[None]:
    """The time zone of this machine is UTC."""
    with pytest.MonkeyPatch.context() as context:
        context.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()
