"""The contract, kept by the backend in memory and by real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import vtrain
from vtrain.backends import BackendSettings, JobBackend
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.messages.custom_job import CustomJob, EnvVar
from vtrain.testing.contract import ReplicaContract
from vtrain.testing.memory import MemoryBackend
from vtrain.testing.script import Script, script_job

ROOT = Path(vtrain.__file__).parent.parent

CANCEL = """
import sys, pathlib
from vtrain.backends import BackendSettings
from vtrain.backends.registry import open_backend
settings = BackendSettings(home=pathlib.Path(sys.argv[1]), project="local", region="us-central1")
open_backend("process", settings).cancel(sys.argv[2])
"""


class TestMemory(ReplicaContract):
    @pytest.fixture
    def backend(self) -> JobBackend:
        return MemoryBackend()


class TestProcess(ReplicaContract):
    home: Path

    @pytest.fixture
    def backend(self, process_backend: LocalBackend, home: Path) -> JobBackend:
        self.home = home
        return process_backend

    def make_job(self, *scripts: Script) -> CustomJob:
        return script_job(*scripts, env=[EnvVar(name="PYTHONPATH", value=str(ROOT))])

    def reconnect(self, backend: JobBackend) -> JobBackend:
        return open_backend("process", BackendSettings(home=self.home, project="local", region="us-central1"))

    def cancel_elsewhere(self, backend: JobBackend, name: str) -> None:
        subprocess.run([sys.executable, "-c", CANCEL, str(self.home), name], check=True, cwd=ROOT)

    def is_alive(self, pid: int) -> bool:
        stat = Path(f"/proc/{pid}/stat")
        return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
