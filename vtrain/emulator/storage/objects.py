"""Objects: found, written, changed and removed, each in one step that no other writer divides."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from vtrain.emulator.storage.buckets import BucketStore, merge
from vtrain.emulator.storage.catalog import Catalog, ObjectRecord
from vtrain.emulator.storage.conditions import Conditions
from vtrain.emulator.storage.partial import Partial, file_crc32c
from vtrain.emulator.storage.places import Places
from vtrain.emulator.storage.refusals import Refusal, invalid, no_bucket, no_object

SETTABLE = frozenset(
    "cacheControl contentDisposition contentEncoding contentLanguage contentType customTime "
    "eventBasedHold metadata retention storageClass temporaryHold".split()
)
"""Fields of an object that clients set."""
LONGEST_NAME = 1024
"""Bytes of an object's name."""
MOST_COMPONENTS = 32
"""Objects that one request composes."""
_LOOKS = 5
"""How often an object is looked for that changes while it is opened."""


class StoredObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that is there."""

    bucket: str
    name: str
    path: Path
    record: ObjectRecord


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """An object that another is made of; a generation of None is the present one."""

    bucket: str
    name: str
    generation: int | None = None
    conditions: Conditions = Conditions()


class ObjectStore:
    """The objects of one home."""

    def __init__(self, places: Places, catalog: Catalog, buckets: BucketStore, partials: Path) -> None:
        self._places = places
        self._catalog = catalog
        self._buckets = buckets
        self._partials = partials

    def open_partial(self, bucket: str) -> Partial:
        """A place for content that is to become an object of this bucket. Raises Refusal without one."""
        if not self._buckets.exists(bucket):
            raise no_bucket(bucket)
        return Partial(self._partials)

    def check(self, bucket: str, name: str, conditions: Conditions) -> None:
        """Raise Refusal unless an object of that name could be written now."""
        _check_name(name)
        if not self._buckets.exists(bucket):
            raise no_bucket(bucket)
        conditions.check(*self._standing(bucket, name))

    def get(
        self, bucket: str, name: str, conditions: Conditions, generation: int | None = None
    ) -> StoredObject:
        """An object as it is now. Raises Refusal; that of a reader's conditions is a 304."""
        found = self.find(bucket, name)
        if found is None or generation not in (None, found.record.generation):
            if not self._buckets.exists(bucket):
                raise no_bucket(bucket)
            raise no_object(bucket, name)
        conditions.check(found.record.generation, found.record.metageneration, reading=True)
        return found

    def find(self, bucket: str, name: str) -> StoredObject | None:
        """An object with all that is known of it; for a file that somebody else wrote, that is found out."""
        path = self._places.find(bucket, name) if self._buckets.exists(bucket) else None
        if path is None:
            return None
        try:
            record = self._valid_record(bucket, name, path) or self._survey(bucket, name, path)
        except FileNotFoundError:
            return None
        return StoredObject(bucket=bucket, name=name, path=path, record=record)

    def _valid_record(self, bucket: str, name: str, path: Path) -> ObjectRecord | None:
        """The catalog's record, if the file is still the one that it is about."""
        record, status = self._catalog.object(bucket, name), path.stat()
        same = record is not None and (record.generation, record.size) == (status.st_mtime_ns, status.st_size)
        return record if same else None

    def _survey(self, bucket: str, name: str, path: Path) -> ObjectRecord:
        """The record of a file that somebody else wrote, kept for the next time."""
        before = path.stat()
        time_ns = before.st_mtime_ns
        record = ObjectRecord(
            generation=time_ns,
            size=before.st_size,
            created=time_ns,
            updated=time_ns,
            crc32c=file_crc32c(path),
            fields={"contentType": "application/octet-stream"},
        )
        with self._catalog.writing():
            known = self._valid_record(bucket, name, path)  # of a writer who was between file and record
            if known is not None:
                return known
            after = path.stat()
            if (after.st_mtime_ns, after.st_size) == (time_ns, before.st_size):
                self._catalog.save_object(bucket, name, record, aside=self._places.is_aside(path))
        return record

    def _standing(self, bucket: str, name: str) -> tuple[int, int]:
        """Generation and metageneration as they are now; zeros where there is no object."""
        path = self._places.find(bucket, name)
        if path is None:
            return 0, 0
        record = self._valid_record(bucket, name, path)
        return (record.generation, record.metageneration) if record else (path.stat().st_mtime_ns, 1)

    def put(
        self,
        bucket: str,
        name: str,
        partial: Partial,
        fields: dict[str, Any],
        conditions: Conditions,
        *,
        components: int = 0,
    ) -> StoredObject:
        """Make an object of what was received. `fields` is the object's document as the client wrote it.

        Raises Refusal where checksums, conditions, name or bucket say no.
        """
        partial.check(fields)
        with self._catalog.writing():
            self.check(bucket, name, conditions)
            generation = max(time.time_ns(), self._standing(bucket, name)[0] + 1)
            path = self._places.make_room(bucket, name)
            status = partial.move_to(path, generation)
            record = ObjectRecord(
                generation=status.st_mtime_ns,
                size=status.st_size,
                created=generation,
                updated=generation,
                crc32c=partial.crc32c,
                md5="" if components else partial.md5,
                components=components,
                fields=settable(fields),
            )
            self._catalog.save_object(bucket, name, record, aside=self._places.is_aside(path))
            if not self._places.is_aside(path):
                self._places.aside(bucket, name).unlink(missing_ok=True)
        return StoredObject(bucket=bucket, name=name, path=path, record=record)

    def patch(
        self, bucket: str, name: str, changes: dict[str, Any], conditions: Conditions, *, whole: bool = False
    ) -> StoredObject:
        """Change metadata; a null removes a field, `whole` all that are not named. Raises Refusal."""
        # a checksum that has to be computed is not computed under the lock
        self.get(bucket, name, Conditions())
        with self._catalog.writing():
            found = self.get(bucket, name, Conditions())
            record = found.record
            conditions.check(record.generation, record.metageneration)
            wanted = {key: value for key, value in changes.items() if key in SETTABLE}
            changed = replace(
                record,
                fields=settable(wanted) if whole else merge(record.fields, wanted),
                metageneration=record.metageneration + 1,
                updated=time.time_ns(),
            )
            self._catalog.save_object(bucket, name, changed, aside=self._places.is_aside(found.path))
        return replace(found, record=changed)

    def remove(self, bucket: str, name: str, conditions: Conditions, generation: int | None = None) -> None:
        """Remove an object. Raises Refusal."""
        with self._catalog.writing():
            path = self._places.find(bucket, name) if self._buckets.exists(bucket) else None
            standing = self._standing(bucket, name)
            if path is None or generation not in (None, standing[0]):
                raise no_object(bucket, name)
            conditions.check(*standing)
            path.unlink()
            self._places.aside(bucket, name).unlink(missing_ok=True)
            self._catalog.remove_object(bucket, name)

    def join(
        self,
        sources: list[Source],
        bucket: str,
        name: str,
        fields: dict[str, Any] | None,
        conditions: Conditions,
        *,
        composed: bool = False,
    ) -> StoredObject:
        """Make an object of others; without `fields` it has those of the first. Raises Refusal."""
        found = [self.get(s.bucket, s.name, s.conditions, s.generation) for s in sources]
        components = sum(max(part.record.components, 1) for part in found) if composed else 0
        with self.open_partial(bucket) as partial:
            partial.write_files(part.path for part in found)
            document = found[0].record.fields if fields is None else fields
            return self.put(bucket, name, partial, document, conditions, components=components)

    def open(
        self, bucket: str, name: str, conditions: Conditions, generation: int | None = None
    ) -> tuple[StoredObject, int]:
        """An object, and a file descriptor of its content. Raises Refusal, also while it is written."""
        for _ in range(_LOOKS):
            found = self.get(bucket, name, conditions, generation)
            try:
                descriptor = os.open(found.path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            if os.fstat(descriptor).st_mtime_ns == found.record.generation:
                return found, descriptor
            os.close(descriptor)
        raise Refusal(503, "backendError", f"{bucket}/{name} is being written; try again.")


def settable(fields: dict[str, Any]) -> dict[str, Any]:
    """What of a client's document is kept."""
    return {key: value for key, value in fields.items() if key in SETTABLE and value is not None}


def _check_name(name: str) -> None:
    if not name or name in (".", "..") or "\n" in name or "\r" in name:
        raise invalid(f"{name!r} is not the name of an object.")
    if len(name.encode()) > LONGEST_NAME:
        raise invalid(f"An object's name has at most {LONGEST_NAME} bytes.")
