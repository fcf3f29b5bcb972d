"""The backend against a service on loopback, without credentials and with pauses that nobody notices."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from lib.vertex_jobs import settings_at
from lib.vertex_service import VertexService

from vtrain.backends.vertex import api, retries
from vtrain.backends.vertex.vertex_backend import VertexBackend, open_vertex

if find_spec("google") is None or find_spec("google.auth") is None or find_spec("starlette") is None:
    collect_ignore_glob = ["test_*.py"]  # they need the extras vertex and emulator


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(retries, "LOOK_PAUSE", 0.01)
    monkeypatch.setattr(api, "OPERATION_PAUSE", 0.01)


@pytest.fixture
def backend(vertex: VertexService, tmp_path: Path) -> VertexBackend:
    return open_vertex(settings_at(tmp_path))
