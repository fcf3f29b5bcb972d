"""Jobs whose engine is stopped, killed and started again: the state stays right, and so does the log."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from docker_jobs import docker_settings
from lib.docker_engines import connected, remaining
from lib.local_jobs import PRIMARY, ended, folder_of, info, kill_supervisor, lines, submit
from lib.second_engine import SecondEngine
from lib.waiting import wait_until

from vtrain.backends.docker.container import container_name
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.messages import states
from vtrain.messages.custom_job import ContainerSpec, CustomJob, CustomJobSpec, Scheduling, WorkerPoolSpec

pytestmark = [pytest.mark.engine, pytest.mark.docker]
COUNT = "import sys, time\nfor i in range(int(sys.argv[1])):\n    print(i)\n    time.sleep(0.05)\nsys.exit(4)"
LIVE = pytest.mark.parametrize("own_engine", [{"live_restore": True}], indirect=True)


class Scene:
    """One job on an engine of the test's own."""

    def __init__(self, engine: SecondEngine, home: Path, image: str) -> None:
        self.engine, self.home, self.image = engine, home, image
        backend = open_backend("docker", docker_settings(home))
        assert isinstance(backend, LocalBackend)
        self.backend = backend
        self.name = ""

    def begin(self, lines: int) -> None:
        """A job that counts slowly and ends with 4; it has written a few lines. It is not restarted."""
        self.submit("python3", "-u", "-c", COUNT, str(lines), disable_retries=True)
        wait_until(lambda: len(self.lines()) > 3)

    def submit(self, *command: str, disable_retries: bool = False) -> None:
        task = ContainerSpec(image_uri=self.image, command=command)
        spec = CustomJobSpec(
            worker_pool_specs=(WorkerPoolSpec(container_spec=task),),
            scheduling=Scheduling(disable_retries=disable_retries),
        )
        self.name = submit(self.backend, CustomJob(display_name="test", job_spec=spec))

    def lines(self, task: str = PRIMARY) -> list[str]:
        return lines(self.backend, self.name, task)

    def ended(self) -> CustomJob:
        job = ended(self.backend, self.name)
        with connected(self.engine.address) as engine:
            assert remaining(engine, self.home) == []
        return job

    def trainer(self) -> int:
        """The first process of the container, as this machine numbers it."""
        container = container_name(self.name.rpartition("/")[2], PRIMARY)
        with connected(self.engine.address) as engine:
            return int(engine.client.inspect_container(container)["State"]["Pid"])

    def gaps(self) -> list[str]:
        return [line for line in self.lines("service") if "The Docker engine was away from" in line]


@pytest.fixture
def scene(own_engine: SecondEngine, home: Path, base_image: str, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setenv("DOCKER_HOST", own_engine.host)
    return Scene(own_engine, home, base_image)


def outcome(job: CustomJob) -> tuple[str, str, str]:
    return job.state, info(job)["reason"], info(job)["exitCode"]


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_an_engine_that_is_stopped_ends_the_job_and_not_the_trainer(scene: Scene) -> None:
    scene.begin(2000)
    scene.engine.stop()
    time.sleep(0.3)
    scene.engine.start()
    assert outcome(scene.ended()) == (states.FAILED, "REPLICA_INTERRUPTED", "143")
    lines = scene.lines()
    assert lines == numbers(len(lines))


@pytest.mark.parametrize("end", [SecondEngine.stop, SecondEngine.kill])
def test_a_trainer_that_went_down_with_its_engine_comes_back(
    scene: Scene, end: Callable[[SecondEngine], None]
) -> None:
    (scene.home / "buckets" / "marks").mkdir(parents=True)
    script = "test -e /gcs/marks/been && echo again && exit 0; touch /gcs/marks/been; echo first; sleep 600"
    scene.submit("sh", "-c", script)
    wait_until(lambda: scene.lines() == ["first"])
    end(scene.engine)
    time.sleep(0.3)
    scene.engine.start()
    job = scene.ended()
    assert job.state == states.SUCCEEDED, job
    assert scene.lines() == ["first", "again"]


def test_a_trainer_that_ends_while_the_engine_is_killed_keeps_its_exit_code(scene: Scene) -> None:
    scene.begin(150)
    trainer = scene.trainer()
    scene.engine.kill()
    wait_until(lambda: not Path(f"/proc/{trainer}").exists())
    scene.engine.start()
    assert outcome(scene.ended()) == (states.FAILED, "REPLICA_FAILED", "4")
    lines = scene.lines()
    assert lines == numbers(len(lines))
    (gap,) = scene.gaps()
    assert gap.count("T") >= 2  # its two times


@LIVE
@pytest.mark.parametrize("end", [SecondEngine.stop, SecondEngine.kill])
def test_a_trainer_that_outlives_the_engine_loses_no_line(
    scene: Scene, end: Callable[[SecondEngine], None]
) -> None:
    scene.begin(800)
    (kept,) = scene.engine.container_logs().values()
    with kept as engine_log:
        end(scene.engine)
        time.sleep(1)
        scene.engine.start()
        assert outcome(scene.ended()) == (states.FAILED, "REPLICA_FAILED", "4")
        kept = [json.loads(line)["log"].strip() for line in engine_log]
    # An engine that ends may itself drop the line that it is about to write.
    assert len(kept) >= 799
    assert scene.lines() == kept
    assert scene.gaps() == []


@LIVE
def test_a_job_is_cancelled_while_its_engine_is_away(scene: Scene) -> None:
    scene.begin(2000)
    scene.engine.kill()
    scene.backend.cancel(scene.name)
    time.sleep(1)
    scene.engine.start()
    job = scene.ended()
    assert job.state == states.CANCELLED


def test_an_engine_stopped_while_nobody_watches_is_not_the_trainers_fault(scene: Scene) -> None:
    scene.begin(2000)
    kill_supervisor(folder_of(scene.home, scene.name))
    scene.engine.stop()
    time.sleep(0.3)
    scene.engine.start()
    assert outcome(scene.ended()) == (states.FAILED, "REPLICA_INTERRUPTED", "143")


def test_an_engine_that_is_away_for_a_moment_delays_the_preparation(scene: Scene) -> None:
    task = ContainerSpec(image_uri=scene.image, command=("echo", "x"))
    spec = CustomJobSpec(worker_pool_specs=(WorkerPoolSpec(container_spec=task),))
    plan = scene.backend.plan(CustomJob(display_name="delayed", job_spec=spec))
    scene.engine.stop()
    scene.name = scene.backend.submit(plan).name
    wait_until(lambda: scene.lines("service") != [])
    time.sleep(1)
    scene.engine.start()
    assert scene.ended().state == states.SUCCEEDED
    assert scene.lines() == ["x"]


def test_a_full_disk_of_the_engine_has_its_own_sentence(scene: Scene) -> None:
    task = ContainerSpec(image_uri=scene.image, command=("echo", "x"))
    spec = CustomJobSpec(worker_pool_specs=(WorkerPoolSpec(container_spec=task),))
    plan = scene.backend.plan(CustomJob(display_name="full", job_spec=spec))
    with scene.engine.full_disk():
        scene.name = submit(scene.backend, plan.job)
        job = scene.ended()
    assert job.error is not None
    assert info(job)["reason"] == "START_FAILED"
    assert "no space left on device" in job.error.message
