"""Jobs that do not fit now wait, in order: in processes and containers, GPUs by a stand-in for nvidia-smi."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from docker_jobs import docker_job
from lib.local_jobs import ended, folder_of, kill_supervisor, lines, submit
from lib.supervisors import supervisor_of
from lib.waiting import wait_until

import vtrain
from vtrain.backends import BackendSettings, Query, ReplicaOptions
from vtrain.backends.docker.container import container_orders
from vtrain.backends.docker.docker_part import with_docker_part
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.containers.discovery import EngineAddress
from vtrain.errors import ConfigError, ConflictError
from vtrain.messages import states
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJob,
    CustomJobSpec,
    EnvVar,
    MachineSpec,
    PythonPackageSpec,
    WorkerPoolSpec,
)
from vtrain.runtime.capacity.leases import Claim
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.launching import Runtime
from vtrain.runtime.store import Store
from vtrain.testing.script import Script

pytestmark = pytest.mark.end_to_end

ROOT = Path(vtrain.__file__).parent.parent
SMALL = MachineSpec(machine_type="n1-standard-4")
"""15 GB."""
ONE_GPU = MachineSpec(machine_type="n1-standard-4", accelerator_type="NVIDIA_TESLA_T4", accelerator_count=1)
TWO_GPUS = msgspec.structs.replace(ONE_GPU, accelerator_count=2)


WAIT = "import pathlib, sys, time\nwhile not pathlib.Path({gate!r}).exists(): time.sleep(0.02)\n"


class Trainers:
    """Jobs of small programs. The ones that wait end once the gate is open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gate = folder / "gate"
        self.journal = folder / "journal"
        self.made = 0

    def open_gate(self) -> None:
        self.gate.touch()

    def waiting(self, machine: MachineSpec = SMALL, before: str = "", replicas: int = 1) -> CustomJob:
        return self.job(before + WAIT.format(gate=str(self.gate)), machine, replicas)

    def telling(self, machine: MachineSpec, replicas: int = 1) -> CustomJob:
        """Each replica writes which GPUs it sees, and waits."""
        told = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'), flush=True)\n"
        return self.waiting(machine, told, replicas)

    def noting(self, word: str) -> CustomJob:
        return self.job(f"with open({str(self.journal)!r}, 'a') as file: file.write('{word} ')")

    def job(self, code: str, machine: MachineSpec = SMALL, replicas: int = 1) -> CustomJob:
        self.made += 1
        module = f"trainer{self.made}"
        (self.folder / f"{module}.py").write_text(code)
        env = (EnvVar(name="PYTHONPATH", value=str(self.folder)),)
        task = PythonPackageSpec(python_module=module, env=env)
        pool = WorkerPoolSpec(python_package_spec=task, machine_spec=machine, replica_count=replicas)
        return CustomJob(display_name="queue", job_spec=CustomJobSpec(worker_pool_specs=(pool,)))


@pytest.fixture
def trainers(tmp_path: Path) -> Iterator[Trainers]:
    folder = tmp_path / "trainers"
    folder.mkdir()
    yield (made := Trainers(folder))
    made.open_gate()


def state(backend: LocalBackend, name: str) -> str:
    return states.short(backend.get(name).state)


def is_in(backend: LocalBackend, name: str, *wanted: str) -> None:
    wait_until(lambda: state(backend, name) in wanted)


def service_lines(backend: LocalBackend, name: str) -> str:
    return "\n".join(lines(backend, name, "service"))


def leases(home: Path) -> int:
    return int(Store.open(home).execute("SELECT count(*) FROM leases")[0][0])


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Says which GPUs this machine has: a file with their UUIDs, one a line."""
    tool, table = tmp_path / "bin" / "nvidia-smi", tmp_path / "uuids"
    tool.parent.mkdir()
    loop = 'while read -r id; do echo "$n, $id, NVIDIA L4, 23034 MiB"; n=$((n+1)); done'
    tool.write_text(f"#!/bin/sh\nn=0\n{loop} < {table}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("VTRAIN_MEMORY", "none")
    table.write_text("GPU-a\n")
    return table


@pytest.fixture
def sixteen_gb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for one small machine."""
    monkeypatch.setenv("VTRAIN_MEMORY", "16g")


def test_a_job_that_does_not_fit_is_queued_and_runs_later(
    process_backend: LocalBackend, home: Path, trainers: Trainers, sixteen_gb: None
) -> None:
    first = submit(process_backend, trainers.waiting())
    is_in(process_backend, first, "RUNNING")
    second = submit(process_backend, trainers.job("print('x')"))
    is_in(process_backend, second, "QUEUED")
    listed = {job.name: states.short(job.state) for job in process_backend.list(Query()).jobs}
    assert listed == {first: "RUNNING", second: "QUEUED"}
    told = f"Job is queued: it needs 15 GB of memory, and 1 GB of 16 GB are free (job {first[-19:]} runs)."
    assert told in service_lines(process_backend, second)
    trainers.open_gate()
    assert ended(process_backend, second).state == states.SUCCEEDED
    assert ended(process_backend, first).state == states.SUCCEEDED
    assert lines(process_backend, second) == ["x"]
    wait_until(lambda: leases(home) == 0)


def test_jobs_start_in_the_order_of_their_submission(
    process_backend: LocalBackend, trainers: Trainers, sixteen_gb: None
) -> None:
    names = [submit(process_backend, trainers.waiting())]
    for word in ("second", "third", "fourth"):
        names.append(submit(process_backend, trainers.noting(word)))
    is_in(process_backend, names[0], "RUNNING")
    for name in names[1:]:
        is_in(process_backend, name, "QUEUED")
    trainers.open_gate()
    for name in names:
        assert ended(process_backend, name).state == states.SUCCEEDED
    assert trainers.journal.read_text().split() == ["second", "third", "fourth"]


def test_only_the_first_in_line_has_a_process(
    process_backend: LocalBackend,
    home: Path,
    trainers: Trainers,
    sixteen_gb: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others are started by whoever makes room, with the environment of their own command."""
    running = submit(process_backend, trainers.waiting())
    is_in(process_backend, running, "RUNNING")
    names = []
    for word in ("a", "b", "c", "d"):
        monkeypatch.setenv("SUBMITTED_BY", word)
        names.append(submit(process_backend, trainers.noting(word)))
    monkeypatch.setenv("SUBMITTED_BY", "nobody")
    for name in names:
        is_in(process_backend, name, "QUEUED")
    folders = [folder_of(home, name) for name in names]
    assert [bool(supervisor_of(folder)) for folder in folders] == [True, False, False, False]
    assert f"Job is queued: job {names[0][-19:]} was there before" in service_lines(process_backend, names[3])
    process_backend.cancel(names[2])
    assert ended(process_backend, names[2]).state == states.CANCELLED
    assert [folder.kept_environment().get("SUBMITTED_BY") for folder in folders] == [None, "b", None, "d"]
    trainers.open_gate()
    store = Store.open(home)  # nobody looks at the jobs through the backend
    wait_until(lambda: all(states.has_ended(store.get(name).state) for name in names))
    assert trainers.journal.read_text().split() == ["a", "b", "d"]
    assert not any(folder.environment.exists() for folder in folders)
    wait_until(lambda: leases(home) == 0)  # the last lease is given back after the job's end is stored


def test_a_machine_left_alone_goes_on_when_a_holder_is_killed(
    process_backend: LocalBackend, home: Path, trainers: Trainers, sixteen_gb: None
) -> None:
    holder = submit(process_backend, trainers.waiting())
    is_in(process_backend, holder, "RUNNING")
    names = [submit(process_backend, trainers.noting(word)) for word in ("second", "third", "fourth")]
    is_in(process_backend, names[0], "QUEUED")
    kill_supervisor(folder_of(home, holder))
    trainers.open_gate()
    store = Store.open(home)
    wait_until(lambda: all(store.get(name).state == states.SUCCEEDED for name in (holder, *names)))
    assert trainers.journal.read_text().split() == ["second", "third", "fourth"]


def test_a_job_without_needs_passes_the_queue(
    process_backend: LocalBackend, trainers: Trainers, sixteen_gb: None
) -> None:
    running, waiting = (submit(process_backend, trainers.waiting()) for _ in range(2))
    is_in(process_backend, waiting, "QUEUED")
    free = submit(process_backend, trainers.job("", MachineSpec()))
    assert ended(process_backend, free).state == states.SUCCEEDED
    assert state(process_backend, waiting) == "QUEUED"
    trainers.open_gate()
    assert ended(process_backend, running).state == ended(process_backend, waiting).state == states.SUCCEEDED


def test_whoever_waits_for_a_queued_job_is_told(
    process_backend: LocalBackend, trainers: Trainers, sixteen_gb: None
) -> None:
    running, waiting = (submit(process_backend, trainers.waiting()) for _ in range(2))
    is_in(process_backend, waiting, "QUEUED")
    argv = [sys.executable, "-m", "vtrain", "custom-jobs", "wait", waiting]
    with subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr is not None
        told = f"{waiting} is QUEUED, until there is room for it."
        assert any(told in line for line in command.stderr)
        assert "--memory=1g" in command.stderr.readline()
        trainers.open_gate()
        command.stderr.read()
    assert command.returncode == 0
    assert ended(process_backend, running).state == ended(process_backend, waiting).state == states.SUCCEEDED


def test_a_queued_job_can_be_cancelled_and_deleted(
    process_backend: LocalBackend, trainers: Trainers, sixteen_gb: None
) -> None:
    first, second, third = (submit(process_backend, trainers.waiting()) for _ in range(3))
    is_in(process_backend, second, "QUEUED")
    is_in(process_backend, third, "QUEUED")
    with pytest.raises(ConflictError, match="is QUEUED and can be deleted once it has ended"):
        process_backend.delete(second)
    process_backend.cancel(second)
    assert ended(process_backend, second).state == states.CANCELLED
    assert lines(process_backend, second) == []
    process_backend.delete(second)
    trainers.open_gate()
    assert ended(process_backend, third).state == ended(process_backend, first).state == states.SUCCEEDED


def test_a_holder_without_a_supervisor_does_not_stop_the_queue(
    process_backend: LocalBackend, home: Path, trainers: Trainers, sixteen_gb: None
) -> None:
    """Nobody asks about the holder: whoever waits gives it another supervisor."""
    holder = submit(process_backend, trainers.waiting())
    is_in(process_backend, holder, "RUNNING")
    waiting = submit(process_backend, trainers.job("print('x')"))
    is_in(process_backend, waiting, "QUEUED")
    kill_supervisor(folder_of(home, holder))
    trainers.open_gate()
    wait_until(lambda: state(process_backend, waiting) == "SUCCEEDED")
    assert states.has_ended(Store.open(home).get(holder).state)
    assert ended(process_backend, holder).state == states.SUCCEEDED


def test_a_queued_job_whose_supervisor_dies_keeps_its_place(
    process_backend: LocalBackend, home: Path, trainers: Trainers, sixteen_gb: None
) -> None:
    first = submit(process_backend, trainers.waiting())
    is_in(process_backend, first, "RUNNING")
    second, third = (submit(process_backend, trainers.noting(word)) for word in ("second", "third"))
    is_in(process_backend, second, "QUEUED")
    is_in(process_backend, third, "QUEUED")
    kill_supervisor(folder_of(home, second))
    trainers.open_gate()
    is_in(process_backend, third, "SUCCEEDED")
    assert ended(process_backend, second).state == ended(process_backend, first).state == states.SUCCEEDED
    assert trainers.journal.read_text().split() == ["second", "third"]


def test_two_jobs_never_share_the_one_gpu(
    process_backend: LocalBackend, trainers: Trainers, gpus: Path
) -> None:
    first = submit(process_backend, trainers.telling(ONE_GPU))
    wait_until(lambda: lines(process_backend, first) == ["GPU-a"])
    second = submit(process_backend, trainers.telling(ONE_GPU))
    is_in(process_backend, second, "QUEUED")
    assert "it needs 1 GPU, and 0 of 1 are free" in service_lines(process_backend, second)
    process_backend.cancel(first)
    wait_until(lambda: lines(process_backend, second) == ["GPU-a"])
    trainers.open_gate()
    assert ended(process_backend, second).state == states.SUCCEEDED
    assert ended(process_backend, first).state == states.CANCELLED


def test_every_replica_has_gpus_of_its_own(
    process_backend: LocalBackend, trainers: Trainers, gpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus.write_text("GPU-a\nGPU-b\nGPU-c\nGPU-d\nGPU-e\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    name = submit(process_backend, trainers.telling(TWO_GPUS, 2))
    wait_until(lambda: lines(process_backend, name, "workerpool0-0") == ["GPU-a,GPU-b"])
    wait_until(lambda: lines(process_backend, name, "workerpool0-1") == ["GPU-c,GPU-d"])
    trainers.open_gate()
    assert ended(process_backend, name).state == states.SUCCEEDED


def test_more_gpus_than_there_are_is_said_and_not_waited_for(
    process_backend: LocalBackend, trainers: Trainers, gpus: Path, home: Path
) -> None:
    trainers.open_gate()
    job = trainers.telling(ONE_GPU, 2)
    (notice,) = (line for line in process_backend.plan(job).notices if "NVIDIA" in line)
    assert notice.startswith("workerPoolSpecs[0]: NO ACCELERATOR: 1 x NVIDIA_TESLA_T4 cannot be had here")
    name = submit(process_backend, job)
    assert ended(process_backend, name).state == states.SUCCEEDED
    assert lines(process_backend, name) == [""]  # it sees none: others may have them
    strict = BackendSettings(
        home=home,
        project="local",
        region="us-central1",
        options=ReplicaOptions(require_accelerators=True),
    )
    with pytest.raises(ConfigError, match="1 x NVIDIA_TESLA_T4 cannot be had here"):
        open_backend("process", strict).plan(job)


def test_gpus_that_stand_in_for_others_are_said(
    process_backend: LocalBackend, trainers: Trainers, gpus: Path
) -> None:
    notices = process_backend.plan(trainers.telling(ONE_GPU)).notices
    assert (
        "workerPoolSpecs[0]: 1 x NVIDIA_TESLA_T4: the GPUs of this machine stand in for them, whatever their "
        "model." in notices
    )
    notices = process_backend.plan(trainers.telling(TWO_GPUS)).notices
    assert "workerPoolSpecs[0]: 2 x NVIDIA_TESLA_T4: this machine has 1 for each replica." in notices


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("VTRAIN_MEMORY", "much"),
        ("VTRAIN_ACCELERATORS", "the fast one"),
        *(("VTRAIN_GRACE_SECONDS", text) for text in ("soon", "nan", "inf", "-1")),
    ],
)
def test_a_bad_limit_is_refused_before_anything_starts(
    variable: str,
    value: str,
    process_backend: LocalBackend,
    home: Path,
    trainers: Trainers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=variable):
        process_backend.plan(trainers.job(""))
    assert not home.exists()


def test_hardware_that_the_service_does_not_have_is_refused(
    process_backend: LocalBackend, trainers: Trainers
) -> None:
    job = trainers.job("", msgspec.structs.replace(ONE_GPU, machine_type="e2-standard-4"))
    with pytest.raises(ConfigError, match=r"workerPoolSpecs\[0\]\.machineSpec\.acceleratorType"):
        process_backend.plan(job)


def test_containers_get_their_own_gpus_by_uuid(tmp_path: Path) -> None:
    pool = WorkerPoolSpec(
        container_spec=ContainerSpec(image_uri="an/image"), machine_spec=ONE_GPU, replica_count=2
    )
    name = "projects/local/locations/us-central1/customJobs/1234567890123456789"
    order = JobOrder(
        home=str(tmp_path),
        name=name,
        job=CustomJob(name=name, job_spec=CustomJobSpec(worker_pool_specs=(pool,))),
        backend="docker",
        grace_seconds=1,
        claim=Claim(accelerators=("GPU-a", "GPU-b"), counts={"workerpool0-0": 1, "workerpool0-1": 1}),
    )
    order = with_docker_part(order, EngineAddress(host="unix:///nowhere", origin="a test"), ReplicaOptions())
    info = {"NCPU": 2, "MemTotal": 2**34, "Runtimes": {"nvidia": {}}}
    devices = {"workerpool0-0": ("GPU-a",), "workerpool0-1": ("GPU-b",)}
    runtimes = (Runtime(image="an/image"),)
    orders = container_orders(
        info, order, folder_of(tmp_path, name), runtimes, devices, storage={}, network=""
    )
    requests = {name: found.config["HostConfig"]["DeviceRequests"] for name, found in orders.items()}
    assert {name: request["DeviceIDs"] for name, (request,) in requests.items()} == {
        name: list(uuids) for name, uuids in devices.items()
    }


def in_containers(image: str, script: Script) -> CustomJob:
    """On a small machine."""
    job = docker_job(image, script)
    pools = tuple(
        msgspec.structs.replace(pool, machine_spec=SMALL) for pool in job.job_spec.worker_pool_specs
    )
    spec = msgspec.structs.replace(job.job_spec, worker_pool_specs=pools)
    return msgspec.structs.replace(job, job_spec=spec)


@pytest.mark.docker
def test_containers_wait_for_memory_too(
    docker_backend: LocalBackend, base_image: str, sixteen_gb: None
) -> None:
    running = submit(docker_backend, in_containers(base_image, Script().hang()))
    is_in(docker_backend, running, "RUNNING")
    waiting = submit(docker_backend, in_containers(base_image, Script().write("x\n")))
    is_in(docker_backend, waiting, "QUEUED")
    docker_backend.kill(running)
    assert ended(docker_backend, waiting).state == states.SUCCEEDED
    assert lines(docker_backend, waiting) == ["x"]
    assert ended(docker_backend, running).state == states.CANCELLED
