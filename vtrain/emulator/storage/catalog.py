"""Metadata of buckets and objects, in one SQLite database. Its write lock is the lock of all buckets."""

from __future__ import annotations

import base64
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from vtrain.errors import StorageError

DATABASE = "objects.db"
BUSY_SECONDS = 30.0
_TABLES = """
    CREATE TABLE IF NOT EXISTS buckets (name TEXT PRIMARY KEY, document BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS objects (
        bucket TEXT NOT NULL, name TEXT NOT NULL, aside INTEGER NOT NULL, document BLOB NOT NULL,
        PRIMARY KEY (bucket, name)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS aside ON objects (bucket, name) WHERE aside;
"""


class BucketRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A bucket's metadata. Times are in ns since the epoch; `fields` are those that clients set.

    `policy` is the IAM policy that a client has set, the one of that number.
    """

    created: int
    updated: int
    metageneration: int = 1
    fields: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    policy_number: int = 0


class ObjectRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An object's metadata, true for the file of that generation (its modification time in ns) and size.

    Times are in ns since the epoch; `fields` are those that clients set. `md5` is empty for a
    file that was not written by this API, and for a composed object; `crc32c` until it was computed.
    """

    generation: int
    size: int
    created: int
    updated: int
    crc32c: str
    md5: str = ""
    metageneration: int = 1
    components: int = 0
    fields: dict[str, Any] = {}


def etag_of(*numbers: int) -> str:
    """A text that changes whenever one of the numbers does."""
    return base64.b64encode("/".join(map(str, numbers)).encode()).decode()


class Catalog:
    """The records of all buckets and objects. May be used from several threads and processes.

    Raises StorageError when it cannot be opened.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = threading.RLock()
        try:
            self._connection = _connect(folder / DATABASE)
        except sqlite3.Error as error:
            raise StorageError(f"Cannot open {folder / DATABASE}: {error}.") from error
        # Unlike `__del__`, it always runs before the connection's own finalizer, which warns of an open one.
        weakref.finalize(self, self._connection.close)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction in which no one else changes a bucket or an object. Reentrant in its thread."""
        with self._lock:
            if self._connection.in_transaction:
                yield
                return
            self._execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                if self._connection.in_transaction:  # SQLite ends it itself where the disk is full
                    self._execute("ROLLBACK")
                raise
            self._execute("COMMIT")

    def bucket(self, name: str) -> BucketRecord | None:
        """A bucket's record."""
        rows = self._execute("SELECT document FROM buckets WHERE name = ?", (name,))
        return msgspec.json.decode(rows[0][0], type=BucketRecord) if rows else None

    def save_bucket(self, name: str, record: BucketRecord) -> None:
        """Write a bucket's record."""
        self._execute("INSERT OR REPLACE INTO buckets VALUES (?, ?)", (name, msgspec.json.encode(record)))

    def remove_bucket(self, name: str) -> None:
        """Remove the records of a bucket and of its objects."""
        self._execute("DELETE FROM buckets WHERE name = ?", (name,))
        self._execute("DELETE FROM objects WHERE bucket = ?", (name,))

    def object(self, bucket: str, name: str) -> ObjectRecord | None:
        """An object's record, whether or not its file is still the same."""
        rows = self._execute("SELECT document FROM objects WHERE bucket = ? AND name = ?", (bucket, name))
        return msgspec.json.decode(rows[0][0], type=ObjectRecord) if rows else None

    def save_object(self, bucket: str, name: str, record: ObjectRecord, *, aside: bool) -> None:
        """Write an object's record; `aside` says that its name is not a path in the bucket."""
        values = (bucket, name, aside, msgspec.json.encode(record))
        self._execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", values)

    def remove_object(self, bucket: str, name: str) -> None:
        """Remove an object's record."""
        self._execute("DELETE FROM objects WHERE bucket = ? AND name = ?", (bucket, name))

    def names_aside(self, bucket: str, start: str) -> tuple[str, ...]:
        """The names of a bucket's objects that are not paths in its folder, from `start` on, in order."""
        query = "SELECT name FROM objects WHERE bucket = ? AND aside AND name >= ? ORDER BY name"
        return tuple(row[0] for row in self._execute(query, (bucket, start)))

    def _execute(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        with self._lock:
            return self._connection.execute(statement, values).fetchall()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.executescript(_TABLES)
    except BaseException:
        connection.close()
        raise
    return connection
