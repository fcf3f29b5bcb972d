"""Resources that only the emulator has: each is a file of the home, so that they outlive a start."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from vtrain.atomic import publish_file
from vtrain.emulator.running import FOLDER
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal
from vtrain.errors import StorageError
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.names import parse_name
from vtrain.messages.structs import Resource
from vtrain.privacy import make_private
from vtrain.times import timestamp

EVERYWHERE = "-"
"""The location of a list of all regions."""
REGION = re.compile(r"[a-z][a-z0-9-]{0,62}")
_ID = re.compile(r"[a-z0-9-]{1,63}")

R = TypeVar("R", bound=Resource)


class ResourceFiles(Generic[R]):
    """The resources of one collection. Several threads use it; one emulator serves a home."""

    def __init__(self, home: Path, collection: str, message: type[R]) -> None:
        self._folder = home / FOLDER / collection
        self._message = message
        self._noun = message.__name__
        self._lock = threading.RLock()

    def find(self, name: str) -> R:
        """A resource. Raises VertexRefusal where there is none."""
        file = self._file(name)
        try:
            return from_document(self._message, msgspec.json.decode(file.read_bytes()))
        except FileNotFoundError:
            raise self._not_found(name) from None
        except (OSError, msgspec.MsgspecError, RecursionError) as error:
            raise VertexRefusal("INTERNAL", f"The file {file} is damaged: {error}.") from None

    def all(self, location: str = EVERYWHERE) -> list[R]:
        """The resources of a region, or of all, the newest first; a damaged file has none."""
        found = []
        where = "*" if location == EVERYWHERE else location
        for file in self._folder.glob(f"{where}.*.json") if where == "*" or REGION.fullmatch(where) else ():
            try:
                found.append(from_document(self._message, msgspec.json.decode(file.read_bytes())))
            except (OSError, msgspec.MsgspecError, RecursionError):
                continue
        return sorted(found, key=lambda one: getattr(one, "create_time", ""), reverse=True)

    def add(self, resource: Any) -> None:
        """Keep a new resource. Raises VertexRefusal where its name is taken."""
        with self._lock:
            if self._file(resource.name).exists():
                raise VertexRefusal("ALREADY_EXISTS", f"There is a resource {resource.name} already.")
            self._write(resource)

    @contextmanager
    def changing(self, name: str) -> Iterator[R]:
        """A block in which nobody else changes the resource. Raises VertexRefusal where there is none."""
        with self._lock:
            yield self.find(name)

    def change(self, resource: R, **fields: Any) -> R:
        """The resource with other fields, which are kept."""
        changed = msgspec.structs.replace(resource, **fields, update_time=timestamp())
        with self._lock:
            self._write(changed)
        return changed

    def remove(self, name: str) -> None:
        """Forget a resource. Raises VertexRefusal where there is none."""
        try:
            self._file(name).unlink()
        except FileNotFoundError:
            raise self._not_found(name) from None

    def _file(self, name: str) -> Path:
        """The file of a resource. Raises VertexRefusal for a name that none has."""
        full = parse_name(name)
        if full is None or not REGION.fullmatch(full.location) or not _ID.fullmatch(full.id):
            raise self._not_found(name)
        return self._folder / f"{full.location}.{full.id}.json"

    def _write(self, resource: Any) -> None:
        file = self._file(resource.name)
        try:
            make_private(self._folder)
            publish_file(file, msgspec.json.encode(to_document(resource)))
        except OSError as error:
            raise StorageError(f"{file} cannot be written: {error.strerror}.") from error

    def _not_found(self, name: str) -> VertexRefusal:
        return VertexRefusal("NOT_FOUND", f"The {self._noun} {name[:300]} does not exist.")
