"""Local backends in homes of their own; afterwards nothing of them may run, and no engine has any of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from docker_jobs import docker_settings
from lib.docker_engines import remaining
from lib.local_jobs import processes_of
from lib.waiting import wait_until_gone

from vtrain.backends import BackendSettings
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.containers.engine import Engine


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "home"
    monkeypatch.setenv("VTRAIN_HOME", str(folder))
    monkeypatch.setenv("VTRAIN_GRACE_SECONDS", "1")
    yield folder
    wait_until_gone(lambda: processes_of(folder))


@pytest.fixture
def process_backend(home: Path) -> LocalBackend:
    backend = open_backend("process", BackendSettings(home=home, project="local", region="us-central1"))
    assert isinstance(backend, LocalBackend)
    return backend


@pytest.fixture
def docker_home(docker_engine: Engine, home: Path) -> Iterator[Path]:
    """A home of whose jobs the engine has nothing afterwards."""
    yield home
    assert remaining(docker_engine, home) == []


@pytest.fixture
def docker_backend(docker_home: Path, base_image: str) -> LocalBackend:
    backend = open_backend("docker", docker_settings(docker_home))
    assert isinstance(backend, LocalBackend)
    return backend
