"""The local store: one SQLite database under home that holds every resource."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from vtrain.errors import NotFoundError, StorageError
from vtrain.messages.missing import missing_hint
from vtrain.messages.names import parse_name

DATABASE = "store.db"
BUSY_SECONDS = 10.0

_MIGRATIONS = (
    """
    CREATE TABLE resources (
        name TEXT PRIMARY KEY, collection TEXT NOT NULL, state TEXT NOT NULL, create_time TEXT NOT NULL,
        end_time TEXT NOT NULL, backend TEXT NOT NULL, document TEXT NOT NULL
    );
    CREATE INDEX resources_by_collection ON resources (collection);
    CREATE TABLE requests (
        name TEXT NOT NULL, verb TEXT NOT NULL, time REAL NOT NULL, PRIMARY KEY (name, verb)
    );
    """,
)
"""Each brings the database from the version of its position to the next. Never edit one; append."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One resource: its document is the API's JSON; the other fields are there to select by."""

    name: str
    collection: str
    state: str
    create_time: str
    backend: str
    document: str
    end_time: str = ""


_FIELDS = "name, collection, state, create_time, end_time, backend, document"


class Store:
    """An open store. Every method raises StorageError when the disk or the database refuses."""

    def __init__(self, connection: sqlite3.Connection, home: Path) -> None:
        self._connection = connection
        self._home = home

    @classmethod
    def open(cls, home: Path) -> Store:
        """The store of that home, made if it is not there; fast when it is.

        Raises StorageError also for a store that a newer vtrain has written.
        """
        with storage_errors(home):
            if not home.is_dir():
                home.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = home / DATABASE
            if not path.exists():
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
            connection.execute("PRAGMA synchronous=FULL")
            store = cls(connection, home)
            store._migrate()
            return store

    def close(self) -> None:
        """Let the database go."""
        self._connection.close()

    def __del__(self) -> None:
        self._connection.close()

    def insert(self, record: Record) -> None:
        """Add a resource; on return it survives a power cut."""
        values = (record.name, record.collection, record.state, record.create_time, record.end_time)
        self._execute(
            f"INSERT INTO resources ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*values, record.backend, record.document),
        )

    def get(self, name: str) -> Record:
        """The resource of that name. Raises NotFoundError."""
        rows = self._execute(f"SELECT {_FIELDS} FROM resources WHERE name = ?", (name,))
        if not rows:
            raise not_found(name)
        return _record(rows[0])

    def update(self, name: str, *, state: str, end_time: str, document: str) -> None:
        """Write a resource's new state. Raises NotFoundError."""
        with storage_errors(self._home):
            changed = self._connection.execute(
                "UPDATE resources SET state = ?, end_time = ?, document = ? WHERE name = ?",
                (state, end_time, document, name),
            ).rowcount
        if not changed:
            raise not_found(name)

    def page(
        self,
        collection: str,
        prefix: str,
        *,
        size: int,
        token: str,
        labels: Mapping[str, str] | None = None,
    ) -> tuple[list[Record], str]:
        """Resources with `labels` and names that begin with `prefix`, newest first; the next page's token."""
        wanted = labels or {}
        labelled = " AND json_extract(document, ?) = ?" * len(wanted)
        rows = self._execute(
            f"SELECT rowid, {_FIELDS} FROM resources WHERE collection = ?"
            f" AND substr(name, 1, ?) = ?{labelled} AND rowid < ? ORDER BY rowid DESC LIMIT ?",
            (
                *(collection, len(prefix), prefix),
                *(part for key, value in wanted.items() for part in (f'$.labels."{key}"', value)),
                *(int(token or 2**62), size + 1),
            ),
        )
        more = len(rows) > size
        return [_record(row[1:]) for row in rows[:size]], str(rows[size - 1][0]) if more else ""

    def delete(self, name: str) -> None:
        """Remove a resource and what was requested of it."""
        with storage_errors(self._home), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("DELETE FROM resources WHERE name = ?", (name,))
            self._connection.execute("DELETE FROM requests WHERE name = ?", (name,))

    def request(self, name: str, verb: str) -> None:
        """Leave a request for the job's supervisor: `cancel` or `delete`. Asking twice is asking once."""
        self._execute(
            "INSERT OR IGNORE INTO requests (name, verb, time) VALUES (?, ?, ?)", (name, verb, time.time())
        )

    def requests(self, name: str) -> frozenset[str]:
        """The verbs that have been requested."""
        rows = self._execute("SELECT verb FROM requests WHERE name = ?", (name,))
        return frozenset(row[0] for row in rows)

    def _execute(self, statement: str, values: tuple[object, ...]) -> list[tuple[str, ...]]:
        with storage_errors(self._home):
            return self._connection.execute(statement, values).fetchall()

    def _migrate(self) -> None:
        version = self._version()
        if version == len(_MIGRATIONS):
            return
        if version > len(_MIGRATIONS):
            raise StorageError(
                f"The store in {self._home} was written by a newer vtrain (version {version} of its tables).",
                hint="Update vtrain, or choose another folder with VTRAIN_HOME.",
            )
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("BEGIN EXCLUSIVE")
        for position in range(self._version(), len(_MIGRATIONS)):
            for statement in _MIGRATIONS[position].split(";"):
                self._connection.execute(statement)
        self._connection.execute(f"PRAGMA user_version={len(_MIGRATIONS)}")
        self._connection.execute("COMMIT")

    def _version(self) -> int:
        version: int = self._connection.execute("PRAGMA user_version").fetchone()[0]
        return version


def _record(row: tuple[str, ...]) -> Record:
    name, collection, state, create_time, end_time, backend, document = row
    return Record(
        name=name,
        collection=collection,
        state=state,
        create_time=create_time,
        end_time=end_time,
        backend=backend,
        document=document,
    )


def not_found(name: str) -> NotFoundError:
    """The error for a name that the store does not have."""
    full = parse_name(name)
    return NotFoundError(f"There is no {name}.", hint=missing_hint(full) if full else "")


@contextmanager
def storage_errors(home: Path) -> Iterator[None]:
    """Turn what SQLite and the disk say into StorageError."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise _storage_error(home, error) from error


def _storage_error(home: Path, error: Exception) -> StorageError:
    text = str(error)
    elsewhere = "Choose another folder with VTRAIN_HOME."
    if "full" in text or "No space" in text:
        return StorageError(f"The disk that holds {home} is full.", hint="Free some space and try again.")
    if "not a database" in text or "malformed" in text:
        return StorageError(
            f"{home / DATABASE} is damaged: {text}.", hint="Move it away, or choose another VTRAIN_HOME."
        )
    if "locked" in text:
        return StorageError(f"The store in {home} is in use and stayed locked.", hint="Try again.")
    if "readonly" in text or "unable to open" in text:
        return StorageError(f"vtrain cannot write to {home}.", hint=elsewhere)
    if isinstance(error, OSError) and error.strerror:
        return StorageError(f"vtrain cannot use {error.filename or home}: {error.strerror}.", hint=elsewhere)
    return StorageError(f"The store in {home} failed: {text}.", hint=elsewhere)
