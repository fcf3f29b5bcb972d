"""The contract, kept by real containers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from docker_jobs import ROOT, docker_job, docker_settings

from vtrain.backends import JobBackend
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.containers.engine import Engine
from vtrain.containers.labels import HOME_LABEL
from vtrain.messages.custom_job import CustomJob
from vtrain.privacy import home_label
from vtrain.testing.contract import ReplicaContract
from vtrain.testing.script import Script, script_job

CANCEL = """
import sys, pathlib
from vtrain.backends import BackendSettings
from vtrain.backends.registry import open_backend
settings = BackendSettings(home=pathlib.Path(sys.argv[1]), project="local", region="us-central1")
open_backend("local", settings).cancel(sys.argv[2])
"""


@pytest.mark.docker
@pytest.mark.engine
class TestDocker(ReplicaContract):
    home: Path
    engine: Engine
    image: str

    @pytest.fixture
    def backend(
        self, docker_backend: LocalBackend, docker_home: Path, docker_engine: Engine, base_image: str
    ) -> JobBackend:
        self.home, self.engine, self.image = docker_home, docker_engine, base_image
        return docker_backend

    def make_job(self, *scripts: Script) -> CustomJob:
        return docker_job(self.image, *scripts)

    def make_refused_job(self) -> CustomJob:
        return script_job(Script())  # names no image

    def reconnect(self, backend: JobBackend) -> JobBackend:
        return open_backend("docker", docker_settings(self.home))

    def cancel_elsewhere(self, backend: JobBackend, name: str) -> None:
        subprocess.run([sys.executable, "-c", CANCEL, str(self.home), name], check=True, cwd=ROOT)

    def is_alive(self, pid: int) -> bool:
        """A process id is one inside its container: with the containers all their processes are gone."""
        return bool(self.engine.client.containers(filters={"label": f"{HOME_LABEL}={home_label(self.home)}"}))
