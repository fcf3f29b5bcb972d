"""Resumable uploads: content that comes in several requests, any of which may break off."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from vtrain.emulator.storage.conditions import Conditions
from vtrain.emulator.storage.objects import ObjectStore, StoredObject
from vtrain.emulator.storage.refusals import Refusal, invalid


class Session:
    """One upload. `lock` is held by the request that adds to it."""

    def __init__(
        self, objects: ObjectStore, bucket: str, name: str, fields: dict[str, Any], conditions: Conditions
    ) -> None:
        objects.check(bucket, name, conditions)
        self.lock = asyncio.Lock()
        self.finished: StoredObject | None = None
        self._objects = objects
        self._place = (bucket, name)
        self._fields = fields
        self._conditions = conditions
        self._partial = objects.open_partial(bucket)

    @property
    def received(self) -> int:
        """Bytes that are kept."""
        return self._partial.size

    def write(self, position: int, data: bytes) -> None:
        """Add what is new of the bytes that begin at a position; a client may send some again."""
        self._partial.write(data[max(self.received - position, 0) :])

    def finish(self, checksums: dict[str, str]) -> StoredObject:
        """Make the object. Raises Refusal."""
        bucket, name = self._place
        fields = {**self._fields, **checksums}
        self.finished = self._objects.put(bucket, name, self._partial, fields, self._conditions)
        return self.finished

    def discard(self) -> None:
        """Forget what was received."""
        self._partial.discard()


class Sessions:
    """The uploads that go on, and those that have ended, so that a lost answer can be asked for again."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._open: dict[str, Session] = {}

    def start(self, bucket: str, name: str, fields: dict[str, Any], conditions: Conditions) -> str:
        """Begin an upload; its id. Raises Refusal where the object could not be written."""
        upload_id = uuid.uuid4().hex
        self._open[upload_id] = Session(self._objects, bucket, name, fields, conditions)
        return upload_id

    def get(self, upload_id: str) -> Session:
        """An upload. Raises Refusal."""
        session = self._open.get(upload_id)
        if session is None:
            raise Refusal(404, "notFound", f"There is no upload {upload_id!r}.")
        return session

    def cancel(self, upload_id: str) -> None:
        """End an upload without an object. Raises Refusal."""
        self.get(upload_id).discard()
        del self._open[upload_id]

    def close(self) -> None:
        """End all uploads."""
        for session in self._open.values():
            session.discard()


class ContentRange:
    """A `Content-Range` of an upload: `bytes 0-99/100`, `bytes 0-99/*`, `bytes */100`, `bytes */*`."""

    def __init__(self, header: str) -> None:
        unit, _, rest = header.partition(" ")
        span, _, total = rest.strip().partition("/")
        first, _, last = span.partition("-")
        try:
            self.total = None if total == "*" else int(total)
            self.start = None if span == "*" else int(first)
            self.length = 0 if span == "*" else int(last) - int(first) + 1
        except ValueError:
            raise invalid(f"Content-Range: {header!r} is none.") from None
        if unit != "bytes" or self.length < 0:
            raise invalid(f"Content-Range: {header!r} is none.")
