"""The stores of one home, opened together, and resumable uploads: content in several requests."""

from __future__ import annotations

import asyncio
import heapq
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from vtrain.emulator.storage.bucket_store import BucketStore
from vtrain.emulator.storage.catalog import Catalog
from vtrain.emulator.storage.object_files import BucketFolders
from vtrain.emulator.storage.object_listing import Position
from vtrain.emulator.storage.object_store import ObjectStore, StoredObject, settable
from vtrain.emulator.storage.storage_refusals import Conditions, StorageRefusal
from vtrain.settings import make_home
from vtrain.staging import LocalBuckets

MOST_SESSIONS = 1000
"""Resumable uploads that are kept at the same time."""


class UploadSession:
    """One upload. `lock` is held by the request that adds to it."""

    def __init__(
        self, objects: ObjectStore, bucket: str, name: str, fields: dict[str, Any], conditions: Conditions
    ) -> None:
        objects.check(bucket, name, conditions)
        settable(fields)  # refused here rather than when all has arrived
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
        """A block in which content may be written. Between requests an upload holds no descriptor."""
        return self._partial.reopened()

    def write(self, position: int, data: bytes) -> None:
        """Append the new part of bytes that begin at a position: a client may send some again."""
        self._partial.write(data[max(self.received - position, 0) :])

    def finish(self, checksums: dict[str, str]) -> StoredObject:
        """Make the object. Raises StorageRefusal."""
        bucket, name = self._place
        fields = {**self._fields, **checksums}
        self.finished = self._objects.put(bucket, name, self._partial, fields, self._conditions)
        return self.finished

    def discard(self) -> None:
        """Remove the received content."""
        self._partial.discard()


class Sessions:
    """Running uploads, and ended ones, so that a client can ask again for a lost response.

    At most `MOST_SESSIONS` are kept; a new one replaces the least recently used. For the thread of the event
    loop alone.
    """

    def __init__(self) -> None:
        self._open: dict[str, UploadSession] = {}

    def keep(self, session: UploadSession) -> str:
        """The id of an upload from now on. Raises StorageRefusal where too many go on."""
        while len(self._open) >= MOST_SESSIONS:
            self._forget_one(session)
        upload_id = uuid.uuid4().hex
        self._open[upload_id] = session
        return upload_id

    def _forget_one(self, new: UploadSession) -> None:
        for upload_id, session in self._open.items():
            if not session.lock.locked():
                session.discard()
                del self._open[upload_id]
                return
        new.discard()
        raise StorageRefusal(429, "rateLimitExceeded", f"{MOST_SESSIONS} uploads go on at the same time.")

    def get(self, upload_id: str) -> UploadSession:
        """An upload. Raises StorageRefusal."""
        session = self._open.pop(upload_id, None)
        if session is None:
            raise StorageRefusal(404, "notFound", f"There is no upload {upload_id!r}.")
        self._open[upload_id] = session
        return session

    def cancel(self, upload_id: str) -> None:
        """End an upload without an object. Raises StorageRefusal."""
        self.get(upload_id).discard()
        del self._open[upload_id]

    def close(self) -> None:
        """End all uploads."""
        for session in self._open.values():
            session.discard()


FOLDER = "storage"
KEPT_SECONDS = 7 * 24 * 3600.0
"""The time that uploads of a killed service stay on the disk."""


class StorageService:
    """The buckets, objects and running uploads behind the API. `close` removes the uploads."""

    def __init__(self, home: Path) -> None:
        make_home(home)
        folder = home / FOLDER
        self.catalog = Catalog(folder)
        self._partials = _partial_folder(folder / "uploads")
        self.folders = BucketFolders(LocalBuckets(home).folder, folder / "aside")
        self.buckets = BucketStore(self.folders, self.catalog)
        self.objects = ObjectStore(self.folders, self.catalog, self.buckets, self._partials)
        self.sessions = Sessions()

    def names(self, bucket: str, prefix: str, position: Position) -> Iterator[str]:
        """The names of a bucket's objects that begin with a prefix, from a position on, in order."""
        self.buckets.get(bucket)
        aside = self.catalog.names_aside(bucket, position.start)
        return heapq.merge(self.folders.names(bucket, prefix, position), aside)

    def close(self) -> None:
        """Close the database, and remove unfinished uploads."""
        self.sessions.close()
        self.catalog.close()
        shutil.rmtree(self._partials, ignore_errors=True)


def _partial_folder(parent: Path) -> Path:
    """A new folder for uploads. Removes those of earlier services after a week without a write."""
    parent.mkdir(parents=True, exist_ok=True)
    for folder in parent.iterdir():
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(folder)
    return Path(tempfile.mkdtemp(dir=parent))
