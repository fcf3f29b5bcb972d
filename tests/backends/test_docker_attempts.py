"""Attempts in containers: each in one of its own, whoever ended the one before; and watches that give up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lib import stand_in_api
from lib.docker_engines import connected
from lib.local_jobs import PRIMARY, ended, lines, submit
from lib.stand_in_engine import stand_in_engine
from lib.stand_in_state import Refusal
from lib.waiting import wait_until

from vtrain.backends.docker import container_life
from vtrain.backends.docker.container import WORK, ContainerOrder, bind, container_order, job_labels
from vtrain.backends.docker.container_life import (
    ENGINE_AWAY,
    HALF_STARTED,
    STOP_RETRY_SECONDS,
    STOPPED,
    ContainerLife,
    replica_exit,
)
from vtrain.backends.docker.container_log import ContainerOutput, output_of
from vtrain.backends.docker.job_engine import (
    ContainerView,
    JobEngine,
    cut_loose,
    ensure_network,
    remove_network,
)
from vtrain.backends.local import LocalBackend
from vtrain.containers.discovery import EngineAddress
from vtrain.containers.engine import ATTEMPT_LABEL, JOB_LABEL, Engine, connect
from vtrain.errors import EngineError
from vtrain.messages import states
from vtrain.messages.custom_job import ContainerSpec, CustomJob, CustomJobSpec, WorkerPoolSpec
from vtrain.runtime.folder import JobFolder, ReplicaFolder
from vtrain.runtime.replica.vertex_view import ReplicaId, host_name
from vtrain.times import from_epoch

SLEEPER = "echo here as $HOSTNAME; sleep 600"


def kill(engine: Engine, container: str) -> None:
    engine.client.kill(container)


def stop(engine: Engine, container: str) -> None:
    engine.client.stop(container)


def remove(engine: Engine, container: str) -> None:
    engine.client.remove_container(container, force=True)


def containers(engine: Engine, name: str) -> list[dict[str, Any]]:
    label = f"{JOB_LABEL}={name.rpartition('/')[2]}"
    found: list[dict[str, Any]] = engine.client.containers(all=True, filters={"label": label})
    return found


@pytest.mark.docker
@pytest.mark.parametrize("acts", [(kill, stop), (remove, kill)])
def test_a_container_that_somebody_ended_is_followed_by_another(
    docker_backend: LocalBackend,
    docker_engine: Engine,
    base_image: str,
    acts: tuple[Callable[[Engine, str], None], ...],
) -> None:
    task = ContainerSpec(image_uri=base_image, command=("sh", "-c", SLEEPER))
    spec = CustomJobSpec(worker_pool_specs=(WorkerPoolSpec(container_spec=task),))
    name = submit(docker_backend, CustomJob(display_name="test", job_spec=spec))
    job_id = name.rpartition("/")[2]
    line = f"here as {host_name(job_id, ReplicaId(0, 0))}"
    for number, act in enumerate(acts, 1):
        wait_until(lambda number=number: lines(docker_backend, name) == [line] * number)  # type: ignore[misc]
        act(docker_engine, containers(docker_engine, name)[0]["Id"])
        wait_until(lambda number=number: _has_attempt(docker_engine, name, number))  # type: ignore[misc]
    expected = [line] * (len(acts) + 1)
    (container,) = containers(docker_engine, name)  # those of earlier attempts are gone
    assert container["Names"] == [f"/vtrain-{job_id}-{PRIMARY}-r{len(acts)}"]
    wait_until(lambda: lines(docker_backend, name) == expected)
    docker_backend.cancel(name)
    assert ended(docker_backend, name).state == states.CANCELLED
    assert lines(docker_backend, name) == expected


def _has_attempt(engine: Engine, name: str, number: int) -> bool:
    labels = [container["Labels"][ATTEMPT_LABEL] for container in containers(engine, name)]
    return labels == [str(number)]


def order(engine: Engine, image: str, folder: ReplicaFolder) -> ContainerOrder:
    labels = job_labels(str(folder.job.path.parents[1]), folder.job.path.name)
    config = {"Image": image, "Cmd": ["true"], "Labels": labels, "HostConfig": {}}
    name = f"vtrain-{folder.job.path.name}"
    log = str(folder.job.path / "no such folder" / "log")
    return ContainerOrder(
        engine=engine.address,
        name=f"{name}-{folder.name}",
        network=name,
        labels=labels,
        config=config,
        log=log,
        grace_seconds=1.0,
    )


@pytest.mark.parametrize("is_package", [True, False])
def test_a_later_order_is_the_first_in_another_container(tmp_path: Path, is_package: bool) -> None:
    """Only a Python package works in a folder of this machine; a user may mount another one there."""

    class Nowhere:
        address = EngineAddress(host="unix:///nowhere", origin="a test")

    job = JobFolder(tmp_path / "jobs" / "1")
    first = order(Nowhere(), "image", job.replica(PRIMARY))  # type: ignore[arg-type]
    data = bind("/data", "/data")
    mounts = [bind(job.replica(PRIMARY).work, WORK), data]
    host = first.config["HostConfig"] | {"Mounts": mounts}
    folder = {"WorkingDir": WORK} if is_package else {}
    first = msgspec.structs.replace(first, config=first.config | {"HostConfig": host} | folder)
    job.replica(PRIMARY).order(first)
    job.replica(PRIMARY, 3).order_again()
    later = container_order(job.replica(PRIMARY, 3))
    assert (later.name, later.attempt) == (f"{first.name}-r3", 3)
    kept = bind(job.replica(PRIMARY, 3 if is_package else 0).work, WORK)
    assert later.config["HostConfig"]["Mounts"] == [kept, data]
    own = {"Labels": first.labels | {ATTEMPT_LABEL: "3"}, "HostConfig": later.config["HostConfig"]}
    assert later.config == first.config | own
    assert ATTEMPT_LABEL not in first.config["Labels"]
    assert first.config["HostConfig"]["Mounts"] == mounts


@pytest.mark.docker
def test_a_watch_that_cannot_work_gives_up(
    docker_engine: Engine, docker_home: Path, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_life, "FAULT_PATIENCE_SECONDS", 1.0)
    replica = JobFolder(docker_home / "jobs" / "1234").replica(PRIMARY)
    nowhere = f"/proc/{docker_home.name}/log"
    ordered = msgspec.structs.replace(order(docker_engine, base_image, replica), log=nowhere)
    replica.order(ordered)
    job_engine = JobEngine(docker_engine.address)
    watch = ContainerLife(replica, ordered, job_engine, stopping=False)
    watch.start()
    watch.join(60)
    end = replica.exit()
    job_engine.hang_up()
    assert end is not None
    assert "vtrain cannot watch its container: FileNotFoundError" in end.message
    assert end.code == 125


def test_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine keeps the output for as long as it takes."""
    tries = iter([OSError(28, "No space left on device")] * 3)

    def full_at_first(view: ContainerView, order: ContainerOrder) -> ContainerOutput:
        if (fault := next(tries, None)) is not None:
            raise fault
        return output_of(view, order)

    monkeypatch.setattr(container_life, "FAULT_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(container_life, "output_of", full_at_first)
    with stand_in_engine() as stand_in:
        engine = connect(EngineAddress(host=stand_in.host, origin="test"))
        engine.calls.post("/images/create", fromImage="trainer", tag="latest")
        replica = JobFolder(tmp_path / "jobs" / "1234").replica(PRIMARY)
        ordered = msgspec.structs.replace(order(engine, "trainer:latest", replica), log=str(tmp_path / "log"))
        replica.order(ordered)
        job_engine = JobEngine(engine.address)
        life = ContainerLife(replica, ordered, job_engine, stopping=False)
        life.start()
        life.join(60)
        job_engine.hang_up()
        engine.close()
    end = replica.exit()
    assert end is not None
    assert (end.code, end.message) == (0, "")


AWAY = (1000.0, 1010.0)


@pytest.mark.parametrize(
    ("code", "ended", "fields", "interruption"),
    [
        (137, 900.0, {}, STOPPED),
        (143, 900.0, {}, STOPPED),
        (255, 1005.0, {}, ENGINE_AWAY),
        (255, 900.0, {}, ""),
        (0, 1005.0, {}, ""),
        (4, 1005.0, {}, ""),
        (137, 1005.0, {"oom": True}, ""),
        (143, 1005.0, {"stopped": True}, ""),
        (255, 1005.0, {"stopped": True}, ""),
    ],
)
def test_an_end_from_outside_is_told_by_the_code_and_the_time(
    code: int, ended: float, fields: dict[str, bool], interruption: str
) -> None:
    times = {"StartedAt": from_epoch(800.0), "FinishedAt": from_epoch(ended)}
    state = {"ExitCode": code, "OOMKilled": fields.get("oom", False), **times}
    end = replica_exit(state, stopped=fields.get("stopped", False), gap=AWAY)
    assert end.interruption == interruption
    assert end.gap == (AWAY if ended > AWAY[0] else None)


@pytest.mark.parametrize(
    ("error", "interruption", "message"),
    [
        (
            "failed to update store for object type *libnetwork.endpoint: open",
            HALF_STARTED,
            "",
        ),
        ("exec: no such program", "", "exec: no such program"),
    ],
)
def test_a_start_that_an_engine_refused_while_it_ended(
    tmp_path: Path, error: str, interruption: str, message: str
) -> None:
    """Another supervisor finds the container as the engine left it, and did not see the engine end."""
    with stand_in_engine() as stand_in:
        engine = connect(EngineAddress(host=stand_in.host, origin="test"))
        engine.calls.post("/images/create", fromImage="trainer", tag="latest")
        replica = JobFolder(tmp_path / "jobs" / "1234").replica(PRIMARY)
        ordered = order(engine, "trainer:latest", replica)
        replica.order(ordered)
        made = engine.calls.post("/containers/create", ordered.config, name=ordered.name)
        stand_in.containers[made["Id"]]["State"] |= {"Error": error, "ExitCode": 128}
        job_engine = JobEngine(engine.address)
        watch = ContainerLife(replica, ordered, job_engine, stopping=False)
        watch.start()
        watch.join(60)
        job_engine.hang_up()
        engine.close()
    end = replica.exit()
    assert end is not None
    assert (end.interruption, end.message) == (interruption, message)


def test_a_container_that_ends_slowly_is_not_asked_at_every_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a job of 50 replicas started a hundred threads each tenth of a second."""
    asked: list[str] = []

    class Counted(threading.Thread):
        def start(self) -> None:
            asked.append(self.name)
            super().start()

    with stand_in_engine() as stand_in:
        stand_in.run_seconds = 600.0
        job_engine = JobEngine(EngineAddress(host=stand_in.host, origin="test"))
        calls = job_engine.engine().calls
        calls.post("/images/create", fromImage="trainer", tag="latest")
        container = calls.post("/containers/create", {"Image": "trainer:latest"})["Id"]
        calls.post(f"/containers/{container}/start")
        replica = JobFolder(tmp_path / "jobs" / "1234").replica(PRIMARY)
        ordered = order(job_engine.engine(), "trainer:latest", replica)
        ordered = msgspec.structs.replace(ordered, name=container, grace_seconds=600.0)
        life, began = ContainerLife(replica, ordered, job_engine, stopping=True), time.monotonic()
        monkeypatch.setattr(threading, "Thread", Counted)
        wait_until(lambda: life.stop() or time.monotonic() - began >= 3 * STOP_RETRY_SECONDS, pause=0.001)
        took = time.monotonic() - began
        job_engine.hang_up()
    assert 1 < asked.count("stop") <= took / STOP_RETRY_SECONDS + 1


def test_the_journal_of_a_replica_keeps_its_attempts_apart(tmp_path: Path) -> None:
    from vtrain.backends.docker.container_log import Transcript
    from vtrain.runtime.process.journal import segment_numbers

    base = str(tmp_path / PRIMARY)
    for attempt in (0, 1, 2):
        transcript = Transcript(base, attempt)
        assert transcript.resume() == 0
        transcript.take([(1, 10**18 + attempt, b"attempt %d\n" % attempt)])
        transcript.close()
        again = Transcript(base, attempt)
        assert again.resume() > 0
        again.take([(1, 10**18 + attempt, b"attempt %d\n" % attempt)])
        again.close()
    texts = [Path(f"{base}.{number}.log").read_text() for number in segment_numbers(base)]
    assert texts == ["attempt 0\n", "attempt 1\n", "attempt 2\n"]


@pytest.mark.parametrize(
    ("there", "said"), [(True, ""), (False, "Its pools are used up")], ids=["an old Podman", "no room"]
)
def test_a_network_that_the_engine_does_not_make(
    monkeypatch: pytest.MonkeyPatch, there: bool, said: str
) -> None:
    """Versions of Podman before 4.5 answer 500 for a network that exists."""

    def refuse(*_: object) -> None:
        raise Refusal(500, "network exists" if there else "no available, non-overlapping IPv4 address pool")

    def find(*_: object) -> dict[str, object]:
        if not there:
            raise Refusal(404, "network not found")
        return {}

    routes = (("POST", "/networks/create", refuse), ("GET", "/networks/(.+)", find), *stand_in_api.ROUTES)
    monkeypatch.setattr("lib.stand_in_engine.ROUTES", routes)
    with stand_in_engine() as stand_in, connected(EngineAddress(host=stand_in.host, origin="test")) as engine:
        if there:
            ensure_network(engine, "vtrain-1", {})
            return
        with pytest.raises(EngineError) as caught:
            ensure_network(engine, "vtrain-1", {})
    assert said in caught.value.hint


@pytest.mark.docker
def test_a_network_that_something_still_holds_on_to_is_removed(
    docker_engine: Engine, docker_home: Path, base_image: str
) -> None:
    labels = job_labels(str(docker_home), "1234567890")
    name = f"vtrain-test-{time.time_ns()}"
    ensure_network(docker_engine, name, labels)
    config = {"Image": base_image, "Cmd": ["sleep", "600"], "Labels": labels}
    config |= {"HostConfig": {"NetworkMode": name, "Init": True}}
    container = docker_engine.calls.post("/containers/create", config)["Id"]
    docker_engine.calls.post(f"/containers/{container}/start")
    with pytest.raises(EngineError, match="active endpoints"):
        remove_network(docker_engine, name)
    cut_loose(docker_engine, name)
    remove_network(docker_engine, name)
    remove_network(docker_engine, name)
    docker_engine.calls.delete(f"/containers/{container}", force=1)
