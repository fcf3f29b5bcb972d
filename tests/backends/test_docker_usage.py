"""What containers are seen to use, and the two shapes of the kernel's own record."""

from __future__ import annotations

from pathlib import Path

import pytest
from docker_jobs import docker_settings
from lib.local_jobs import PRIMARY, ended, folder_of, submit
from lib.stand_in_engine import stand_in_engine

from vtrain.backends import ReplicaUsage
from vtrain.backends.docker.container import ContainerOrder
from vtrain.backends.docker.container_life import KernelUsage, kernel_usage
from vtrain.backends.docker.running_container import RunningContainer
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.containers.discovery import EngineAddress
from vtrain.messages.custom_job import ContainerSpec, CustomJob, CustomJobSpec, WorkerPoolSpec
from vtrain.runtime.folder import JobFolder, ReplicaExit

MEBIBYTE = 1024 * 1024
CONTAINER = "0123456789abcdef"
HUNGRY = """
import time
kept = b"x" * (150 * 1024 * 1024)
while time.process_time() < 3.0:
    pass
"""
"""The last look may be half a second before the end, or longer where the machine is busy."""


def write(group: Path, **files: str) -> None:
    group.mkdir(parents=True)
    for name, text in files.items():
        (group / name.replace("_", ".", 1)).write_text(text)


@pytest.mark.parametrize("place", ["docker/{}", "system.slice/docker-{}.scope"])
def test_control_groups_of_the_first_version(tmp_path: Path, place: str) -> None:
    inside = place.format(CONTAINER)
    stat = "cache 10\ninactive_file 3\ntotal_inactive_file 24\n"
    write(tmp_path / "memory" / inside, memory_max_usage_in_bytes="1024\n", memory_stat=stat)
    write(tmp_path / "cpuacct" / inside, cpuacct_usage="2500000000\n")
    assert kernel_usage(CONTAINER, tmp_path) == KernelUsage(peak_memory_bytes=1000, cpu_seconds=2.5)


@pytest.mark.parametrize("file", ["memory_peak", "memory_current"])
def test_control_groups_of_the_second_version(tmp_path: Path, file: str) -> None:
    stats = {"memory_stat": "anon 1000\ninactive_file 24\n", "cpu_stat": "usage_usec 2500000\n"}
    write(tmp_path / "docker" / CONTAINER, **{file: "1024\n"}, **stats)
    assert kernel_usage(CONTAINER, tmp_path) == KernelUsage(peak_memory_bytes=1000, cpu_seconds=2.5)


def test_a_container_that_this_machine_does_not_show(tmp_path: Path) -> None:
    assert kernel_usage(CONTAINER, tmp_path) is None
    write(tmp_path / "docker" / CONTAINER, memory_peak="", memory_stat="", cpu_stat="")
    assert kernel_usage(CONTAINER, tmp_path) is None


SHAPES = [
    b"",
    b"{}",
    b'{"memory_stats": null, "cpu_stats": null}',
    b'{"memory_stats": {"stats": null, "usage": null}, "cpu_stats": {"cpu_usage": null}}',
    b'{"memory_stats": {"stats": {"total_inactive_file": null, "inactive_file": null}}}',
]
"""Answers that are no statistics, and those of containers that have ended or of engines that count less."""


@pytest.mark.parametrize("shape", SHAPES)
def test_statistics_in_which_something_is_missing(tmp_path: Path, shape: bytes) -> None:
    replica = JobFolder(tmp_path / "jobs" / "1").replica(PRIMARY)
    with stand_in_engine() as engine:
        engine.statistics = [shape]
        replica.order(
            ContainerOrder(
                engine=EngineAddress(host=engine.host, origin="test"),
                name=CONTAINER,
                network="",
                labels={},
                config={"HostConfig": {}},
                log=str(tmp_path / "log"),
                grace_seconds=1.0,
            )
        )
        used = RunningContainer(replica).usage()
    assert used == (ReplicaUsage(cpu_seconds=0.0, memory_bytes=0) if shape else None)


def exit_of(backend: LocalBackend, home: Path, spec: WorkerPoolSpec) -> ReplicaExit:
    job = CustomJob(display_name="test", job_spec=CustomJobSpec(worker_pool_specs=(spec,)))
    name = submit(backend, job)
    ended(backend, name)
    end = folder_of(home, name).replica(PRIMARY).exit()
    assert end is not None
    return end


@pytest.mark.docker
def test_memory_and_processor_time_of_a_container(
    docker_backend: LocalBackend, docker_home: Path, base_image: str
) -> None:
    task = ContainerSpec(image_uri=base_image, command=("python3", "-c", HUNGRY))
    end = exit_of(docker_backend, docker_home, WorkerPoolSpec(container_spec=task))
    assert 150 * MEBIBYTE < end.peak_memory_bytes < 400 * MEBIBYTE
    assert 1.0 < end.cpu_seconds < 60.0


@pytest.mark.docker
def test_memory_of_a_container_that_had_too_little(docker_home: Path, base_image: str) -> None:
    backend = open_backend("docker", docker_settings(docker_home, memory_bytes=64 * MEBIBYTE))
    assert isinstance(backend, LocalBackend)
    code = "import time\nkept = []\nwhile True: kept.append(b'x' * 2**20); time.sleep(0.02)"
    task = ContainerSpec(image_uri=base_image, command=("python3", "-c", code))
    end = exit_of(backend, docker_home, WorkerPoolSpec(container_spec=task))
    assert end.oom
    assert 60 * MEBIBYTE < end.peak_memory_bytes <= 64 * MEBIBYTE
