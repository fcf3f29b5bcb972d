"""Waiting containers: how the slots of a persistent resource stay warm on Docker.

    waiting/RESOURCE/KEY/ID/container.json   its engine
    waiting/RESOURCE/KEY/ID/work             what becomes the working directory of a replica
    waiting/RESOURCE/KEY/ID/site             the folder of the trainer's code
    waiting/RESOURCE/KEY/ID/reports          what becomes the folder to which a trial reports

RESOURCE is made of the resource's name. KEY is made of all that a container has from its creation on: image,
user, mounts, limits, devices. After each start a supervisor makes a container for the next job of that key,
which waits under a host name of its own. To start it a supervisor renames the folder into that of the replica
and the container to the replica's name, moves the files into place, which mounts follow, and sends the
program. Each container runs one job, so nothing of one job is there for the next.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from vtrain.atomic import UNPUBLISHED, clear, holding, is_held, remove_folder, set_aside
from vtrain.backends.docker.container import (
    OPEN_TO_ALL,
    PYTHON,
    REPORTS,
    SITE,
    WORK,
    ContainerOrder,
    WaitingPlace,
)
from vtrain.backends.docker.container_view import ContainerView
from vtrain.containers.address import EngineAddress
from vtrain.containers.engine import Engine, connect, engine_errors
from vtrain.containers.labels import HOME_LABEL, WAITING_LABEL
from vtrain.digests import content_digest, document_digest
from vtrain.errors import EngineAwayError, EngineError
from vtrain.privacy import FOLDER_MODE, make_private
from vtrain.retry import wait_until
from vtrain.runtime.folder import DamagedFileError, ReplicaFolder, read_struct, write_struct
from vtrain.runtime.replica import PRIMARY, host_name
from vtrain.runtime.supervisor_process import random_job_id
from vtrain.times import from_epoch

SLOT = "slot"
"""In the folder of a replica: the folder of the container that it starts in, until its files are in place."""
SENT = "sent"
"""Beside it: an empty file, made when the program was sent."""
PLACES = {WORK: "work", SITE: "site", REPORTS: "reports"}
"""The folders of a container that waits, by their mount points."""
_OF_ONE_JOB = ("Env", "Entrypoint", "Cmd", "Hostname", "Labels")
"""The parts of a container's configuration by which those of one place differ."""
SOCKET = ".vtrain-slot"
"""In the working directory of a container that waits."""
READY_SECONDS = 10.0
"""The time for a container to begin to wait, and to take a program."""
WAIT_PROGRAM = Path(__file__).with_name("payload") / "wait.py"


class WaitingContainer(msgspec.Struct, frozen=True, kw_only=True):
    """One that waits: the engine's id of it, and the id that its host name is made of."""

    container: str
    engine: EngineAddress
    id: str


def waiting_folder(home: Path, owner: str) -> Path:
    """The folder of the containers that wait for jobs of the persistent resource `owner`."""
    return home / "waiting" / content_digest(owner.encode())[:16]


def place_of(home: str, owner: str, most: int, order: ContainerOrder, image_id: str) -> WaitingPlace:
    """The place of the containers in which a replica with that order could start."""
    fixed = {name: value for name, value in order.config.items() if name not in _OF_ONE_JOB}
    host = order.config["HostConfig"]
    fixed["HostConfig"] = host | {"Mounts": [_place_mount(mount, "") for mount in host["Mounts"]]}
    key = document_digest((image_id, msgspec.to_builtins(order.engine), fixed))[:16]
    return WaitingPlace(folder=str(waiting_folder(Path(home), owner)), key=key, most=most)


def _place_mount(mount: dict[str, Any], folder: str) -> dict[str, Any]:
    """The same mount in a container that waits in that folder."""
    inside = PLACES.get(mount["Target"])
    return mount | {"Source": f"{folder}/{inside}"} if inside else mount


def claim_container(place: WaitingPlace, replica: ReplicaFolder) -> str:
    """Take a container that waits there for this replica alone; its id, empty where none does."""
    slot = replica.path / SLOT
    if not slot.exists():  # a supervisor that died may have taken one
        for folder in (Path(place.folder), replica.path):
            make_private(folder)
        for waiting in _oldest_first([Path(place.folder, place.key)]):
            with suppress(OSError):  # somebody else was faster
                os.rename(waiting, slot)  # noqa: PTH104 - a rename that never moves between file systems
                break
    found = _described(slot)
    return found.id if found is not None else ""


def _described(folder: Path) -> WaitingContainer | None:
    with suppress(DamagedFileError):
        return read_struct(folder / "container.json", WaitingContainer)
    return None


def _oldest_first(places: Iterable[Path]) -> list[Path]:
    """The folders of the containers that wait in these places."""
    found = []
    for path in (path for place in places for path in place.glob("[0-9]*")):
        with suppress(FileNotFoundError):  # a job has just claimed it
            found.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(found)]


class WaitingView(ContainerView):
    """The container of a replica that starts in one that waits; if that has ended, in one of its own."""

    def __init__(
        self,
        connect: Callable[[], Engine],
        hang_up: Callable[[], None],
        replica: ReplicaFolder,
        order: ContainerOrder,
    ) -> None:
        """`connect` and `hang_up` are those of every view."""
        super().__init__(connect, hang_up, order.name)
        self._replica = replica.name
        self._slot = replica.path / SLOT
        self._sent = replica.path / SENT
        self._socket = replica.work / SOCKET
        self._work = replica.work
        self._order = order
        self._link: socket.socket | None = None

    def inspect(self) -> dict[str, Any] | None:
        """Its State, in which it has begun when the program was sent."""
        state = super().inspect()
        with suppress(FileNotFoundError):
            if state is not None:
                state["StartedAt"] = from_epoch(self._sent.stat().st_mtime, 9)
        return state

    def create(self, config: dict[str, Any]) -> dict[str, Any]:
        """Make the waiting container that of the replica; else create one. Its State."""
        if self._is_taken():
            found = self.inspect()  # a supervisor that died has sent the program
            if found is not None:
                return found
        waiting = _described(self._slot)
        self._move_files(config)
        self._link = _connected(self._work)
        if self._link is not None and waiting is not None and self._renamed(waiting.container):
            return {"Status": "created", "Error": "", "ExitCode": 0}
        self._link = None
        self._sent.unlink(missing_ok=True)
        self._socket.unlink(missing_ok=True)
        if waiting is not None:
            remove_container(self.engine, waiting.container)
        return super().create(config)

    def start(self) -> None:
        """Send the program to the container that waits for it; start one of its own."""
        if self._link is None:
            super().start()
            return
        config = self._order.config
        env = dict(entry.split("=", 1) for entry in config["Env"])
        request = msgspec.json.encode({"argv": [*config["Entrypoint"], *config["Cmd"]], "env": env})
        self._sent.touch()
        with closing(self._link), suppress(OSError):
            self._link.sendall(request)
            self._link.shutdown(socket.SHUT_WR)
            self._link.recv(1)
        self.start_note = f"{self._replica} started in a container that waited for it."
        if not self._is_taken():
            raise EngineAwayError("The container that waited for a job does not answer.")

    def remove(self) -> None:
        """Remove the container, and what its folder still holds."""
        super().remove()
        shutil.rmtree(self._slot, ignore_errors=True)

    def _is_taken(self) -> bool:
        """Whether a container has taken the program: it removes its socket before."""
        return self._sent.exists() and not self._socket.exists()

    def _move_files(self, config: dict[str, Any]) -> None:
        """Fill the container's folders, which it has mounted, and put them in the places of the replica's.

        A supervisor that died may have done a part of it.
        """
        for mount in config["HostConfig"]["Mounts"]:
            source, target = Path(mount["Source"]), self._slot / PLACES.get(mount["Target"], "none")
            if not target.exists():
                continue
            if mount["Target"] == SITE:  # other jobs use that one too
                shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, copy_function=_link)
            else:
                for path in list(source.iterdir()):
                    path.rename(target / path.name)
                target.rename(source)

    def _renamed(self, container: str) -> bool:
        """Whether the container has the replica's name now."""
        try:
            with engine_errors("rename the container"):
                self.engine.calls.post(f"/containers/{container}/rename", name=self._order.name)
        except EngineAwayError:
            raise
        except EngineError:  # it is not there; or a supervisor that died has renamed it
            return super().inspect() is not None and self.id == container
        self.id = container
        return True


def _link(source: str, target: str) -> None:
    """The same file in another folder; containers mount that read-only."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        return
    except OSError:  # another file system
        shutil.copy2(source, target, follow_symlinks=False)


def _connected(work: Path) -> socket.socket | None:
    """A connection to what waits in a working directory; None where nothing does."""
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(READY_SECONDS)
    try:
        with _reachable(work) as folder:
            link.connect(f"{folder}/{SOCKET}")
    except OSError:
        link.close()
        return None
    return link


@contextmanager
def _reachable(folder: Path) -> Iterator[str]:
    """A short name of a folder: that of a socket has at most 107 bytes."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def keep_waiting(engine: Engine, order: ContainerOrder) -> None:
    """Make a container that waits for the next job of a replica's place; ends those that are too many.

    Jobs go on to start without it where that fails.
    """
    assert order.waiting is not None
    top = Path(order.waiting.folder)
    place = top / order.waiting.key
    with suppress(OSError, EngineError):
        place.mkdir(mode=FOLDER_MODE, exist_ok=True)  # its parent is gone with the resource
        _end_unpublished(engine, top)
        waiting = _oldest_first(top.glob("*"))
        for path in waiting[: max(len(waiting) + 1 - order.waiting.most, 0)]:
            _end(path)
        _make(engine, order, place)


def _make(engine: Engine, order: ContainerOrder, place: Path) -> None:
    """Make one container, wait until it waits, and let others find it. Raises OSError and EngineError."""
    id = random_job_id()
    folder = place / f"{UNPUBLISHED}{id}"
    folder.mkdir(mode=FOLDER_MODE)
    with holding(folder):
        container = ""
        try:
            for mount_point, name in PLACES.items():
                (folder / name).mkdir()
                (folder / name).chmod(0o755 if mount_point == SITE else OPEN_TO_ALL)
            with engine_errors("make a container that waits"):
                config = _waiting_config(order, id, folder)
                container = engine.calls.post("/containers/create", config, name=waiting_name(id))["Id"]
                engine.calls.post(f"/containers/{container}/start")
            socket_path = folder / "work" / SOCKET
            wait_until(lambda: socket_path.exists() or not folder.exists(), READY_SECONDS)
            if not socket_path.exists():  # the resource was deleted; or the image has no Python
                raise EngineError("The container does not wait.")
            described = WaitingContainer(container=container, engine=order.engine, id=id)
            write_struct(folder / "container.json", described)
            folder.rename(place / id)
        except BaseException:
            if container:
                remove_container(engine, container)
            remove_folder(folder)
            raise


def waiting_name(id: str) -> str:
    """The name of a container until a job has it."""
    return f"vtrain-waiting-{id}"


def _waiting_config(order: ContainerOrder, id: str, folder: Path) -> dict[str, Any]:
    """The body of `POST /containers/create`: the replica's, with another program and other folders."""
    program = [PYTHON, "-I", "-S", "-c", WAIT_PROGRAM.read_text(encoding="utf-8"), f"{WORK}/{SOCKET}"]
    host = order.config["HostConfig"]
    own = {
        "Env": [],
        "Entrypoint": program,
        "Cmd": [],
        "Hostname": host_name(id, PRIMARY),
        "Labels": {WAITING_LABEL: id, HOME_LABEL: order.labels[HOME_LABEL]},
        "HostConfig": host | {"Mounts": [_place_mount(mount, str(folder)) for mount in host["Mounts"]]},
    }
    return order.config | own


def remove_container(engine: Engine, container: str) -> None:
    """Remove a container, running or not; where the engine does not, garbage collection will."""
    with suppress(EngineError), engine_errors("remove a container"):
        engine.calls.delete(f"/containers/{container}", force=1, v=1)


def claimed_container(replica: Path) -> str:
    """The engine's id of the container that a replica has claimed; empty without one."""
    found = _described(replica / SLOT)
    return found.container if found is not None else ""


def waits(home: Path, id: str) -> bool:
    """Whether the container of that id waits for a job, or is about to."""
    if not id.isdigit():
        return False
    top = home / "waiting"
    making = top.glob(f"*/*/{UNPUBLISHED}{id}")
    return any(top.glob(f"*/*/{id}")) or any(map(_is_made, making))


def _is_made(folder: Path) -> bool:
    """Whether somebody still makes the container of that folder."""
    try:
        return is_held(folder)
    except OSError:
        return False


def end_waiting(home: Path, owner: str) -> None:
    """End the containers that wait for jobs of a persistent resource. Raises OSError.

    One whose engine does not answer ends by itself, and garbage collection removes it.
    """
    top = waiting_folder(home, owner)
    for path in _oldest_first(top.glob("*")):
        _end(path)
    remove_folder(top)


def _end(folder: Path) -> None:
    """End a container that waits, unless somebody has claimed it meanwhile."""
    gone = set_aside(folder)
    found = _described(gone)
    try:
        if found is not None:
            with suppress(EngineError), closing(connect(found.engine)) as engine:
                remove_container(engine, found.container)
    finally:
        clear(gone)


def _end_unpublished(engine: Engine, top: Path) -> None:
    """Remove what a supervisor that was killed had begun to make."""
    for folder in top.glob(f"*/{UNPUBLISHED}*"):
        if not _is_made(folder):
            remove_container(engine, waiting_name(folder.name.removeprefix(UNPUBLISHED)))
            remove_folder(folder)
