"""The backend against a service on loopback, without credentials and with pauses that nobody notices."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from lib.vertex_jobs import settings_at
from lib.vertex_service import VertexService, serve_vertex

from vtrain.backends.vertex import api, retries
from vtrain.backends.vertex.vertex_backend import VertexBackend, open_vertex

if find_spec("google") is None or find_spec("google.auth") is None or find_spec("starlette") is None:
    collect_ignore_glob = ["test_*.py"]  # they need the extras vertex and emulator


@pytest.fixture
def vertex(monkeypatch: pytest.MonkeyPatch) -> Iterator[VertexService]:
    """The service, which gcloud's variables point at."""
    with serve_vertex() as served:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", served.url)
        monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true")
        monkeypatch.setattr(retries, "FIRST_PAUSE", 0.01)
        monkeypatch.setattr(retries, "LOOK_PAUSE", 0.01)
        monkeypatch.setattr(api, "OPERATION_PAUSE", 0.01)
        yield served


@pytest.fixture
def backend(vertex: VertexService, tmp_path: Path) -> VertexBackend:
    return open_vertex(settings_at(tmp_path))
