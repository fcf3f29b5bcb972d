"""The contract, kept by real containers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from docker_jobs import ROOT, docker_job, docker_settings

from vtrain.backends import JobBackend
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.containers.engine import HOME_LABEL, Engine
from vtrain.messages.custom_job import CustomJob, Scheduling
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

    @pytest.mark.parametrize(("script", "code"), [(Script().exit(7), 7)], ids=["7"])
    def test_exit_codes_are_kept(self, backend: JobBackend, script: Script, code: int) -> None:
        """Those of signals look like an end from outside."""
        super().test_exit_codes_are_kept(backend, script, code)

    @pytest.mark.parametrize(("number", "code"), [(9, 137), (15, 143)])
    def test_a_signal_to_oneself_looks_like_one_from_outside(
        self, backend: JobBackend, number: int, code: int
    ) -> None:
        job = self.make_job(Script().die(number))
        spec = msgspec.structs.replace(job.job_spec, scheduling=Scheduling(disable_retries=True))
        plan = backend.plan(msgspec.structs.replace(job, job_spec=spec))
        ended = self.wait(backend, backend.submit(plan).name)
        assert ended.error is not None
        (info,) = ended.error.details
        assert (info["reason"], info["metadata"]["exitCode"]) == ("REPLICA_INTERRUPTED", str(code))
