"""The launcher of the backend docker: it runs replicas as containers, each watched by a thread."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import msgspec

from vtrain.backends.docker.container import (
    BUNDLE_TARGET,
    ContainerOrder,
    container_order,
    container_orders,
    first_order,
    job_labels,
    network_name,
)
from vtrain.backends.docker.container_life import ContainerLife
from vtrain.backends.docker.docker_part import docker_part
from vtrain.backends.docker.job_engine import (
    JobEngine,
    cut_loose,
    has_network,
    remove_network,
    server_hosts,
)
from vtrain.backends.docker.runtime_image import ready_runtimes
from vtrain.backends.job_storage import GS, keep_serving, stop_serving, storage_variables
from vtrain.containers.engine import Engine, engine_errors
from vtrain.errors import EngineAwayError, EngineError
from vtrain.retry import retry, steady
from vtrain.rooted import Root
from vtrain.runtime.folder import DamagedFileError, JobFolder, ReplicaFolder
from vtrain.runtime.home import Home
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.launching import Log, Runtime, preparing
from vtrain.runtime.replica.vertex_view import replica_ids
from vtrain.runtime.store import Store
from vtrain.staging import LocalBuckets

KILL_PAUSE_SECONDS = 0.1
CLEAR_PATIENCE_SECONDS = 60.0
"""The time for which the end of a job waits for an engine that is away."""
CLEAR_PAUSE_SECONDS = 0.5
REMOVALS_AT_ONCE = 8
LAST_LINES_SECONDS = 10.0
"""The time for a watch to store the last lines of a container that was killed."""


class DockerLauncher:
    """Replicas as containers. Those of one job share a network of their own."""

    opens_work = True

    def __init__(self) -> None:
        self._watches: dict[Path, ContainerLife] = {}
        self._job_engine: JobEngine | None = None
        self._network_maker: threading.Thread | None = None

    def ready(self, order: JobOrder, log: Log) -> tuple[Runtime, ...] | None:  # noqa: ARG002 - no tool runs
        with preparing():
            return ready_runtimes(self._engine_of(order).engine(), order)

    def _have_network(self, order: JobOrder) -> str:
        """Make the job's own network unless it exists. Return its name. Raises EngineError."""
        job_id = order.resource.id
        self._engine_of(order).have_network(network_name(job_id), job_labels(order.home, job_id))
        return network_name(job_id)

    def replica_orders(
        self,
        order: JobOrder,
        folder: JobFolder,
        runtimes: tuple[Runtime, ...],
        devices: Mapping[str, tuple[str, ...]],
    ) -> Mapping[str, msgspec.Struct]:
        with preparing():
            engine, serves = self._engine_of(order).engine(), order.setting.aip_dirs == GS
            storage: dict[str, str] = {}
            if serves:
                host, name = server_hosts(engine, self._have_network(order))
                storage = storage_variables(
                    folder,
                    order.home,
                    host,
                    client_host=name,
                    bundle=BUNDLE_TARGET,
                    emulator_port=order.setting.emulator_port,
                )
            # A replica without peers finds its own host name in its /etc/hosts, also on the default bridge.
            has_peers = len(replica_ids(order.job.job_spec)) > 1
            has_own = has_peers or serves or not has_network(engine)
            network = network_name(order.resource.id) if has_own else ""  # empty: the engine's default bridge
            orders = container_orders(engine.info(), order, folder, runtimes, devices, storage, network)
        if network:
            self._network_maker = threading.Thread(
                target=self._make_network, args=(order,), name="network", daemon=True
            )
            self._network_maker.start()
        return orders

    def _make_network(self, order: JobOrder) -> None:
        """Make the network beside the containers. Where it fails, each of them tries again, and says why."""
        with suppress(EngineError):
            self._have_network(order)

    def start(self, replica: ReplicaFolder) -> None:
        if replica.path not in self._watches and replica.exit() is None:
            keep_serving(replica.job)
            self._watch(replica, stopping=False)

    def lives(self, replica: ReplicaFolder) -> bool:
        watch = self._watches.get(replica.path)
        if watch is None:
            return replica.exit() is None
        watch.look()  # the supervisor asks this all the time
        return watch.is_watching

    def outlived(self, replica: ReplicaFolder, moment: float) -> bool:
        watch = self._watches.get(replica.path)
        return watch is not None and watch.outlived(moment)

    def stop(self, replica: ReplicaFolder) -> None:
        with suppress(DamagedFileError):  # the job's end removes its container
            watch = self._watches.get(replica.path) or self._watch(replica, stopping=True)
            watch.stop()

    def kill(self, replicas: Sequence[ReplicaFolder]) -> dict[ReplicaFolder, str]:
        watches = []
        for replica in replicas:
            with suppress(DamagedFileError):  # the job's end removes its container
                watches.append(self._watches.get(replica.path) or self._watch(replica, stopping=True))
        deadline = time.monotonic() + LAST_LINES_SECONDS
        while (left := [each for each in watches if each.is_alive()]) and time.monotonic() < deadline:
            for watch in left:
                watch.kill()
            left[0].join(KILL_PAUSE_SECONDS)
        return {}  # the engine keeps the output

    def clear(self, order: JobOrder) -> str:
        folder = Home(Path(order.home)).job(order.name)
        first = first_order(folder)
        network = network_name(order.resource.id) if first is None or first.network else ""

        def cleared() -> str:
            engine = self._engine_of(order).engine()
            if network:  # while the watches still remove containers: it saves 0.2 s if all have ended
                try:
                    remove_network(engine, network)
                except EngineError as error:  # a container still uses it
                    if isinstance(error, EngineAwayError):
                        raise
            self._await_watches()
            return _clear(engine, order, folder, network)

        try:
            return retry(
                cleared,
                EngineAwayError,
                pauses=steady(CLEAR_PAUSE_SECONDS),
                seconds=CLEAR_PATIENCE_SECONDS,
                before_pause=lambda _: self._engine_of(order).hang_up(),
            )
        except EngineError as error:
            return f"What the job has in the Docker engine is still there. {error.message}"
        finally:
            stop_serving(folder)

    def _await_watches(self) -> None:
        """Wait until the watches have removed their containers. Afterwards no thread makes anything."""
        deadline = time.monotonic() + LAST_LINES_SECONDS
        makers = [self._network_maker] if self._network_maker is not None else []
        for thread in (*makers, *self._watches.values()):
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _engine_of(self, order: JobOrder | ContainerOrder) -> JobEngine:
        """The engine of this supervisor's job."""
        if self._job_engine is None:
            address = docker_part(order).engine if isinstance(order, JobOrder) else order.engine
            self._job_engine = JobEngine(address)
        return self._job_engine

    def _watch(self, replica: ReplicaFolder, *, stopping: bool) -> ContainerLife:
        order = container_order(replica)
        watch = ContainerLife(replica, order, self._engine_of(order), stopping=stopping)
        self._watches[replica.path] = watch
        watch.start()
        return watch


def _clear(engine: Engine, order: JobOrder, folder: JobFolder, network: str) -> str:
    """Remove the job's containers and network. Return a sentence on files that another user still owns."""
    labels, doing = job_labels(order.home, order.resource.id), "remove the job's containers"
    with engine_errors(doing):
        wanted = {"label": [f"{key}={value}" for key, value in labels.items()]}
        found = engine.calls.get("/containers/json", all=1, filters=wanted)
    if found:  # several at a time: each takes the engine a tenth of a second
        with ThreadPoolExecutor(REMOVALS_AT_ONCE) as pool:
            paths = [f"/containers/{container['Id']}" for container in found]
            removals = [pool.submit(engine.remove, doing, path, v=1, force=1) for path in paths]
            for removal in removals:
                removal.result()
    sentence = mend_ownership(engine, order, folder, labels)
    if network:
        try:
            remove_network(engine, network)
        except EngineError as error:
            if error.http_status != HTTPStatus.FORBIDDEN:
                raise
            cut_loose(engine, network)
            remove_network(engine, network)
    return sentence


TARGET = "/output"
BATCH_BYTES = 256 * 1024
"""The bytes of paths on one command line; the kernel takes two megabytes."""
PATIENCE_SECONDS = 60.0
"""The time for one folder, so that a job with millions of files ends too."""
_PROGRAM = (
    "import os, sys\n"
    "for path in sys.argv[3:]:\n"
    "    try:\n"
    "        os.lchown(path, int(sys.argv[1]), int(sys.argv[2]))\n"
    "    except FileNotFoundError:\n"
    "        continue\n"
)


def mend_ownership(engine: Engine, order: JobOrder, folder: JobFolder, labels: dict[str, str]) -> str:
    """Make the caller the owner of what the job wrote into its own folders. Return a sentence if that fails.

    These are the working directories of its replicas, and its base output directory unless another running
    job writes there too. Files from before the job keep their owner.
    """
    order_of_one = first_order(folder) if os.getuid() != 0 else None
    image = str(order_of_one.config.get("Image", "")) if order_of_one is not None else ""
    if not image:
        return ""
    since = (folder.path / "spec.json").stat().st_mtime
    problem = ""
    for own in (*map(Root, folder.path.glob("replicas/**/work")), *_output(order)):
        problem = give_back(engine, image, own, labels, since=since) or problem
    return problem


def give_back(engine: Engine, image: str, root: Root, labels: dict[str, str], *, since: float) -> str:
    """Make the caller the owner of new files below a root. Return a sentence if that fails.

    New are those that were made or changed since `since`, in epoch seconds.

    This needs the rights of root, so a container of the job's image does it. It sees the base of the root
    alone: a link that another job puts below leads to nothing of this machine.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    owner = (str(os.getuid()), str(os.getgid()))
    while batch := _batch(root, since):
        paths = ["/".join(filter(None, (TARGET, root.within, place))) for place in batch]
        for argv in (["chown", "-h", ":".join(owner), "--"], ["python3", "-c", _PROGRAM, *owner]):
            _run_as_root(engine, image, root.base, [*argv, *paths], labels)
            if not all(_is_foreign(root, place) for place in batch):
                break
        else:
            return f"Some files below {root.path} belong to another user, as the container wrote them."
        if time.monotonic() > deadline:
            return f"Some files below {root.path} still belong to another user: there are too many of them."
    return ""


def _batch(root: Root, since: float) -> list[str]:
    """The first of the other users' new files, at most as many as one command line takes."""
    batch: list[str] = []
    room = BATCH_BYTES
    for found in root.walk():
        if found.status.st_uid != os.getuid() and found.status.st_ctime >= since:
            room -= len(os.fsencode(f"{root.path}/{found.place}")) + 1
            if room < 0:
                break
            batch.append(found.place)
    return batch


def _is_foreign(root: Root, place: str) -> bool:
    try:
        return root.status(place).st_uid != os.getuid()
    except OSError:  # it has gone meanwhile
        return False


def _output(order: JobOrder) -> tuple[Root, ...]:
    """The job's base output directory, unless another running job writes there too."""
    home = Path(order.home)
    output = _output_root(order)
    if output is None or not output.is_folder():
        return ()
    for record in Store.open(home).living():
        folder = Home(home).job(record.name)
        theirs = _output_root(folder.order()) if folder.is_readable() else None
        if record.name == order.name or theirs is None:
            continue
        if theirs.path.is_relative_to(output.path) or output.path.is_relative_to(theirs.path):
            return ()
    return (output,)


def _output_root(order: JobOrder) -> Root | None:
    uri = order.job.job_spec.output_uri
    return LocalBuckets(Path(order.home)).root(uri) if uri else None


def _run_as_root(engine: Engine, image: str, folder: Path, argv: list[str], labels: dict[str, str]) -> None:
    """Run a program on the folder, as root. The caller looks at the files to see whether it helped."""
    mount = {"Type": "bind", "Source": str(folder), "Target": TARGET}
    config = {
        "Image": image,
        "Entrypoint": argv,
        "Cmd": [],
        "User": "0:0",
        "Labels": labels,
        "HostConfig": {"NetworkMode": "none", "Mounts": [mount]},
    }
    calls = engine.calls
    with suppress(EngineError), engine_errors("give the job's files to their owner"):
        made = calls.post("/containers/create", config)["Id"]
        try:
            calls.post(f"/containers/{made}/start")
            calls.post(f"/containers/{made}/wait")
        finally:
            calls.delete(f"/containers/{made}", force=1)
