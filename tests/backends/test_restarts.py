"""Replicas that come back, on processes and in containers, and what is on record of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from docker_jobs import ROOT, docker_job, docker_settings
from lib.local_jobs import PRIMARY, ended, folder_of, info, kill, kill_shim, lines, submit
from lib.supervisors import supervisor_of
from lib.waiting import wait_until

from vtrain.backends import BackendSettings
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.containers.engine import HOME_LABEL, REPLICA_LABEL, connect
from vtrain.errors import ConfigError
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob, EnvVar, Scheduling
from vtrain.messages.structs import GcsDestination
from vtrain.privacy import home_label
from vtrain.runtime.job_order import SimulatedPreemption
from vtrain.testing.script import Script, script_job

pytestmark = pytest.mark.end_to_end

WORKER = "workerpool1-0"
OUTPUT = GcsDestination(output_uri_prefix="gs://restarts/out")
HOLDING = Script().write("here\n").hang()
LATE = 5.0
"""Seconds after which a trainer has begun, on a busy machine too: one that had not would hang again."""


class Place:
    """A local backend, and how one of its replicas is ended from outside."""

    def __init__(self, home: Path, way: str, image: str = "") -> None:
        self.home, self.way, self.image = home, way, image

    def open(self, preemption: SimulatedPreemption | None = None) -> LocalBackend:
        settings = (
            docker_settings(self.home)
            if self.way == "docker"
            else BackendSettings(home=self.home, project="local", region="us-central1")
        )
        backend = open_backend(self.way, msgspec.structs.replace(settings, preemption=preemption))
        assert isinstance(backend, LocalBackend)
        return backend

    def job(self, *scripts: Script, **scheduling: Any) -> CustomJob:
        job = (
            docker_job(self.image, *scripts)
            if self.way == "docker"
            else script_job(*scripts, env=[EnvVar(name="PYTHONPATH", value=ROOT)])
        )
        spec = msgspec.structs.replace(
            job.job_spec, base_output_directory=OUTPUT, scheduling=Scheduling(**scheduling)
        )
        return msgspec.structs.replace(job, job_spec=spec)

    def end_replica(self, name: str, replica: str) -> None:
        """End a replica as somebody else would: its shim is killed, or its container removed."""
        if self.way == "process":
            kill_shim(folder_of(self.home, name), replica)
            return
        labels = [f"{HOME_LABEL}={home_label(self.home)}", f"{REPLICA_LABEL}={replica}"]
        engine = connect()
        for container in engine.client.containers(filters={"label": labels}):
            engine.client.remove_container(container["Id"], force=True)
        engine.close()


BOTH = pytest.mark.parametrize(
    "place", ["process", pytest.param("docker", marks=pytest.mark.docker)], indirect=True
)
"""For tests in which docker takes a way of its own; the contract suite has the other rules of restarts."""


@pytest.fixture
def place(request: pytest.FixtureRequest, home: Path) -> Place:
    if getattr(request, "param", "process") == "process":
        return Place(home, "process")
    return Place(request.getfixturevalue("docker_home"), "docker", request.getfixturevalue("base_image"))


def attempts(job: CustomJob, replica: str) -> list[dict[str, Any]]:
    """What the job's document tells of a replica's attempts."""
    assert job.answer is not None
    (found,) = [record for record in job.answer["replicas"] if record["name"] == replica]
    return list(found["attempts"])


def running(backend: LocalBackend, name: str, *replicas: str) -> Callable[[], bool]:
    return lambda: all("here" in lines(backend, name, replica) for replica in replicas)


@BOTH
def test_a_replica_that_was_ended_from_outside_comes_back(place: Place) -> None:
    backend = place.open()
    worker = Script().write("here\n").hang_first(1).write("again\n")
    name = submit(backend, place.job(HOLDING, worker))
    wait_until(running(backend, name, PRIMARY, WORKER))
    place.end_replica(name, WORKER)
    wait_until(lambda: folder_of(place.home, name).replica(WORKER, 1).exit() is not None)
    backend.cancel(name)
    job = ended(backend, name)
    assert lines(backend, name, WORKER) == ["here", "here", "again"]
    assert lines(backend, name) == ["here"], "the others went on"
    first, second = attempts(job, WORKER)
    assert first["exitCode"] != 0
    assert first["restartedBecause"] != ""
    assert (second["attempt"], second["exitCode"]) == (1, 0)
    assert len(attempts(job, PRIMARY)) == 1


def test_one_restart_may_begin_the_job_again(place: Place) -> None:
    backend = place.open()
    primary = Script().write("here\n").hang_first(1).write("done\n")
    name = submit(backend, place.job(primary, HOLDING, restart_job_on_worker_restart=True))
    wait_until(running(backend, name, PRIMARY, WORKER))
    place.end_replica(name, WORKER)
    job = ended(backend, name)
    assert job.state == states.SUCCEEDED
    assert lines(backend, name) == ["here", "here", "done"]
    assert len(attempts(job, PRIMARY)) == len(attempts(job, WORKER)) == 2


def test_disabled_retries_end_the_job(place: Place) -> None:
    backend = place.open()
    name = submit(backend, place.job(HOLDING, disable_retries=True))
    wait_until(running(backend, name, PRIMARY))
    place.end_replica(name, PRIMARY)
    job = ended(backend, name)
    assert job.state == states.FAILED
    assert info(job)["reason"] in ("SUPERVISION_LOST", "REPLICA_INTERRUPTED")


def test_a_simulated_preemption_brings_the_replica_back(place: Place) -> None:
    backend = place.open(SimulatedPreemption(after_seconds=LATE))
    name = submit(backend, place.job(Script().write("here\n").hang_first(1).write("done\n")))
    job = ended(backend, name)
    assert job.state == states.SUCCEEDED
    assert lines(backend, name)[-1] == "done"
    first, second = attempts(job, PRIMARY)
    assert "preempted" in first["restartedBecause"]
    assert second["exitCode"] == 0
    said = lines(backend, name, "service")
    assert f"Simulated preemption: {PRIMARY} is sent SIGTERM." in said


def test_peers_that_fail_with_a_preempted_replica_are_no_cause(place: Place) -> None:
    """A collective operation fails on all others the moment that one replica is gone."""
    backend = place.open(SimulatedPreemption(after_seconds=LATE, replica=WORKER))
    primary = Script().write("here\n").hang_first(1).write("done\n")
    job = place.job(primary, Script().write("here\n").hang(), restart_job_on_worker_restart=True)
    name = submit(backend, job)
    assert ended(backend, name).state == states.SUCCEEDED
    assert lines(backend, name)[-1] == "done"


@BOTH
def test_a_supervisor_killed_amid_restarts_loses_nothing(place: Place) -> None:
    backend = place.open()
    script = Script().write("here\n").crash_first(3).write("done\n")
    name = submit(backend, place.job(script))
    folder = folder_of(place.home, name)
    for number in range(1, 3):
        wait_until(partial(_begun, backend, name, number))
        if supervisor := supervisor_of(folder):
            kill(supervisor)
    job = ended(backend, name)
    assert job.state == states.SUCCEEDED
    assert lines(backend, name) == ["here"] * 4 + ["done"]
    assert [attempt["exitCode"] for attempt in attempts(job, PRIMARY)] == [134, 134, 134, 0]


def test_memory_and_processor_time_are_on_record(place: Place) -> None:
    backend = place.open()
    name = submit(backend, place.job(Script().count(1000).sleep(1.2)))
    (only,) = attempts(ended(backend, name), PRIMARY)
    assert only["peakMemoryBytes"] > 2**20
    assert only["cpuSeconds"] > 0


def test_the_replica_that_is_to_be_preempted_must_exist(place: Place) -> None:
    backend = place.open(SimulatedPreemption(after_seconds=1.0, replica="workerpool3-0"))
    with pytest.raises(ConfigError, match="no replica workerpool3-0"):
        backend.plan(place.job(Script()))


def _begun(backend: LocalBackend, name: str, times: int) -> bool:
    return lines(backend, name).count("here") >= times or states.has_ended(backend.get(name).state)
