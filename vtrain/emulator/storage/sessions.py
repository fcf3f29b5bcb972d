"""Resumable uploads: content that comes in several requests, any of which may break off."""

from __future__ import annotations

import asyncio
import re
import uuid
from contextlib import AbstractContextManager
from typing import Any

from vtrain.emulator.storage.conditions import Conditions
from vtrain.emulator.storage.objects import ObjectStore, StoredObject
from vtrain.emulator.storage.refusals import Refusal, invalid

MOST_SESSIONS = 1000
"""Resumable uploads that are kept at the same time."""
_SPAN = re.compile(r"bytes (?:\*|([0-9]{1,19})-([0-9]{1,19}))/(?:\*|([0-9]{1,19}))")


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
        self._partial.close()

    @property
    def received(self) -> int:
        """Bytes that are kept."""
        return self._partial.size

    def opened(self) -> AbstractContextManager[None]:
        """A block in which may be written: an upload that waits for its client holds no descriptor."""
        return self._partial.reopened()

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
    """The uploads that go on, and those that have ended, so that a lost answer can be asked for again.

    There are `MOST_SESSIONS` at most; a new one takes the place of the one that was used least lately.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._open: dict[str, Session] = {}

    def start(self, bucket: str, name: str, fields: dict[str, Any], conditions: Conditions) -> str:
        """Begin an upload; its id. Raises Refusal where the object could not be written."""
        session = Session(self._objects, bucket, name, fields, conditions)
        if len(self._open) >= MOST_SESSIONS:
            self._forget_one()
        upload_id = uuid.uuid4().hex
        self._open[upload_id] = session
        return upload_id

    def _forget_one(self) -> None:
        for upload_id, session in self._open.items():
            if not session.lock.locked():
                session.discard()
                del self._open[upload_id]
                return
        raise Refusal(429, "rateLimitExceeded", f"{MOST_SESSIONS} uploads go on at the same time.")

    def get(self, upload_id: str) -> Session:
        """An upload. Raises Refusal."""
        session = self._open.pop(upload_id, None)
        if session is None:
            raise Refusal(404, "notFound", f"There is no upload {upload_id!r}.")
        self._open[upload_id] = session
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
        match = _SPAN.fullmatch(header.strip())
        if match is None:
            raise invalid(f"Content-Range: {header[:100]!r} is none.")
        first, last, total = (None if number is None else int(number) for number in match.groups())
        self.total = total
        self.start = first
        self.length = 0 if first is None or last is None else last - first + 1
        if self.length < 0:
            raise invalid(f"Content-Range: {header!r} is none.")
