"""Buckets: folders below `buckets/`, made by this API, by a job, or by the user."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from vtrain.emulator.storage.catalog import BucketRecord, Catalog, etag_of
from vtrain.emulator.storage.object_files import BucketFolders
from vtrain.emulator.storage.storage_refusals import Conditions, StorageRefusal, invalid, no_bucket
from vtrain.staging import is_bucket_name

FIXED_FIELDS = frozenset(
    "kind id selfLink name projectNumber metageneration etag timeCreated updated locationType".split()
)
"""Fields that the service itself writes."""
_RESERVED = re.compile(r"^goog|g[o0][o0]g[l1]e")
FIXED_ON_PATCH = FIXED_FIELDS | {"location"}


class Binding(msgspec.Struct):
    """The members that have a role. Source: `Policy` of the JSON API of Cloud Storage."""

    role: str
    members: list[str] = []
    condition: dict[str, Any] | None = None


class Policy(msgspec.Struct):
    """An IAM policy, as a client sets it."""

    bindings: list[Binding] = []
    version: int = 1


class BucketStore:
    """The buckets of one home."""

    def __init__(self, folders: BucketFolders, catalog: Catalog) -> None:
        self._folders = folders
        self._catalog = catalog

    def create(self, name: str, fields: dict[str, Any]) -> BucketRecord:
        """Make a bucket. Raises StorageRefusal for a bad name, and for one that is taken."""
        check_bucket_name(name)
        now = time.time_ns()
        location = str(fields.get("location") or "US").upper()
        kept = {key: value for key, value in fields.items() if key not in FIXED_FIELDS}
        record = BucketRecord(created=now, updated=now, fields={**kept, "location": location})
        with self._catalog.writing():
            if self.exists(name):
                raise StorageRefusal(409, "conflict", f"There is a bucket {name!r} already.")
            try:
                self._folders.bucket(name).mkdir(parents=True)
            except FileExistsError:
                raise StorageRefusal(
                    409, "conflict", f"Something else has the place of bucket {name!r}."
                ) from None
            self._catalog.save_bucket(name, record)
        return record

    def get(self, name: str) -> BucketRecord:
        """A bucket's metadata, with defaults for a folder that this API did not make.

        Raises StorageRefusal.
        """
        if not self.exists(name):
            raise no_bucket(name)
        record = self._catalog.bucket(name)
        if record is None:
            made = self._folders.bucket(name).stat().st_mtime_ns
            record = BucketRecord(created=made, updated=made, fields={"location": "US"})
        return record

    def exists(self, name: str) -> bool:
        """Whether there is a bucket of that name."""
        return self._folders.has_bucket(name)

    def names(self) -> Iterator[str]:
        """The names of all buckets, in order."""
        if self._folders.buckets.is_dir():
            folders = sorted(path.name for path in self._folders.buckets.iterdir())
            yield from (name for name in folders if self.exists(name))

    def patch(self, name: str, changes: dict[str, Any], conditions: Conditions) -> BucketRecord:
        """Change metadata. A null removes a field. Raises StorageRefusal."""
        wanted = {key: value for key, value in changes.items() if key not in FIXED_ON_PATCH}
        with self._catalog.writing():
            record = self.get(name)
            conditions.check(0, record.metageneration)
            changed = replace(
                record,
                fields=merge(record.fields, wanted),
                metageneration=record.metageneration + 1,
                updated=time.time_ns(),
            )
            self._catalog.save_bucket(name, changed)
        return changed

    def set_policy(self, name: str, policy: dict[str, Any]) -> BucketRecord:
        """Replace the IAM policy.

        Raises StorageRefusal for another shape, and for the etag of an earlier one.
        """
        kept = {key: value for key, value in policy.items() if key in ("bindings", "version")}
        try:
            msgspec.convert(kept, Policy, strict=True)
        except msgspec.ValidationError as error:
            raise invalid(f"The policy is not one of IAM: {error}.") from None
        with self._catalog.writing():
            record = self.get(name)
            if policy.get("etag") not in (None, "", etag_of(record.policy_number)):
                raise StorageRefusal(412, "conditionNotMet", "The policy was changed since it was read.")
            changed = replace(
                record,
                policy=kept,
                policy_number=record.policy_number + 1,
                metageneration=record.metageneration + 1,
                updated=time.time_ns(),
            )
            self._catalog.save_bucket(name, changed)
        return changed

    def remove(self, name: str, conditions: Conditions) -> None:
        """Remove an empty bucket. Raises StorageRefusal."""
        with self._catalog.writing():
            conditions.check(0, self.get(name).metageneration)
            not_empty = StorageRefusal(409, "conflict", f"The bucket {name!r} is not empty.")
            if self._catalog.names_aside(name, ""):
                raise not_empty
            try:
                self._folders.remove(name)
            except OSError:
                raise not_empty from None
            self._catalog.remove_bucket(name)


def merge(fields: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A document after a JSON merge patch (RFC 7396)."""
    merged = dict(fields)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def check_bucket_name(name: str) -> None:
    """Raise StorageRefusal for a name that no new bucket may have."""
    if not is_bucket_name(name) or _RESERVED.search(name):
        raise invalid(f"{name!r} is not the name of a bucket.")
