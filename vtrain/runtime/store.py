"""The local store: one SQLite database in vtrain's home, with a row for each resource."""

from __future__ import annotations

import sqlite3
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from vtrain.atomic import remove_folder
from vtrain.errors import ConflictError, NotFoundError
from vtrain.messages import states
from vtrain.messages.names import (
    CHILD_LABELS,
    CUSTOM_JOBS,
    HYPERPARAMETER_TUNING_JOBS,
    KEY_LABEL,
    PIPELINE_LABEL,
    TRIAL_LABEL,
    missing_hint,
    parse_name,
)
from vtrain.privacy import secure_home
from vtrain.runtime.database import open_database, read_only_error, storage_errors
from vtrain.runtime.folder import JobFolder


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One resource. Its document is the JSON of the API; the other fields serve queries.

    Two resources of one project and location never have the same idempotency `key`, unless they failed.
    """

    name: str
    collection: str
    state: str
    create_time: str
    backend: str
    document: str
    end_time: str = ""
    key: str = ""


class Named(msgspec.Struct, frozen=True):
    """The fields by which users name and recognise a resource."""

    name: str
    display_name: str
    state: str
    create_time: str


HAS_ENDED = f"state IN ({', '.join(repr(state) for state in sorted(states.ENDED))})"
"""Whether a row's job has ended."""
_DISPLAY_NAME = (
    "CASE WHEN json_valid(document) THEN coalesce(json_extract(document, '$.displayName'), '') ELSE '' END"
)
_IS_CHILD = (
    "CASE WHEN json_valid(document) THEN"
    f" coalesce(json_extract(document, '$.labels.\"{TRIAL_LABEL}\"'),"
    f" json_extract(document, '$.labels.\"{PIPELINE_LABEL}\"')) IS NOT NULL ELSE FALSE END"
)
"""Whether another job runs this one: it is a trial, or the task of a training pipeline."""
CHILDREN = (CUSTOM_JOBS, HYPERPARAMETER_TUNING_JOBS)
_HAS_LABEL = "CASE WHEN json_valid(document) THEN json_extract(document, ?) END = ?"
_FIELDS = "name, collection, state, create_time, end_time, backend, document, key"


class Store:
    """An open store. Every method raises StorageError when the disk or the database refuses.

    Only one thread at a time may use it.
    """

    def __init__(self, connection: sqlite3.Connection, home: Path, *, read_only: bool = False) -> None:
        self._connection = connection
        # Unlike `__del__`, it always runs before the connection's own finalizer, which warns of an open one.
        weakref.finalize(self, connection.close)
        self.home = home
        self.read_only = read_only

    @classmethod
    def open(cls, home: Path) -> Store:
        """Open the store of a home, or make it. A store that cannot be written is opened for reading.

        Raises StorageError, also for a home of another user, and for a store of another version.
        """
        with storage_errors(home):
            secure_home(home)
            connection, read_only = open_database(home)
            return cls(connection, home, read_only=read_only)

    def check_writable(self) -> None:
        """Raise StorageError if the store is read-only, or another process keeps it locked for too long."""
        if self.read_only:
            raise read_only_error(self.home)
        with self.transaction():
            return

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def insert(self, record: Record) -> None:
        """Add a resource. On return it survives a power cut, except within a transaction."""
        project, location = _place(record.name)
        values = (record.name, record.collection, record.state, record.create_time, record.end_time)
        self.execute(
            f"INSERT INTO resources ({_FIELDS}, project, location) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, record.backend, record.document, record.key, project, location),
        )

    def holder_of(self, record: Record) -> str:
        """The name of the resource that has the key of `record` in its place, or an empty text."""
        marks = ", ".join("?" * len(states.UNSUCCESSFUL))
        rows = self.execute(
            "SELECT name FROM resources WHERE collection = ? AND project = ? AND location = ?"
            f" AND key = ? AND key != '' AND state NOT IN ({marks})",
            (record.collection, *_place(record.name), record.key, *states.UNSUCCESSFUL),
        )
        return rows[0][0] if rows else ""

    def get(self, name: str) -> Record:
        """The resource of that name. Raises NotFoundError."""
        found = self._select("name = ?", name)
        if not found:
            raise not_found(name)
        return found[0]

    def update(self, name: str, *, state: str, end_time: str, document: str) -> None:
        """Write a resource's new state. Raises NotFoundError."""
        with storage_errors(self.home):
            changed = self._connection.execute(
                "UPDATE resources SET state = ?, end_time = ?, document = ? WHERE name = ?",
                (state, end_time, document, name),
            ).rowcount
        if not changed:
            raise not_found(name)

    def page(
        self,
        collection: str,
        *,
        size: int,
        token: str,
        project: str = "",
        location: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> tuple[list[Record], str]:
        """A page of resources that have `labels`, newest first, and the token of the next page.

        Empty `project` and `location` match all.
        """
        places = {"collection": collection, "project": project, "location": location}
        wanted = {column: value for column, value in places.items() if value}
        conditions = [f"{column} = ?" for column in wanted]
        values = [*wanted.values()]
        for label, value in (labels or {}).items():
            conditions.append("key = ?" if label == KEY_LABEL else _HAS_LABEL)
            values += [value] if label == KEY_LABEL else [f'$.labels."{label}"', value]
        rows = self.execute(
            f"SELECT rowid, {_FIELDS} FROM resources WHERE {' AND '.join(conditions)}"
            " AND rowid < ? ORDER BY rowid DESC LIMIT ?",
            (*values, int(token or 2**62), size + 1),
        )
        more = len(rows) > size
        return [_record(row[1:]) for row in rows[:size]], str(rows[size - 1][0]) if more else ""

    def trials(self, name: str) -> list[str]:
        """The names of the jobs of a tuning job's trials; none for any other job."""
        full = parse_name(name)
        return self.children(name) if full and full.collection == HYPERPARAMETER_TUNING_JOBS else []

    def children(self, name: str) -> list[str]:
        """The names of the jobs that a tuning job or a training pipeline runs; none for any other job."""
        full = parse_name(name)
        if full is None or full.collection not in CHILD_LABELS:
            return []
        rows = self.execute(
            f"SELECT name FROM resources WHERE collection IN (?, ?) AND {_HAS_LABEL} ORDER BY rowid",
            (*CHILDREN, f'$.labels."{CHILD_LABELS[full.collection]}"', full.id),
        )
        return [str(row[0]) for row in rows]

    def living(self) -> list[Record]:
        """Resources that have not ended, the earliest first."""
        return self._select(f"NOT {HAS_ENDED}")

    def ended_before(self, moment: str) -> list[Record]:
        """Resources that ended before a moment in RFC 3339, the earliest first."""
        return self._select(f"{HAS_ENDED} AND coalesce(nullif(end_time, ''), create_time) < ?", moment)

    def created_since(self, moment: str) -> list[Record]:
        """Resources that were created at a moment in RFC 3339 or later, the earliest first."""
        return self._select("create_time >= ?", moment)

    def _select(self, condition: str, *values: str) -> list[Record]:
        """The resources that meet a condition, the earliest first."""
        rows = self.execute(f"SELECT {_FIELDS} FROM resources WHERE {condition} ORDER BY rowid", values)
        return [_record(row) for row in rows]

    def named(self, collections: Sequence[str], word: str, *, location: str, limit: int) -> list[Named]:
        """Resources whose id begins with `word`, or whose display name is `word`.

        The resource with exactly that id comes first, then the newest. Without a word, all but trials and the
        tasks of pipelines. An empty location matches all.
        """
        whole, places = f"%/{word}", ", ".join("?" * len(collections))
        rows = self.execute(
            f"SELECT name, {_DISPLAY_NAME} AS display_name, state, create_time FROM resources"
            f" WHERE collection IN ({places}) AND (? = '' OR location = ?)"
            f" AND (? = '' AND NOT {_IS_CHILD} OR display_name = ? OR ? AND name LIKE ?)"
            " ORDER BY name LIKE ? AND ? DESC, rowid DESC LIMIT ?",
            (
                *(*collections, location, location),
                *(word, word or None, word.isdecimal(), f"{whole}%"),
                *(whole, word.isdecimal(), limit),
            ),
        )
        return [Named(*map(str, row)) for row in rows]

    def ids(self, collection: str) -> frozenset[str]:
        """The ids of a collection's resources."""
        rows = self.execute("SELECT name FROM resources WHERE collection = ?", (collection,))
        return frozenset(row[0].rpartition("/")[2] for row in rows)

    def backends(self, collections: Sequence[str]) -> dict[str, str]:
        """The backend of each resource of these collections, by its name."""
        places = ", ".join("?" * len(collections))
        rows = self.execute(
            f"SELECT name, backend FROM resources WHERE collection IN ({places})", tuple(collections)
        )
        return {str(name): str(backend) for name, backend in rows}

    def annotate(self, name: str, field: str, value: str) -> None:
        """Add a field to the document of an ended resource. Does nothing if it was deleted."""
        self.execute(
            "UPDATE resources SET document = json_set(document, ?, ?)"
            " WHERE name = ? AND json_valid(document)",
            (f"$.{field}", value, name),
        )

    def delete(self, name: str) -> bool:
        """Remove a resource with its requests and its lease. False if it was not there."""
        with self.transaction() as connection:
            tables = ("resources", "requests", "leases")
            counts = [connection.execute(f"DELETE FROM {t} WHERE name = ?", (name,)).rowcount for t in tables]
        return counts[0] > 0

    def request(self, name: str, verb: str) -> None:
        """Leave a request for the job's supervisor: `cancel` or `kill`. A second one changes nothing.

        Does nothing for a resource that was deleted meanwhile.
        """
        self.execute(
            "INSERT OR IGNORE INTO requests (name, verb, time)"
            " SELECT name, ?, ? FROM resources WHERE name = ?",
            (verb, time.time(), name),
        )

    def requests(self, name: str) -> frozenset[str]:
        """The verbs that have been requested."""
        rows = self.execute("SELECT verb FROM requests WHERE name = ?", (name,))
        return frozenset(row[0] for row in rows)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Statements that take effect together, or not at all. No other process writes meanwhile."""
        with storage_errors(self.home), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[str, ...]]:
        """Run one statement; the rows that it finds."""
        with storage_errors(self.home):
            return self._connection.execute(statement, values).fetchall()


def _record(row: tuple[str, ...]) -> Record:
    """A row of `_FIELDS` as a record. A damaged row may hold values of any type."""
    return Record(**dict(zip(_FIELDS.split(", "), map(str, row), strict=True)))


def _place(name: str) -> tuple[str, str]:
    """The project and location of a resource."""
    full = parse_name(name)
    return (full.project, full.location) if full is not None else ("", "")


def not_found(name: str) -> NotFoundError:
    """The error for a name that the store does not have."""
    full = parse_name(name)
    if full is None:
        return NotFoundError(f"There is no {name}.")
    return NotFoundError(f"Job {full.id} not found.", hint=missing_hint(full))


def delete_job(store: Store, name: str, folder: JobFolder) -> bool:
    """Remove an ended job: its trials, its folder, then its row. After a kill in the middle, call it again.

    False if another process removed the row at the same time. Raises StorageError if the disk refuses, and
    ConflictError where a trial has not ended.
    """
    store.check_writable()
    for trial in store.trials(name):
        with suppress(NotFoundError):  # another process removes them
            if not states.has_ended(store.get(trial).state):
                raise ConflictError(
                    f"{name} can be deleted once its job {trial.rpartition('/')[2]} has ended.",
                    hint=f"Cancel that: vtrain custom-jobs cancel {trial}",
                )
    for trial in store.trials(name):
        delete_job(store, trial, JobFolder(folder.path.with_name(trial.rpartition("/")[2])))
    with storage_errors(folder.path.parents[1]):
        remove_folder(folder.path)
    return store.delete(name)
