"""The backend `docker`: replicas are containers, each watched by a thread of the job's supervisor."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import msgspec

from vtrain.backends.docker.container import ContainerOrder, job_labels, network_name
from vtrain.backends.docker.network import ensure_network, remove_network
from vtrain.backends.docker.orders import container_orders
from vtrain.backends.docker.ownership import give_back
from vtrain.backends.docker.runtime import make_runtime, missing_images
from vtrain.backends.docker.storage import written_folders
from vtrain.backends.docker.watch import ContainerWatch
from vtrain.containers.engine import Engine, connect, engine_errors
from vtrain.engine.folder import JobFolder, JobOrder, ReplicaFolder, read_struct
from vtrain.engine.launcher import Log, PrepareFailed, Runtime
from vtrain.engine.replica import replica_ids
from vtrain.errors import EngineAwayError, EngineError, VtrainError
from vtrain.messages.names import parse_name

KILL_PAUSE_SECONDS = 0.1
CLEAR_PATIENCE_SECONDS = 60.0
"""How long the end of a job waits for an engine that is away, to remove what it has of the job."""
CLEAR_PAUSE_SECONDS = 0.5
REMOVALS_AT_ONCE = 8
LAST_LINES_SECONDS = 10.0
"""What a watch gets to store the last lines of a container that was killed."""


class DockerLauncher:
    """Replicas as containers in a network of their job's own."""

    name = "docker"

    def __init__(self) -> None:
        self._watches: dict[str, ContainerWatch] = {}
        self._network_lock = threading.Lock()

    def needs_preparation(self, order: JobOrder) -> bool:
        with _as_preparation(), closing(connect(order.engine)) as engine:
            return missing_images(engine, order)

    def prepare(self, order: JobOrder, log: Log) -> tuple[Runtime, ...]:
        def tell(line: str) -> None:
            log(f"{line}\n".encode())

        with _as_preparation(), closing(connect(order.engine)) as engine:
            return make_runtime(engine, order, tell)

    def begin(self, order: JobOrder) -> None:
        name = parse_name(order.name)
        assert name is not None
        replicas = len(replica_ids(order.job.job_spec))
        labels = job_labels(order.home, name.id)
        # Each watch makes the network, unless it is there, and tells why it cannot.
        with suppress(EngineError), closing(connect(order.engine)) as engine:
            ensure_network(engine, network_name(name.id), labels, replicas)

    def replica_orders(
        self, order: JobOrder, folder: JobFolder, runtimes: tuple[Runtime, ...]
    ) -> Mapping[str, msgspec.Struct]:
        with _as_preparation(), closing(connect(order.engine)) as engine:
            return container_orders(engine.info(), order, folder, runtimes)

    def start(self, replica: ReplicaFolder) -> None:
        if replica.name not in self._watches and replica.exit() is None:
            self._watch(replica, stopping=False)

    def lives(self, replica: ReplicaFolder) -> bool:
        watch = self._watches.get(replica.name)
        return watch.is_alive() if watch is not None else replica.exit() is None

    def outlived(self, replica: ReplicaFolder, moment: float) -> bool:
        watch = self._watches.get(replica.name)
        return watch is not None and watch.outlived(moment)

    def stop(self, replica: ReplicaFolder) -> None:
        watch = self._watches.get(replica.name) or self._watch(replica, stopping=True)
        watch.stop()

    def kill(self, replica: ReplicaFolder) -> None:
        watch = self._watches.get(replica.name) or self._watch(replica, stopping=True)
        deadline = time.monotonic() + LAST_LINES_SECONDS
        while watch.is_alive() and time.monotonic() < deadline:
            watch.kill()
            watch.join(KILL_PAUSE_SECONDS)

    def clear(self, order: JobOrder) -> str:
        deadline = time.monotonic() + CLEAR_PATIENCE_SECONDS
        while True:
            try:
                return _clear(order)
            except EngineError as error:
                if not isinstance(error, EngineAwayError) or time.monotonic() > deadline:
                    return f"What the job has in the Docker engine is still there. {error.message}"
            time.sleep(CLEAR_PAUSE_SECONDS)

    def _watch(self, replica: ReplicaFolder, *, stopping: bool) -> ContainerWatch:
        order = read_struct(replica.path / "spec.json", ContainerOrder)
        assert order is not None
        job = JobFolder(replica.path.parents[1])
        watch = ContainerWatch(job, replica, order, self._network_lock, stopping=stopping)
        self._watches[replica.name] = watch
        watch.start()
        return watch


@contextmanager
def _as_preparation() -> Iterator[None]:
    """What the engine or an image refuses before a replica runs is a preparation that failed."""
    try:
        yield
    except VtrainError as error:
        is_transient = isinstance(error, EngineAwayError)
        raise PrepareFailed(error.message, error.hint, is_transient=is_transient) from error


def _clear(order: JobOrder) -> str:
    """Remove the job's containers and its network; a sentence on files that stay another user's."""
    name = parse_name(order.name)
    assert name is not None
    labels = job_labels(order.home, name.id)
    told = ""
    with closing(connect(order.engine)) as engine:
        with engine_errors("remove the job's containers"):
            filters = {"label": [f"{key}={value}" for key, value in labels.items()]}
            found = engine.client.containers(all=True, filters=filters)
        for folder in written_folders(order.job.job_spec, Path(order.home)) if found else ():
            told = give_back(engine, found[0]["ImageID"], folder, labels) or told
        _remove_all(engine, [container["Id"] for container in found], network_name(name.id))
    return told


def _remove_all(engine: Engine, containers: list[str], network: str) -> None:
    """Remove containers and their network, several at a time: each takes the engine a tenth of a second."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(REMOVALS_AT_ONCE) as pool:
        pool.submit(remove_network, engine, network)  # works at once where all containers have ended
        for removal in [pool.submit(_remove, engine, container) for container in containers]:
            removal.result()
    remove_network(engine, network)


def _remove(engine: Engine, container: str) -> None:
    from docker.errors import APIError, NotFound

    with engine_errors("remove the job's containers"), suppress(NotFound):
        try:
            engine.client.remove_container(container, v=True, force=True)
        except APIError as error:
            if error.status_code != HTTPStatus.CONFLICT:  # its removal is under way already
                raise
