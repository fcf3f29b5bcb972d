"""The same on a machine that has NVIDIA GPUs: leased by their UUIDs, and seen by nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.waiting import wait_until

from vtrain.backends import BackendSettings
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.messages import states
from vtrain.messages.custom_job import (
    CustomJob,
    CustomJobSpec,
    EnvVar,
    MachineSpec,
    PythonPackageSpec,
    WorkerPoolSpec,
)
from vtrain.messages.log import LogPage, LogQuery
from vtrain.runtime.capacity.offer import find_devices

pytestmark = pytest.mark.gpu

PATIENCE_SECONDS = 120.0
SEEN = """\
import ctypes, os, pathlib, time
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(-1)
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
print(os.environ["CUDA_VISIBLE_DEVICES"], count.value, flush=True)
while not pathlib.Path(os.environ["GATE"]).exists(): time.sleep(0.05)
"""
"""Asks the driver itself how many GPUs there are: without any framework."""


@pytest.fixture
def uuids() -> tuple[str, ...]:
    found = find_devices()
    if not found:
        pytest.skip("nvidia-smi lists no GPU here")
    return tuple(device.uuid for device in found)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "seen.py").write_text(SEEN)
    yield tmp_path / "gate"
    (tmp_path / "gate").touch()


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalBackend:
    monkeypatch.setenv("VTRAIN_MEMORY", "none")
    settings = BackendSettings(home=tmp_path / "home", project="local", region="us-central1")
    opened = open_backend("process", settings)
    assert isinstance(opened, LocalBackend)
    return opened


def submit(backend: LocalBackend, gate: Path, count: int, replicas: int = 1) -> str:
    env = (EnvVar(name="PYTHONPATH", value=str(gate.parent)), EnvVar(name="GATE", value=str(gate)))
    pool = WorkerPoolSpec(
        python_package_spec=PythonPackageSpec(python_module="seen", env=env),
        machine_spec=MachineSpec(accelerator_type="NVIDIA_L4", accelerator_count=count),
        replica_count=replicas,
    )
    job = CustomJob(display_name="gpu", job_spec=CustomJobSpec(worker_pool_specs=(pool,)))
    return backend.submit(backend.plan(job)).name


def said(backend: LocalBackend, name: str, replica: str = "workerpool0-0") -> str:
    def page() -> LogPage:
        return backend.logs(LogQuery(name=name, task_name=replica))

    wait_until(lambda: page().entries or states.has_ended(backend.get(name).state), f"{replica} says nothing")
    return "\n".join(entry.message for entry in page().entries)


def until_state(backend: LocalBackend, name: str, state: str) -> None:
    wait_until(lambda: backend.get(name).state == state, lambda: backend.get(name))


def test_all_gpus_go_to_the_first_job_and_then_to_the_second(
    backend: LocalBackend, gate: Path, uuids: tuple[str, ...]
) -> None:
    first = submit(backend, gate, len(uuids))
    assert said(backend, first) == f"{','.join(uuids)} {len(uuids)}"
    second = submit(backend, gate, 1)
    until_state(backend, second, states.QUEUED)
    gate.touch()
    until_state(backend, second, states.SUCCEEDED)
    assert said(backend, second) == f"{uuids[0]} 1"
    until_state(backend, first, states.SUCCEEDED)


def test_every_replica_sees_its_own(backend: LocalBackend, gate: Path, uuids: tuple[str, ...]) -> None:
    name = submit(backend, gate, 1, replicas=len(uuids))
    seen = [said(backend, name, f"workerpool0-{index}") for index in range(len(uuids))]
    assert seen == [f"{uuid} 1" for uuid in uuids]
    gate.touch()
    until_state(backend, name, states.SUCCEEDED)
