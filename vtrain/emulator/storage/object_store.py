"""Objects are read, written, changed and removed; each change is one transaction."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from vtrain.emulator.storage.bucket_store import BucketStore, merge
from vtrain.emulator.storage.catalog import Catalog, ObjectRecord
from vtrain.emulator.storage.object_files import BucketFolders, ObjectFile, Partial, file_crc32c
from vtrain.emulator.storage.storage_refusals import Conditions, StorageRefusal, invalid, no_bucket, no_object

_TEXTS = "cacheControl contentDisposition contentEncoding contentLanguage contentType customTime storageClass"
SETTABLE: dict[str, tuple[type, str]] = {
    **dict.fromkeys(_TEXTS.split(), (str, "a text")),
    **dict.fromkeys(("eventBasedHold", "temporaryHold"), (bool, "true or false")),
    **dict.fromkeys(("metadata", "retention"), (dict, "an object")),
}
"""Fields of an object that clients set, with the JSON type that the API gives them."""
LONGEST_NAME = 1024
"""Bytes of an object's name."""
MOST_COMPONENTS = 32
"""Objects that one request composes."""
_OPEN_ATTEMPTS = 5
"""Attempts to open an object that is replaced at the same moment."""


class StoredObject(msgspec.Struct, frozen=True, kw_only=True):
    """An existing object, its file and its metadata."""

    bucket: str
    name: str
    file: ObjectFile
    record: ObjectRecord


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """An object that is copied or composed into another. A generation of None is the present one."""

    bucket: str
    name: str
    generation: int | None = None
    conditions: Conditions = Conditions()


class ObjectStore:
    """The objects of one home."""

    def __init__(
        self, folders: BucketFolders, catalog: Catalog, buckets: BucketStore, partials: Path
    ) -> None:
        self._folders = folders
        self._catalog = catalog
        self._buckets = buckets
        self._partials = partials

    def open_partial(self, bucket: str) -> Partial:
        """A partial file for the content of a new object.

        Raises StorageRefusal where there is no such bucket.
        """
        if not self._buckets.exists(bucket):
            raise no_bucket(bucket)
        return Partial(self._partials)

    def check(self, bucket: str, name: str, conditions: Conditions) -> None:
        """Raise StorageRefusal unless an object of that name could be written now."""
        if not name or name in (".", "..") or "\n" in name or "\r" in name:
            raise invalid(f"{name!r} is not the name of an object.")
        if len(name.encode()) > LONGEST_NAME:
            raise invalid(f"An object's name has at most {LONGEST_NAME} bytes.")
        if not self._buckets.exists(bucket):
            raise no_bucket(bucket)
        conditions.check(*self._generations(bucket, name))

    def get(
        self, bucket: str, name: str, conditions: Conditions, generation: int | None = None
    ) -> StoredObject:
        """An object as it is now.

        Raises StorageRefusal, with 304 where the reader has this generation already.
        """
        found = self.find(bucket, name)
        if found is None or generation not in (None, found.record.generation):
            if not self._buckets.exists(bucket):
                raise no_bucket(bucket)
            raise no_object(bucket, name)
        conditions.check(found.record.generation, found.record.metageneration, reading=True)
        return found

    def find(self, bucket: str, name: str, *, needs_checksum: bool = True) -> StoredObject | None:
        """An object and its metadata. For a file that was not written by this API, metadata is computed.

        Of such a file the checksum is read from all its bytes, unless it is not needed.
        """
        for _ in range(_OPEN_ATTEMPTS):
            file = self._folders.find(bucket, name) if self._buckets.exists(bucket) else None
            if file is None:
                return None
            with suppress(FileNotFoundError):  # it has just gone, or is a folder now
                record = self._valid_record(bucket, name, file)
                if record is None:
                    found = _unknown_record(file)
                    record = self._with_checksum(bucket, name, file, found) if needs_checksum else found
                return StoredObject(bucket=bucket, name=name, file=file, record=record)
        return None

    def _valid_record(self, bucket: str, name: str, file: ObjectFile) -> ObjectRecord | None:
        """The catalog's record, if the file still has its generation and size."""
        record, status = self._catalog.object(bucket, name), file.status()
        same = record is not None and (record.generation, record.size) == (status.st_mtime_ns, status.st_size)
        return record if same else None

    def _with_checksum(self, bucket: str, name: str, file: ObjectFile, found: ObjectRecord) -> ObjectRecord:
        """Compute the checksum of a file that was not written by this API, and keep its record."""
        record = replace(found, crc32c=file_crc32c(file))
        with self._catalog.writing():
            known = self._valid_record(bucket, name, file)  # a writer saved it meanwhile
            if known is not None:
                return known
            after = file.status()
            if (after.st_mtime_ns, after.st_size) == (record.generation, record.size):
                self._catalog.save_object(bucket, name, record, aside=file.is_aside)
        return record

    def _generations(self, bucket: str, name: str) -> tuple[int, int]:
        """The present generation and metageneration; zeros where there is no object."""
        file = self._folders.find(bucket, name)
        if file is None:
            return 0, 0
        record = self._valid_record(bucket, name, file)
        return (record.generation, record.metageneration) if record else (file.status().st_mtime_ns, 1)

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
        """Make an object of received content. `fields` is the object's document as the client wrote it.

        Raises StorageRefusal where checksums or conditions do not hold, and for a bad name or bucket.
        """
        partial.check(fields)
        kept = settable(fields)
        with self._catalog.writing():
            self.check(bucket, name, conditions)
            generation = max(time.time_ns(), self._generations(bucket, name)[0] + 1)
            file = self._folders.prepare_file(bucket, name)
            status = partial.move_to(file, generation)
            record = ObjectRecord(
                generation=status.st_mtime_ns,
                size=status.st_size,
                created=generation,
                updated=generation,
                crc32c=partial.crc32c,
                md5="" if components else partial.md5,
                components=components,
                fields=kept,
            )
            self._catalog.save_object(bucket, name, record, aside=file.is_aside)
            if not file.is_aside:
                self._folders.aside(bucket, name).remove()
        return StoredObject(bucket=bucket, name=name, file=file, record=record)

    def patch(
        self, bucket: str, name: str, changes: dict[str, Any], conditions: Conditions, *, whole: bool = False
    ) -> StoredObject:
        """Change metadata. A null removes a field; `whole` removes all fields not named.

        Raises StorageRefusal.
        """
        # Computes a missing checksum before the lock is taken.
        self.get(bucket, name, Conditions())
        with self._catalog.writing():
            found = self.get(bucket, name, Conditions())
            record = found.record
            conditions.check(record.generation, record.metageneration)
            wanted = _checked(changes)
            changed = replace(
                record,
                fields=settable(changes) if whole else merge(record.fields, wanted),
                metageneration=record.metageneration + 1,
                updated=time.time_ns(),
            )
            self._catalog.save_object(bucket, name, changed, aside=found.file.is_aside)
        return replace(found, record=changed)

    def remove(self, bucket: str, name: str, conditions: Conditions, generation: int | None = None) -> None:
        """Remove an object. Raises StorageRefusal."""
        with self._catalog.writing():
            file = self._folders.find(bucket, name) if self._buckets.exists(bucket) else None
            standing = self._generations(bucket, name)
            if file is None or generation not in (None, standing[0]):
                raise no_object(bucket, name)
            conditions.check(*standing)
            file.remove()
            self._folders.aside(bucket, name).remove()
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
        """Make an object of others. Without `fields` it has those of the first. Raises StorageRefusal."""
        found = [self.get(s.bucket, s.name, s.conditions, s.generation) for s in sources]
        components = sum(max(part.record.components, 1) for part in found) if composed else 0
        with self.open_partial(bucket) as partial:
            partial.write_files(part.file for part in found)
            document = found[0].record.fields if fields is None else fields
            return self.put(bucket, name, partial, document, conditions, components=components)

    def open(
        self, bucket: str, name: str, conditions: Conditions, generation: int | None = None
    ) -> tuple[StoredObject, int]:
        """An object, and a file descriptor of its content.

        Raises StorageRefusal, with 503 if it keeps changing.
        """
        for _ in range(_OPEN_ATTEMPTS):
            found = self.get(bucket, name, conditions, generation)
            with suppress(FileNotFoundError), found.file.open() as file:
                if os.fstat(file.fileno()).st_mtime_ns == found.record.generation:
                    return found, os.dup(file.fileno())
        raise StorageRefusal(503, "backendError", f"{bucket}/{name} is being written; try again.")


def _unknown_record(file: ObjectFile) -> ObjectRecord:
    """The metadata of a file that was not written by this API, but for its checksum."""
    status = file.status()
    return ObjectRecord(
        generation=status.st_mtime_ns,
        size=status.st_size,
        created=status.st_mtime_ns,
        updated=status.st_mtime_ns,
        crc32c="",
        fields={"contentType": "application/octet-stream"},
    )


def settable(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a client's document that are kept. Raises StorageRefusal for values of a wrong type."""
    return {key: value for key, value in _checked(fields).items() if value is not None}


def _checked(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that clients set; a null is a field to remove. Raises StorageRefusal."""
    wanted = {key: value for key, value in fields.items() if key in SETTABLE}
    for key, value in wanted.items():
        cls, expected = SETTABLE[key]
        if value is not None and not isinstance(value, cls):
            raise invalid(f"{key} is {expected}.")
    for key, value in (wanted.get("metadata") or {}).items():
        if value is not None and not isinstance(value, str):
            raise invalid(f"metadata.{key[:100]} is a text.")
    return wanted
