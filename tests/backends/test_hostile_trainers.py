"""Trainers that misbehave, as processes and in containers: the verdict is right, and nothing is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from docker_jobs import docker_settings
from lib import hostile_trainers as hostile
from lib.hostile_trainers import Trainer
from lib.local_jobs import PRIMARY, ended, folder_of, info
from lib.waiting import wait_until

from vtrain.backends import Query
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.containers.engine import Engine
from vtrain.failure import meaning
from vtrain.messages import states
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJob,
    CustomJobSpec,
    EnvVar,
    PythonPackageSpec,
    WorkerPoolSpec,
)
from vtrain.runtime.recovery import RESTARTS_PER_JOB

pytestmark = pytest.mark.end_to_end

MEMORY_CONTROLLER = Path("/sys/fs/cgroup/memory")
LIMIT_BYTES = 64 * 1024 * 1024
EVERYWHERE = [pytest.param("process"), pytest.param("docker", marks=pytest.mark.docker)]


class Stage:
    """A local backend, and trainers on it, each the one replica of a job."""

    def __init__(self, backend: LocalBackend, home: Path, pool: Callable[[str], WorkerPoolSpec]) -> None:
        self.backend = backend
        self.home = home
        self._pool = pool

    def submit(self, trainer: Trainer) -> str:
        spec = CustomJobSpec(worker_pool_specs=(self._pool(trainer.code),))
        plan = self.backend.plan(CustomJob(display_name="hostile", job_spec=spec))
        return self.backend.submit(plan).name

    def end(self, name: str) -> CustomJob:
        """The job after its end; the list says the same of it, and no temporary folder is left."""
        job = ended(self.backend, name)
        assert self.backend.list(Query()).jobs == (job,)
        assert self.backend.get(name) == job
        replica = folder_of(self.home, name).replica(PRIMARY).root
        assert [path for path in replica.rglob("tmp") if path.is_dir()] == []
        return job

    def attempts(self, name: str) -> set[int]:
        """The numbers of those that have written something."""
        self.backend.get(name)
        return {entry.attempt for entry in hostile.entries_of(self.backend, name)}

    def run(self, trainer: Trainer) -> CustomJob:
        return self.end(self.submit(trainer))


@pytest.fixture(params=EVERYWHERE)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    """Process, and docker; when the test ends their fixtures look for processes, containers and networks."""
    if request.param == "process":
        return process_stage(request, tmp_path)
    home = request.getfixturevalue("docker_home")
    return docker_stage(home, request.getfixturevalue("base_image"))


def process_stage(request: pytest.FixtureRequest, folder: Path) -> Stage:
    def pool(code: str) -> WorkerPoolSpec:
        (folder / "hostile.py").write_text(code)
        env = (EnvVar(name="PYTHONPATH", value=str(folder)),)
        return WorkerPoolSpec(python_package_spec=PythonPackageSpec(python_module="hostile", env=env))

    home = request.getfixturevalue("home")
    return Stage(request.getfixturevalue("process_backend"), home, pool)


def docker_stage(home: Path, image: str, **options: object) -> Stage:
    def pool(code: str) -> WorkerPoolSpec:
        command = ("python3", "-c", code)
        return WorkerPoolSpec(container_spec=ContainerSpec(image_uri=image, command=command))

    backend = open_backend("docker", docker_settings(home, **options))
    assert isinstance(backend, LocalBackend)
    return Stage(backend, home, pool)


def exit_code(job: CustomJob) -> int:
    return 0 if job.error is None else int(info(job)["exitCode"])


@pytest.mark.parametrize(
    "trainer",
    [
        pytest.param(hostile.at_once(), id="at-once"),
        pytest.param(hostile.closed_output(50), id="closed-output"),
        pytest.param(hostile.one_long_line(20_000_000), id="one-long-line"),
        pytest.param(hostile.many_lines(100_000), id="many-lines"),
    ],
)
def test_exit_code_and_every_byte(stage: Stage, trainer: Trainer) -> None:
    job = stage.run(trainer)
    assert job.state == (states.FAILED if trainer.exit_code else states.SUCCEEDED), job.error
    assert exit_code(job) == trainer.exit_code
    hostile.check_stdout(stage.backend, job.name, trainer)


def test_both_streams_were_whole_when_they_were_closed(stage: Stage) -> None:
    trainer = hostile.closed_output(50)
    job = stage.run(trainer)
    assert trainer.stdout is not None
    for stream in ("stdout", "stderr"):
        assert hostile.stored(stage.backend, job.name, stream) == hostile.written(trainer.stdout())


def test_daemons_end_with_their_trainer(stage: Stage) -> None:
    job = stage.run(hostile.grandchildren(3))
    assert job.state == states.SUCCEEDED, job.error
    assert len({*hostile.stored_lines(stage.backend, job.name)}) == 3


def test_one_that_is_deaf_is_stopped(stage: Stage) -> None:
    name = stage.submit(hostile.deaf())
    wait_until(lambda: len(hostile.stored_lines(stage.backend, name)) > 3)
    stage.backend.cancel(name)
    assert stage.end(name).state == states.CANCELLED
    found = hostile.stored_lines(stage.backend, name)
    assert found == [b"line %d" % number for number in range(len(found))]


def test_one_that_is_deaf_is_killed_and_its_end_is_told(stage: Stage) -> None:
    name = stage.submit(hostile.deaf())
    wait_until(lambda: len(hostile.stored_lines(stage.backend, name)) > 3)
    stage.backend.kill(name)
    assert stage.end(name).state == states.CANCELLED
    exit = folder_of(stage.home, name).replica(PRIMARY).exit()
    assert exit is not None
    assert (exit.code, exit.signal, exit.log_error) == (137, signal.SIGKILL, "")
    found = hostile.stored_lines(stage.backend, name)
    assert found == [b"line %d" % number for number in range(len(found))]


def test_one_that_crashes_is_tried_four_times(stage: Stage) -> None:
    number = signal.SIGSEGV
    trainer = hostile.crashing(20, number.name)
    name = stage.submit(trainer)
    for attempt in range(1, RESTARTS_PER_JOB + 1):  # each with a patience of its own
        wait_until(lambda attempt=attempt: attempt in stage.attempts(name))  # type: ignore[misc]
    job = stage.end(name)
    assert (job.state, exit_code(job)) == (states.FAILED, trainer.exit_code), job.error
    assert (info(job)["signal"], info(job)["restarts"]) == (str(int(number)), str(RESTARTS_PER_JOB))
    assert number.name in meaning(trainer.exit_code)
    for attempt in range(RESTARTS_PER_JOB + 1):
        hostile.check_stdout(stage.backend, job.name, trainer, attempt=attempt)
    assert stage.attempts(name) == {*range(RESTARTS_PER_JOB + 1)}


@pytest.mark.docker
def test_no_memory_in_a_container(docker_home: Path, base_image: str, docker_engine: Engine) -> None:
    stage = docker_stage(docker_home, base_image, memory_bytes=LIMIT_BYTES)
    expect_out_of_memory(stage, hostile.hungry())


def test_no_memory_in_a_process(request: pytest.FixtureRequest, tmp_path: Path, memory_cgroup: Path) -> None:
    expect_out_of_memory(process_stage(request, tmp_path), hostile.hungry(str(memory_cgroup)))


def test_memory_that_another_process_lacked_is_not_told_of_a_replica(
    request: pytest.FixtureRequest, tmp_path: Path, memory_cgroup: Path
) -> None:
    """The kernel counts for the whole machine how often it ended a process for want of memory."""
    eater = hostile.hungry(str(memory_cgroup)).code
    code = f"import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', {eater!r}]).returncode)\n"
    job = process_stage(request, tmp_path).run(Trainer(code, 0, lambda: iter([b"hungry\n-9\n"])))
    assert job.state == states.SUCCEEDED
    assert job.answer is not None
    (replica,) = job.answer["replicas"]
    assert "outOfMemory" not in replica["attempts"][0]


def expect_out_of_memory(stage: Stage, trainer: Trainer) -> None:
    job = stage.run(trainer)
    assert job.state == states.FAILED
    assert (info(job)["reason"], exit_code(job)) == ("OUT_OF_MEMORY", trainer.exit_code), job.error
    assert job.error is not None
    assert "low on memory" in job.error.message
    hostile.check_stdout(stage.backend, job.name, trainer)


@pytest.fixture
def memory_cgroup() -> Iterator[Path]:
    """A cgroup with little memory, which a process may join."""
    folder = MEMORY_CONTROLLER / f"vtrain-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(LIMIT_BYTES))
    except OSError as error:
        pytest.skip(f"no memory cgroup of one's own (version 1, as root): {error}")
    yield folder
    with suppress(OSError):  # a process of it is not reaped yet; the kernel keeps the empty folder
        folder.rmdir()
