"""What containers are seen to use, and the two shapes of the kernel's own record."""

from __future__ import annotations

from pathlib import Path

import pytest
from docker_jobs import docker_settings
from local_jobs import PRIMARY, ended, folder_of, submit, until
from stand_in_engine import stand_in_engine

from vtrain.backends.docker import meter
from vtrain.backends.docker.job_engine import JobEngine
from vtrain.backends.docker.meter import Usage, asked_usage, kernel_usage
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.containers.address import EngineAddress
from vtrain.containers.engine import Engine
from vtrain.messages.custom_job import ContainerSpec, CustomJob, CustomJobSpec, WorkerPoolSpec
from vtrain.runtime.folder import ReplicaExit

MEBIBYTE = 1024 * 1024
CONTAINER = "0123456789abcdef"
HUNGRY = """
import time
kept = b"x" * (150 * 1024 * 1024)
while time.process_time() < 4.0:
    pass
"""
"""The last look may be a second before the end, or longer where the machine is busy."""


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
    assert kernel_usage(CONTAINER, tmp_path) == Usage(peak_memory_bytes=1000, cpu_seconds=2.5)


@pytest.mark.parametrize("file", ["memory_peak", "memory_current"])
def test_control_groups_of_the_second_version(tmp_path: Path, file: str) -> None:
    stats = {"memory_stat": "anon 1000\ninactive_file 24\n", "cpu_stat": "usage_usec 2500000\n"}
    write(tmp_path / "docker" / CONTAINER, **{file: "1024\n"}, **stats)
    assert kernel_usage(CONTAINER, tmp_path) == Usage(peak_memory_bytes=1000, cpu_seconds=2.5)


def test_a_container_that_this_machine_does_not_show(tmp_path: Path) -> None:
    assert kernel_usage(CONTAINER, tmp_path) is None
    write(tmp_path / "docker" / CONTAINER, memory_peak="", memory_stat="", cpu_stat="")
    assert kernel_usage(CONTAINER, tmp_path) is None


def test_what_an_engine_tells_may_be_little() -> None:
    assert asked_usage({}) == Usage()
    assert asked_usage({"memory_stats": {}, "cpu_stats": {"cpu_usage": {"total_usage": 10**9}}}) == Usage(
        cpu_seconds=1.0
    )


SHAPES = [
    b"null",
    b"[]",
    b"5",
    b'"x"',
    b"",
    b"{",
    b"[" * 100_000,
    b'{"memory_stats": null, "cpu_stats": null}',
    b'{"memory_stats": {"stats": null, "usage": null, "max_usage": null}, "cpu_stats": {"cpu_usage": null}}',
    b'{"memory_stats": {"stats": {"total_inactive_file": null, "inactive_file": null}}}',
    b'{"memory_stats": 7, "cpu_stats": [1]}',
    b'{"memory_stats": {"usage": "many", "stats": "none"}, "cpu_stats": {"cpu_usage": {"total_usage": "x"}}}',
    b'{"memory_stats": {"usage": true}, "cpu_stats": {"cpu_usage": {"total_usage": -5}}}',
    b'{"memory_stats": {"usage": 1e400}, "cpu_stats": {"cpu_usage": {"total_usage": NaN}}}',
    b'{"memory_stats": {"usage": 1%s}}' % (b"0" * 4000),
    b'{"memory_stats": {"usage": 1%s}}' % (b"0" * 5000),
]
"""Answers that are no statistics, or statistics in which something is null, missing or no number."""
GOOD = b'{"memory_stats": {"usage": 1024, "stats": {"inactive_file": 24}}}'


@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape_of_statistics_is_borne(shape: bytes) -> None:
    with stand_in_engine() as engine:
        engine.statistics = [shape]
        job_engine = JobEngine(EngineAddress(host=engine.host, origin="test"))
        assert asked_usage(job_engine.statistics(CONTAINER)) == Usage()
        job_engine.hang_up()


def test_metering_goes_on_after_statistics_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread serves all containers of a job for as long as they run."""
    monkeypatch.setattr(meter, "ASKED_SECONDS", 0.01)
    with stand_in_engine() as engine:
        job_engine = JobEngine(EngineAddress(host=engine.host, origin="test"))
        engine.statistics = [*SHAPES, GOOD]
        job_engine.meter.add(CONTAINER)
        until(lambda: job_engine.meter.usage(CONTAINER) == Usage(peak_memory_bytes=1000))
        assert job_engine.meter.is_alive()
        job_engine.meter.drop(CONTAINER)
        job_engine.hang_up()


def test_metering_goes_on_whatever_asking_raises(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    answers: list[object] = [KeyError("memory_stats"), {"memory_stats": {"usage": 7}}]

    def ask(_: str) -> object:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(meter, "ASKED_SECONDS", 0.01)
    measuring = meter.Meter(ask)
    measuring.add(CONTAINER)
    until(lambda: measuring.usage(CONTAINER) == Usage(peak_memory_bytes=7))
    measuring.drop(CONTAINER)
    assert "KeyError: 'memory_stats'" in capfd.readouterr().err


def test_a_container_that_the_kernel_has_shown_is_never_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine answers late for a container that it is just cleaning up."""
    looks, asked = [], []

    def kernel(container: str) -> Usage | None:
        looks.append(container)
        return Usage(cpu_seconds=1.0) if looks.count(CONTAINER) == 1 and container == CONTAINER else None

    monkeypatch.setattr(meter, "kernel_usage", kernel)
    monkeypatch.setattr(meter, "FIRST_SECONDS", 0.001)
    measuring = meter.Meter(lambda container: asked.append(container))
    measuring.add(CONTAINER)
    measuring.add("another")
    until(lambda: looks.count(CONTAINER) > 3 and "another" in asked)
    assert CONTAINER not in asked
    assert measuring.usage(CONTAINER) == Usage(cpu_seconds=1.0)
    measuring.drop(CONTAINER)
    measuring.drop("another")


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


@pytest.mark.docker
def test_an_engine_whose_groups_are_not_seen_is_asked(
    docker_backend: LocalBackend, docker_engine: Engine, docker_home: Path, base_image: str
) -> None:
    code = f"import time\nx = b'x' * {50 * MEBIBYTE}\nprint('ready', flush=True)\ntime.sleep(600)"
    task = ContainerSpec(image_uri=base_image, command=("python3", "-c", code))
    spec = CustomJobSpec(worker_pool_specs=(WorkerPoolSpec(container_spec=task),))
    name = submit(docker_backend, CustomJob(display_name="test", job_spec=spec))
    until(lambda: folder_of(docker_home, name).log(PRIMARY).exists())
    until(lambda: folder_of(docker_home, name).log(PRIMARY).read_text() == "ready\n")
    job_engine = JobEngine(docker_engine.address)
    used = asked_usage(job_engine.statistics(f"vtrain-{name.rpartition('/')[2]}-{PRIMARY}"))
    assert used.peak_memory_bytes > 50 * MEBIBYTE
    assert used.cpu_seconds > 0
    assert job_engine.statistics("vtrain-test-none") == {}
    job_engine.hang_up()
    docker_backend.cancel(name)
    ended(docker_backend, name)
