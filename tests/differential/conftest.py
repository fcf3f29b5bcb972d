"""Pauses that nobody notices, and the time zone of the recorded runs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _swift(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google.auth", reason="needs the extra vertex")
    from vtrain.backends.vertex import api, retries
    from vtrain.backends.vertex.vertex_backend import VertexBackend
    from vtrain.core.following import Pace

    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(retries, "LOOK_PAUSE", 0.01)
    monkeypatch.setattr(api, "OPERATION_PAUSE", 0.01)
    monkeypatch.setattr(VertexBackend, "pace", Pace(fastest=0.01, slowest=0.02))


@pytest.fixture(autouse=True)
def _own_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what `TZ` of a recorded run does to this process."""
    with pytest.MonkeyPatch.context() as changes:
        changes.setenv("TZ", "UTC")
        time.tzset()
        yield
    monkeypatch.undo()
    time.tzset()
