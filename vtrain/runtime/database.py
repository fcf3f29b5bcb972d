"""Opens the database in vtrain's home, or makes it, and turns its errors into sentences."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG

from vtrain.errors import DamagedError, HomeError, StorageError
from vtrain.privacy import FILE_MODE
from vtrain.retry import wait_until

DATABASE = "store.db"
SHARED_BYTES = 32 * 1024
SQLITE_SUFFIXES = ("-wal", "-shm", "-journal")
"""The endings that SQLite appends to the name of a database for the files that lie beside it."""
BUSY_SECONDS = 10.0
"""The longest wait for a database that another process has locked."""
BEGINNING_SECONDS = 0.5
"""The time for which an empty file may be a store that another process has just created."""

_ELSEWHERE = "Choose another folder with VTRAIN_HOME."
_FREE = "Free some space and try again."
_DAMAGE = (
    "not a database",
    "malformed",
    "no such table",
    "no such column",
    "unsupported file format",
    "has no column",
    "out of memory",
    "too big",
)
"""Words in SQLite's errors for a damaged file. A damaged length may ask for any amount of memory."""

SCHEMA_VERSION = 9
"""Changes with the tables, and with the files of jobs. A store of any other version is refused."""
_SCHEMA = """
    CREATE TABLE resources (
        name TEXT PRIMARY KEY, collection TEXT NOT NULL, state TEXT NOT NULL, create_time TEXT NOT NULL,
        end_time TEXT NOT NULL, backend TEXT NOT NULL, document TEXT NOT NULL, project TEXT NOT NULL,
        location TEXT NOT NULL, key TEXT NOT NULL
    );
    CREATE UNIQUE INDEX resources_by_key ON resources (collection, project, location, key) WHERE key != ''
        AND state NOT IN
            ('JOB_STATE_FAILED', 'JOB_STATE_CANCELLING', 'JOB_STATE_CANCELLED', 'JOB_STATE_EXPIRED');
    CREATE INDEX resources_by_project ON resources (collection, project);
    CREATE INDEX resources_by_location ON resources (collection, project, location);
    CREATE INDEX resources_by_state ON resources (state);
    CREATE TABLE requests (
        name TEXT NOT NULL, verb TEXT NOT NULL, time REAL NOT NULL, PRIMARY KEY (name, verb)
    );
    CREATE TABLE leases (
        name TEXT PRIMARY KEY, memory_bytes INTEGER NOT NULL, is_admitted INTEGER NOT NULL,
        devices TEXT NOT NULL, line TEXT NOT NULL, slots TEXT NOT NULL
    );
    CREATE TABLE models (
        name TEXT NOT NULL, version INTEGER NOT NULL, project TEXT NOT NULL, location TEXT NOT NULL,
        is_default INTEGER NOT NULL, training_pipeline TEXT NOT NULL, document TEXT NOT NULL,
        PRIMARY KEY (name, version)
    );
    CREATE TABLE model_counts (name TEXT PRIMARY KEY, last INTEGER NOT NULL);
    CREATE TABLE persistent_resources (
        name TEXT PRIMARY KEY, project TEXT NOT NULL, location TEXT NOT NULL, document TEXT NOT NULL,
        preload TEXT NOT NULL
    );
"""


def open_database(home: Path) -> tuple[sqlite3.Connection, bool]:
    """Open the database of an existing home, or make it. True if it is read-only.

    Call it within `storage_errors`. Raises HomeError for a database of another version.
    """
    path = home / DATABASE
    is_new = not path.exists()
    read_only = not is_new and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
    if is_new:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE))
    _check_files(path, is_new=is_new)
    try:
        return _opened(path, home, read_only=read_only), read_only
    except sqlite3.OperationalError:
        if read_only or not _is_full(home) or _has_log(path):
            raise
    return _opened(path, home, read_only=True), True  # a full disk has no room for the log of writes


def _check_files(path: Path, *, is_new: bool) -> None:
    """Raise DamagedError for files that SQLite would misread and report as another problem."""
    for file in (path, *(path.with_name(path.name + suffix) for suffix in SQLITE_SUFFIXES)):
        try:
            is_file = S_ISREG(file.stat().st_mode)  # one call: the last user removes these files
        except FileNotFoundError:
            continue
        if not is_file:
            raise damaged_error(path, f"{file.name} is not a file")

    def has_content() -> bool:
        return path.stat().st_size > 0 or _has_log(path) or not any(path.parent.glob("jobs/[!.]*"))

    # A process that creates a store writes its first bytes a moment later: an empty file is looked at again.
    if not is_new and not wait_until(has_content, BEGINNING_SECONDS):
        raise damaged_error(path, "it is empty, although there are jobs")


def _opened(path: Path, home: Path, *, read_only: bool) -> sqlite3.Connection:
    uri = path.absolute().as_uri() + ("?mode=ro" if read_only else "")
    # A read-only database without a WAL file has no writer. SQLite opens it only as immutable, because it
    # could not make the files that it shares with writers.
    if read_only and not _has_log(path):
        uri += "&immutable=1"
    # Garbage collection may close it in another thread.
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    # Bytes of a damaged row must not keep the other rows from being read.
    connection.text_factory = lambda data: data.decode(errors="replace")
    try:
        has_schema = _has_schema(connection, home)
        if read_only and not has_schema:
            raise read_only_error(home)
        if not read_only:
            connection.execute("PRAGMA synchronous=FULL")
        if not has_schema:
            connection.execute("PRAGMA journal_mode=WAL")
            with connection:  # a kill in the middle changes nothing
                connection.execute("BEGIN EXCLUSIVE")
                if not _has_schema(connection, home):  # another process may have been faster
                    for statement in _SCHEMA.split(";"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection


def has_store(home: Path) -> bool:
    """Whether there is a store in that home. Raises HomeError without the permission to look."""
    with storage_errors(home):
        try:
            (home / DATABASE).stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except PermissionError as error:
            raise HomeError(f"vtrain cannot use {home}: {error.strerror}.", hint=_ELSEWHERE) from error
        return True


def _has_log(path: Path) -> bool:
    """Whether the WAL file has writes that are not in the database file yet."""
    try:
        return path.with_name(f"{DATABASE}-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


def _has_schema(connection: sqlite3.Connection, home: Path) -> bool:
    """Whether the database has vtrain's tables; False for an empty one. Raises HomeError for any other."""
    # One statement sees one state: another process may make the tables just now.
    version, is_empty = connection.execute(
        "SELECT user_version, NOT EXISTS (SELECT * FROM sqlite_master) FROM pragma_user_version"
    ).fetchone()
    if version != SCHEMA_VERSION and (version or not is_empty):
        raise HomeError(
            f"The store in {home} has version {version}; this vtrain reads only version {SCHEMA_VERSION}.",
            hint=f"Choose another folder with VTRAIN_HOME, or move {home} away.",
        )
    return bool(version)


def read_only_error(home: Path) -> StorageError:
    """The error for a home in which nothing can be written."""
    if _is_full(home):
        return _full_error(home)
    return StorageError(f"vtrain cannot write to {home}.", hint=_ELSEWHERE)


def damaged_error(path: Path, reason: str) -> DamagedError:
    """The error for a store that SQLite cannot read. The folders of the jobs lie beside it, untouched."""
    return DamagedError(
        f"{path} is damaged: {reason}.",
        hint=f"Move {path.name}* away, or choose another folder with VTRAIN_HOME. "
        f"Without it vtrain begins a new store. Logs and files of the jobs stay in {path.parent / 'jobs'} "
        "until vtrain gc finds them old; jobs that run go on, and no command shows them.",
    )


def _full_error(home: Path) -> StorageError:
    return StorageError(f"The disk that holds {home} is full.", hint=_FREE)


@contextmanager
def storage_errors(home: Path) -> Iterator[None]:
    """Turn the errors of SQLite and of the disk into StorageError."""
    try:
        yield
    except UnicodeDecodeError as error:  # a message of SQLite quotes damaged bytes
        raise damaged_error(home / DATABASE, "SQLite cannot read it") from error
    except OSError as error:
        if lacks_room(error):
            raise _full_error(home) from error
        place, why = error.filename or home, error.strerror or error
        raise StorageError(f"vtrain cannot use {place}: {why}.", hint=_ELSEWHERE) from error
    except sqlite3.Error as error:
        raise _sqlite_error(home, error) from error


def _sqlite_error(home: Path, error: sqlite3.Error) -> StorageError:
    text = str(error)
    if "full" in text or ("I/O error" in text and _is_full(home)):
        return _full_error(home)
    if any(sign in text for sign in _DAMAGE):
        return damaged_error(home / DATABASE, text)
    if "locked" in text:
        return StorageError(f"The store in {home} is in use and stayed locked.", hint="Try again.")
    if "readonly" in text or "unable to open" in text:
        return read_only_error(home)
    return StorageError(f"The store in {home} failed: {text or type(error).__name__}.", hint=_ELSEWHERE)


def lacks_room(fault: BaseException) -> bool:
    """Whether the disk or its quota is full."""
    return isinstance(fault, OSError) and fault.errno in (errno.ENOSPC, errno.EDQUOT)


def _is_full(home: Path) -> bool:
    """Whether the disk has no room for SQLite's shared memory file. SQLite calls that an I/O error."""
    try:
        disk = os.statvfs(home)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < SHARED_BYTES
