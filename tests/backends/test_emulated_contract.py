"""The contract, kept by the backend `vertex` against the emulator: over real HTTP, with real processes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from lib.emulator_service import PROJECT, emulator_service

import vtrain
from vtrain.backends import BackendSettings, JobBackend
from vtrain.backends.registry import open_backend
from vtrain.messages.custom_job import CustomJob, EnvVar
from vtrain.testing.contract import ReplicaContract
from vtrain.testing.script import Script, script_job

if any(find_spec(name) is None for name in ("google", "uvicorn")):
    pytest.skip("needs the extras vertex and emulator", allow_module_level=True)
pytestmark = pytest.mark.sdk
ROOT = Path(vtrain.__file__).parent.parent


class TestEmulated(ReplicaContract):
    project = PROJECT
    home: Path

    @pytest.fixture
    def backend(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobBackend]:
        from vtrain.backends.vertex import api
        from vtrain.backends.vertex import cloud_log as log_reader
        from vtrain.backends.vertex.cloud_log import Timing

        self.home = home
        quick = Timing(hold_back=0.0, overlap=60.0, first_retry=0.05, longest_retry=0.1)
        monkeypatch.setattr(log_reader, "TIMING", quick)
        monkeypatch.setattr(api, "OPERATION_PAUSE", 0.01)
        monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true")
        with emulator_service(home, aip_dirs="local") as url:
            monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", f"{url}/")
            monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", f"{url}/")
            yield self.reconnect(None)

    def make_job(self, *scripts: Script) -> CustomJob:
        return script_job(*scripts, env=[EnvVar(name="PYTHONPATH", value=str(ROOT))])

    def reconnect(self, backend: JobBackend | None) -> JobBackend:
        return open_backend("vertex", BackendSettings(home=self.home, project=PROJECT, region="us-central1"))

    def is_alive(self, pid: int) -> bool:
        stat = Path(f"/proc/{pid}/stat")
        return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
