"""Stores of other versions: an older one is brought up to date in one piece, a newer one is refused."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from vtrain.errors import StorageError
from vtrain.runtime import database
from vtrain.runtime.database import DATABASE
from vtrain.runtime.store import Record, Store

FIRST = """
CREATE TABLE resources (
    name TEXT PRIMARY KEY, collection TEXT NOT NULL, state TEXT NOT NULL, create_time TEXT NOT NULL,
    end_time TEXT NOT NULL, backend TEXT NOT NULL, document TEXT NOT NULL
);
CREATE INDEX resources_by_collection ON resources (collection);
CREATE TABLE requests (
    name TEXT NOT NULL, verb TEXT NOT NULL, time REAL NOT NULL, PRIMARY KEY (name, verb)
);
INSERT INTO resources VALUES ('projects/local/locations/us-central1/customJobs/1', 'customJobs',
    'JOB_STATE_SUCCEEDED', '2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z', 'process', '{}');
PRAGMA user_version = 1;
"""
"""What version 0.1.0 wrote. It never changes."""
NAME = "projects/local/locations/us-central1/customJobs/1"
OPEN = """
import sys
from pathlib import Path
from vtrain.runtime.store import Store
store = Store.open(Path(sys.argv[1]))
print(store.get(sys.argv[2]).state)
"""


def version_of(home: Path) -> int:
    connection = sqlite3.connect(home / DATABASE)
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return version


@pytest.fixture
def old_home(tmp_path: Path) -> Path:
    connection = sqlite3.connect(tmp_path / DATABASE)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.executescript(FIRST)
    connection.close()
    return tmp_path


def test_an_older_store_keeps_what_it_had(old_home: Path) -> None:
    store = Store.open(old_home)
    assert store.get(NAME).end_time == "2026-01-02T00:00:00Z"
    store.request(NAME, "cancel")
    store.delete(NAME)
    assert store.requests(NAME) == frozenset()
    assert version_of(old_home) == len(database._MIGRATIONS) > 1


SECOND = """
CREATE TABLE leases (
    name TEXT PRIMARY KEY, memory_bytes INTEGER NOT NULL, is_admitted INTEGER NOT NULL,
    devices TEXT NOT NULL
);
PRAGMA user_version = 2;
"""
"""What the next version added."""
KEYED = (
    ("FAILED", "us-central1", "k"),
    ("RUNNING", "us-central1", "k"),
    ("SUCCEEDED", "us-central1", "k"),
    ("RUNNING", "europe-west4", "k"),
    ("CANCELLED", "us-central1", "k"),
    ("RUNNING", "us-central1", "other"),
    ("RUNNING", "us-central1", ""),
)


def test_several_jobs_with_one_key_of_an_older_version(old_home: Path) -> None:
    """The oldest of those that count keeps the key; nothing else is lost, and the index holds from now on."""
    connection = sqlite3.connect(old_home / DATABASE)
    connection.executescript(SECOND)
    for number, (state, location, key) in enumerate(KEYED, 2):
        name = f"projects/local/locations/{location}/customJobs/{number}"
        document = json.dumps({"labels": {"vtrain-idempotency-key": key}} if key else {})
        values = (name, "customJobs", f"JOB_STATE_{state}", "2026", "", "process", document)
        connection.execute("INSERT INTO resources VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    connection.execute("UPDATE resources SET document = '{' WHERE name = ?", (NAME,))
    connection.commit()
    connection.close()
    store = Store.open(old_home)
    assert [row[0] for row in store.query("SELECT key FROM resources ORDER BY rowid")] == [
        *["", "k", "k", "", "k", "k", "other", ""]
    ]
    places = store.query("SELECT DISTINCT project, location FROM resources ORDER BY location")
    assert places == [("local", "europe-west4"), ("local", "us-central1")]
    later = msgspec.structs.replace(store.get(f"{NAME[:-1]}3"), name=f"{NAME[:-1]}99")
    assert store.holder_of(later) == f"{NAME[:-1]}3"
    with pytest.raises(StorageError, match="UNIQUE"):
        store.insert(later)
    store.update(f"{NAME[:-1]}3", state="JOB_STATE_FAILED", end_time="", document="{}")
    assert store.holder_of(later) == ""
    store.insert(later)
    keyed = store.page("customJobs", size=9, token="", labels={"vtrain-idempotency-key": "k"})[0]
    assert [record.name.rpartition("/")[2] for record in keyed] == ["99", "6", "5", "3", "2"]


def test_several_processes_bring_it_up_to_date_at_once(old_home: Path) -> None:
    argv = [sys.executable, "-c", OPEN, str(old_home), NAME]
    crew = [subprocess.Popen(argv, stdout=subprocess.PIPE) for _ in range(5)]
    assert {one.communicate(timeout=120)[0] for one in crew} == {b"JOB_STATE_SUCCEEDED\n"}


def test_an_update_that_fails_changes_nothing(old_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = (*database._MIGRATIONS, "CREATE TABLE more (name TEXT); CREATE TABLE resources (name TEXT);")
    with monkeypatch.context() as patched:
        patched.setattr(database, "_MIGRATIONS", steps)
        with pytest.raises(StorageError, match="already exists"):
            Store.open(old_home)
    assert version_of(old_home) == 1
    assert Store.open(old_home).get(NAME).state == "JOB_STATE_SUCCEEDED"


def test_a_newer_store_is_refused_and_left_alone(old_home: Path, vtrain, monkeypatch) -> None:
    Store.open(old_home).close()
    connection = sqlite3.connect(old_home / DATABASE)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    before = (old_home / DATABASE).read_bytes()
    monkeypatch.setenv("VTRAIN_HOME", str(old_home))
    for argv in (["list"], ["describe", NAME], ["delete", NAME]):
        ended = vtrain("custom-jobs", *argv)
        assert (ended.code, ended.out) == (1, "")
        assert "was written by a newer vtrain (version 99 of its tables)" in ended.err
        assert "Update vtrain, or choose another folder with VTRAIN_HOME." in ended.err
    assert (old_home / DATABASE).read_bytes() == before


def test_the_living_and_the_ended(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    for number, state, ended in ((1, "FAILED", "2026-01-05T00:00:00Z"), (2, "QUEUED", ""), (3, "FAILED", "")):
        store.insert(
            Record(
                name=f"{NAME[:-1]}{number}",
                collection="customJobs",
                state=f"JOB_STATE_{state}",
                create_time="2026-01-02T00:00:00Z",
                end_time=ended,
                backend="process",
                document="{}",
            )
        )
    assert [record.name[-1] for record in store.living()] == ["2"]
    assert [record.name[-1] for record in store.ended_before("2026-01-04T00:00:00Z")] == ["3"]
    assert [record.name[-1] for record in store.ended_before("2026-02-01T00:00:00Z")] == ["1", "3"]
    assert store.ids("customJobs") == {"1", "2", "3"}


def test_nothing_is_requested_of_what_is_gone(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.request(NAME, "cancel")
    assert store.query("SELECT * FROM requests") == []
