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
from vtrain.backends.docker.network import can_listen, cut_loose, gateway, remove_network
from vtrain.backends.docker.orders import container_orders, later_order
from vtrain.backends.docker.ownership import mend_ownership
from vtrain.backends.docker.runtime import make_runtime, missing_images
from vtrain.backends.docker.station import Station
from vtrain.backends.docker.watch import ContainerWatch
from vtrain.containers.address import EngineAddress
from vtrain.containers.engine import Engine, connect, engine_errors, status_of
from vtrain.engine.folder import DamagedFileError, JobFolder, JobOrder, ReplicaFolder, require_struct
from vtrain.engine.job_storage import GS, keep_serving, storage_variables
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
    opens_work = True

    def __init__(self) -> None:
        self._watches: dict[Path, ContainerWatch] = {}
        self._station: Station | None = None
        self._beginning: threading.Thread | None = None

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
        with suppress(EngineError):
            self._open(order.engine).have_network(network_name(name.id), labels, replicas)

    def replica_orders(
        self,
        order: JobOrder,
        folder: JobFolder,
        runtimes: tuple[Runtime, ...],
        devices: Mapping[str, tuple[str, ...]],
    ) -> Mapping[str, msgspec.Struct]:
        with _as_preparation():
            info = self._open(order.engine).engine().info()
            storage = self._storage(order, folder)
            orders = container_orders(info, order, folder, runtimes, devices, storage)
        self._beginning = threading.Thread(target=self.begin, args=(order,), name="network", daemon=True)
        self._beginning.start()
        return orders

    def _storage(self, order: JobOrder, folder: JobFolder) -> dict[str, str]:
        """What containers find the job's Cloud Storage by, with `--aip-dirs=gs`.

        It listens at this machine's address in the job's network. An engine in a virtual machine has that
        address there, and a name of its own for this machine.
        """
        if order.aip_dirs != GS:
            return {}
        name = parse_name(order.name)
        assert name is not None
        station, network = self._open(order.engine), network_name(name.id)
        station.have_network(network, job_labels(order.home, name.id), len(replica_ids(order.job.job_spec)))
        address = gateway(station.engine(), network)
        if can_listen(address):
            return storage_variables(folder, order.home, address)
        return storage_variables(folder, order.home, "127.0.0.1", client_host="host.docker.internal")

    def another_order(self, attempt: ReplicaFolder) -> msgspec.Struct:
        first = require_struct(attempt.root / "spec.json", ContainerOrder)
        return later_order(first, attempt)

    def start(self, replica: ReplicaFolder) -> None:
        if replica.path not in self._watches and replica.exit() is None:
            keep_serving(replica.job)
            self._watch(replica, stopping=False)

    def lives(self, replica: ReplicaFolder) -> bool:
        watch = self._watches.get(replica.path)
        return replica.exit() is None and (watch is None or watch.is_alive())

    def outlived(self, replica: ReplicaFolder, moment: float) -> bool:
        watch = self._watches.get(replica.path)
        if watch is None or self._station is None:
            return False
        return self._station.ran_at(watch.order, moment) or watch.outlived(moment)

    def stop(self, replica: ReplicaFolder) -> None:
        with suppress(DamagedFileError):  # the job's end removes its container
            watch = self._watches.get(replica.path) or self._watch(replica, stopping=True)
            watch.stop()

    def kill(self, replica: ReplicaFolder) -> None:
        try:
            watch = self._watches.get(replica.path) or self._watch(replica, stopping=True)
        except DamagedFileError:  # the job's end removes its container
            return
        deadline = time.monotonic() + LAST_LINES_SECONDS
        while watch.is_alive() and time.monotonic() < deadline:
            watch.kill()
            watch.join(KILL_PAUSE_SECONDS)

    def salvage(self, replica: ReplicaFolder) -> str:  # noqa: ARG002 - the engine keeps it
        return ""

    def clear(self, order: JobOrder) -> str:
        deadline = time.monotonic() + CLEAR_PATIENCE_SECONDS
        while True:
            try:
                engine = self._open(order.engine).engine()
                _remove_unused(engine, order)
                self._await_watches()
                return _clear(engine, order)
            except EngineError as error:
                if not isinstance(error, EngineAwayError) or time.monotonic() > deadline:
                    return f"What the job has in the Docker engine is still there. {error.message}"
                self._open(order.engine).hang_up()
            time.sleep(CLEAR_PAUSE_SECONDS)

    def _await_watches(self) -> None:
        """Let those whose replica has ended remove its container; nothing is made any more then."""
        deadline = time.monotonic() + LAST_LINES_SECONDS
        makers = [self._beginning] if self._beginning is not None else []
        for thread in (*makers, *self._watches.values()):
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _open(self, address: EngineAddress | None) -> Station:
        """The one connection of this supervisor, once it has no child any more that is a copy of it."""
        if self._station is None:
            assert address is not None
            self._station = Station(address)
        return self._station

    def _watch(self, replica: ReplicaFolder, *, stopping: bool) -> ContainerWatch:
        order = require_struct(replica.path / "spec.json", ContainerOrder)
        watch = ContainerWatch(replica, order, self._open(order.engine), stopping=stopping)
        self._watches[replica.path] = watch
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


def _remove_unused(engine: Engine, order: JobOrder) -> None:
    """Remove the network where nothing runs any more, while the watches remove the containers."""
    name = parse_name(order.name)
    assert name is not None
    try:
        remove_network(engine, network_name(name.id))
    except EngineAwayError:
        raise
    except EngineError:
        return  # in use: it is removed at last


def _clear(engine: Engine, order: JobOrder) -> str:
    """Remove the job's containers and its network; a sentence on files that stay another user's."""
    name = parse_name(order.name)
    assert name is not None
    labels = job_labels(order.home, name.id)
    with engine_errors("remove the job's containers"):
        wanted = {"label": [f"{key}={value}" for key, value in labels.items()]}
        found = engine.calls.get("/containers/json", all=1, filters=wanted)
    _remove_all(engine, [container["Id"] for container in found])
    folder = JobFolder(Path(order.home) / "jobs" / name.id)
    told = mend_ownership(engine, order, folder, labels)
    try:
        remove_network(engine, network_name(name.id))
    except EngineError as error:
        if status_of(error) != HTTPStatus.FORBIDDEN:
            raise
        cut_loose(engine, network_name(name.id))
        remove_network(engine, network_name(name.id))
    return told


def _remove_all(engine: Engine, containers: list[str]) -> None:
    """Remove what no watch has removed, several at a time: each takes the engine a tenth of a second."""
    from concurrent.futures import ThreadPoolExecutor

    if not containers:
        return
    with ThreadPoolExecutor(REMOVALS_AT_ONCE) as pool:
        for removal in [pool.submit(_remove, engine, container) for container in containers]:
            removal.result()


def _remove(engine: Engine, container: str) -> None:
    try:
        with engine_errors("remove the job's containers"):
            engine.calls.delete(f"/containers/{container}", v=1, force=1)
    except EngineError as error:
        if status_of(error) not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):  # somebody else removes it
            raise
