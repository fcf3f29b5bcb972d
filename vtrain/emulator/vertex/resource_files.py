"""Resources that only the emulator has: each is a file of the home, so that they outlive a start."""

from __future__ import annotations

import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from vtrain.atomic import holding, publish_file
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal
from vtrain.errors import StorageError
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.structs import Resource
from vtrain.privacy import make_private
from vtrain.runtime.home import Home
from vtrain.times import nanoseconds, timestamp

EVERYWHERE = "-"
"""The location of a list of all regions."""
REGION = re.compile(r"[a-z][a-z0-9-]{0,62}")
ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,127}")
MOST_RESOURCES = 10_000
"""Resources of one collection below one parent, or in one region."""
MOST_REMEMBERED = 20_000
"""Files of which the time of the resource is remembered, so that a page reads no others than its own."""
_NAME = re.compile(rf"projects/[^/]+/locations/({REGION.pattern})/([^\s]+)")
_DAMAGED = (OSError, ValueError, msgspec.MsgspecError, RecursionError, VertexRefusal)
"""The errors of a file that is damaged."""

R = TypeVar("R", bound=Resource)
_Mark = tuple[int, int]


class ResourceFiles(Generic[R]):
    """The resources of one collection. Several threads use it, and several emulators may serve a home.

    Each is the file `COLLECTION/REGION.ID.json`; what is below it lies in the folder `COLLECTION/REGION.ID`.
    """

    def __init__(self, home: Path, collection: str, message: type[R], noun: str = "") -> None:
        """`noun` is the name of the message in the API, where `message` has another one."""
        self._root = Home(home).emulator
        self._collections = collection.split("/*/")
        self._message = message
        self._noun = noun or message.__name__
        self._moments: dict[Path, tuple[_Mark, int]] = {}
        self._lock = threading.RLock()
        self._is_locked = False

    def find(self, name: str) -> R:
        """A resource. Raises VertexRefusal where there is none."""
        file = self._file(name)
        try:
            found: R = self._load(file)
            return found
        except FileNotFoundError:
            raise self._not_found(name) from None
        except _DAMAGED as error:
            raise VertexRefusal("INTERNAL", f"The file {file} is damaged: {error}.") from None

    def below(self, parent: str) -> list[R]:
        """All resources of a parent or a location, the newest first; a damaged file has none.

        Raises VertexRefusal where there is no parent.
        """
        return self.page(parent, sys.maxsize, "")[0]

    def page(
        self, parent: str, size: int, token: str, passes: Callable[[R], bool] = lambda _: True
    ) -> tuple[list[R], str]:
        """So many of these behind a token that pass a test, and the token of the next page.

        There are more where some were made at the same microsecond.
        """
        marks = {file: mark for file in self._paths(parent) if (mark := _mark(file))}
        moments = {file: self._moment(file, mark) for file, mark in marks.items()}
        newest = sorted(moments, key=lambda file: (moments[file], file.name), reverse=True)
        left = [file for file in newest if not token or moments[file] < int(token)]
        found: list[R] = []
        last = 0
        for file in left:
            if len(found) >= size and moments[file] != last:
                return found, str(last)
            last = moments[file]
            try:
                one = self._load(file)
            except _DAMAGED:
                continue
            if passes(one):
                found.append(one)
        return found, ""

    def _paths(self, parent: str) -> Iterable[Path]:
        if len(self._collections) > 1:
            file = self._file(f"{parent}/{self._collections[-1]}/0")
            self._check_parent(file, parent)
            return file.parent.glob("*.json")
        location = parent.rpartition("/")[2]
        if location != EVERYWHERE and not REGION.fullmatch(location):
            return ()
        where = "*" if location == EVERYWHERE else location
        return (self._root / self._collections[0]).glob(f"{where}.*.json")

    def _moment(self, file: Path, mark: _Mark) -> int:
        """When the resource in a file was made, in microseconds; 0 for a damaged one. It is remembered."""
        known = self._moments.get(file)
        if known is None or known[0] != mark:
            moment = 0
            with suppress(*_DAMAGED):
                moment = nanoseconds(getattr(self._load(file), "create_time", "")) // 1000
            if len(self._moments) >= MOST_REMEMBERED:
                self._moments.clear()
            self._moments[file] = known = mark, moment
        return known[1]

    def _load(self, file: Path) -> Any:
        """The resource in a file. Raises one of `_DAMAGED`, also for a copy of another resource."""
        found: Any = from_document(self._message, msgspec.json.decode(file.read_bytes()))
        if self._file(found.name) != file:
            raise ValueError(f"it is that of {found.name[:300]}")
        return found

    def add(self, resource: Any) -> None:
        """Keep a new resource. Raises VertexRefusal where its name is taken, or there are too many."""
        file = self._file(resource.name)
        with self._alone():
            self._check_parent(file, resource.name.rsplit("/", 2)[0])
            if file.exists():
                raise VertexRefusal(
                    "ALREADY_EXISTS", f"{self._noun} with name {resource.name} already exists"
                )
            siblings = "*.json" if len(self._collections) > 1 else f"{file.name.partition('.')[0]}.*.json"
            if sum(1 for _ in file.parent.glob(siblings)) >= MOST_RESOURCES:
                raise VertexRefusal(
                    "RESOURCE_EXHAUSTED", f"There are {MOST_RESOURCES} {self._collections[-1]} already."
                )
            # A kill may have left what was below an earlier one, while that was removed.
            shutil.rmtree(file.with_suffix(""), ignore_errors=True)
            self._write(resource)

    def _check_parent(self, file: Path, parent: str) -> None:
        """Raise VertexRefusal where a resource is to be below one that does not exist."""
        above = file.parent.parent
        if len(self._collections) > 1 and not above.with_name(f"{above.name}.json").exists():
            raise VertexRefusal("NOT_FOUND", f"The resource {parent[:300]} does not exist.")

    def folder(self, name: str) -> Path:
        """The folder of what is below a resource, which goes with it."""
        return self._file(name).with_suffix("")

    @contextmanager
    def changing(self, name: str) -> Iterator[R]:
        """A block in which nobody else changes the resource. Raises VertexRefusal where there is none."""
        with self._alone():
            yield self.find(name)

    def change(self, resource: R, **fields: Any) -> R:
        """The resource with other fields, which are kept."""
        changed = msgspec.structs.replace(resource, **fields, update_time=timestamp())
        with self._alone():
            self._write(changed)
        return changed

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A block of one thread of one emulator, which may have such a block in it. Raises StorageError."""
        with self._lock, ExitStack() as stack:
            if not self._is_locked:
                folder = self._root / self._collections[0]
                lock = folder / f".{self._collections[-1]}.lock"
                try:
                    make_private(folder)
                    lock.touch(0o600)
                    stack.enter_context(holding(lock))
                except OSError as error:
                    raise StorageError(f"{lock} cannot be locked: {error.strerror}.") from error
                self._is_locked = True
                stack.callback(setattr, self, "_is_locked", False)
            yield

    def remove(self, name: str) -> None:
        """Forget a resource, and what is below it. Raises VertexRefusal where there is none."""
        file = self._file(name)
        with self._alone():
            try:
                file.unlink()
            except FileNotFoundError:
                raise self._not_found(name) from None
            except OSError as error:
                raise StorageError(f"{file} cannot be removed: {error.strerror}.") from error
            shutil.rmtree(file.with_suffix(""), ignore_errors=True)

    def _file(self, name: str) -> Path:
        """The file of a resource. Raises VertexRefusal for a name that none has."""
        match = _NAME.fullmatch(name)
        steps = match[2].split("/") if match else []
        collections, ids = steps[::2], steps[1::2]
        is_one = collections == self._collections and len(ids) == len(collections)
        if match is None or not is_one or not all(map(ID.fullmatch, ids)):
            raise self._not_found(name)
        place = self._root / collections[0] / f"{match[1]}.{ids[0]}"
        for below in zip(collections[1:], ids[1:], strict=True):
            place = place.joinpath(*below)
        return place.with_name(f"{place.name}.json")

    def _write(self, resource: Any) -> None:
        file = self._file(resource.name)
        try:
            make_private(file.parent)
            publish_file(file, msgspec.json.encode(to_document(resource)))
        except OSError as error:
            raise StorageError(f"{file} cannot be written: {error.strerror}.") from error

    def _not_found(self, name: str) -> VertexRefusal:
        return VertexRefusal("NOT_FOUND", f"The {self._noun} {name[:300]} does not exist.")


def _mark(file: Path) -> _Mark | None:
    """What changes with each file of that name; None where there is none any more."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
