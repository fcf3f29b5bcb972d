"""A home that version 0.1.0 wrote: what ended there is read, and what runs there is taken over."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from local_jobs import PRIMARY, ended, folder_of, kill_supervisor, lines, submit, supervisor_of, until
from test_process import scripted, snippet_job

from vtrain.backends import Query
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.runtime.database import DATABASE
from vtrain.runtime.store import Store
from vtrain.testing.script import Script

ORDERED = "home name job backend base_env grace_seconds source_folder container engine".split()
"""What the order of a job told then."""
EXIT = "code started ended signal message oom stopped log_lost_bytes".split()
OLDER_TABLE = """
CREATE TABLE older (
    name TEXT PRIMARY KEY, collection TEXT NOT NULL, state TEXT NOT NULL, create_time TEXT NOT NULL,
    end_time TEXT NOT NULL, backend TEXT NOT NULL, document TEXT NOT NULL
);
INSERT INTO older SELECT name, collection, state, create_time, end_time, backend, document FROM resources;
DROP TABLE resources;
ALTER TABLE older RENAME TO resources;
CREATE INDEX resources_by_collection ON resources (collection);
"""
KNOWN = "spec.json lock wake supervisor.log replicas.json decision.json logs replicas".split()


def make_older(home: Path, name: str) -> None:
    """Let the job look as that version would have left it at this point."""
    folder = folder_of(home, name).path
    for path in folder.iterdir():
        if path.name not in KNOWN:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    keep(folder / "spec.json", ORDERED)
    for end in folder.glob("replicas/*/exit.json"):
        keep(end, EXIT)
    with closing(sqlite3.connect(home / DATABASE)) as connection, connection:
        make_tables_older(connection, name)


def make_tables_older(connection: sqlite3.Connection, name: str) -> None:
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in set(tables) - {"resources", "requests"}:
        connection.execute(f"DROP TABLE {table}")
    connection.executescript(OLDER_TABLE)
    (document,) = connection.execute("SELECT document FROM resources WHERE name = ?", (name,)).fetchone()
    older = {key: value for key, value in json.loads(document).items() if key != "replicas"}
    connection.execute("UPDATE resources SET document = ? WHERE name = ?", (json.dumps(older), name))
    connection.execute("PRAGMA user_version = 1")


def keep(file: Path, names: list[str]) -> None:
    """Leave only these fields in a file."""
    document = json.loads(file.read_bytes())
    file.write_text(json.dumps({name: document[name] for name in names if name in document}))


def fresh(backend: LocalBackend) -> LocalBackend:
    """The same home as the next command opens it."""
    return open_backend("process", backend._settings)


def test_what_has_ended(process_backend: LocalBackend, home: Path) -> None:
    name = submit(process_backend, scripted(Script().write("before\n").exit(7)))
    ended(process_backend, name)
    until(lambda: supervisor_of(folder_of(home, name)) == 0)
    make_older(home, name)
    later = fresh(process_backend)
    assert [job.name for job in later.list(Query()).jobs] == [name]
    assert later.get(name).state == states.FAILED
    assert lines(later, name) == ["before"]
    later.cancel(name)
    later.delete(name)
    assert later.list(Query()).jobs == ()
    assert list((home / "jobs").iterdir()) == []


def waiting_job(folder: Path, go: Path) -> CustomJob:
    """Two replicas that write a line, and another one once the file is there."""
    code = f"""
import pathlib, time
print("before", flush=True)
while not pathlib.Path({str(go)!r}).exists():
    time.sleep(0.05)
print("after")
"""
    return snippet_job(folder, code, pools=2)


def test_what_runs_without_its_supervisor(process_backend: LocalBackend, home: Path, tmp_path: Path) -> None:
    name = submit(process_backend, waiting_job(tmp_path / "code", tmp_path / "go"))
    until(lambda: process_backend.get(name).state == states.RUNNING)
    until(lambda: lines(process_backend, name) == ["before"])
    kill_supervisor(folder_of(home, name))
    make_older(home, name)
    later = fresh(process_backend)
    until(lambda: later.get(name).state == states.RUNNING and supervisor_of(folder_of(home, name)) > 0)
    (tmp_path / "go").touch()
    assert ended(later, name).state == states.SUCCEEDED
    assert lines(later, name, PRIMARY) == ["before", "after"]


def test_what_has_no_supervisor_and_no_replicas_yet(
    process_backend: LocalBackend, home: Path, tmp_path: Path
) -> None:
    name = submit(process_backend, waiting_job(tmp_path / "code", tmp_path / "go"))
    folder = folder_of(home, name)
    until(lambda: process_backend.get(name).state == states.RUNNING)
    kill_supervisor(folder)
    process_backend.cancel(name)
    assert ended(process_backend, name).state == states.CANCELLED
    until(lambda: supervisor_of(folder) == 0)
    make_submitted(home, name)
    (tmp_path / "go").touch()
    later = fresh(process_backend)
    assert ended(later, name).state == states.SUCCEEDED


def make_submitted(home: Path, name: str) -> None:
    """Let the job look as if nothing had happened to it since it was submitted."""
    folder = folder_of(home, name).path
    for entry in ("replicas", "logs"):
        shutil.rmtree(folder / entry)
    (folder / "logs").mkdir()
    for entry in ("replicas.json", "decision.json"):
        (folder / entry).unlink()
    Store.open(home).update(name, state=states.PENDING, end_time="", document=submitted(folder))
    with closing(sqlite3.connect(home / DATABASE)) as connection, connection:
        connection.execute("DELETE FROM requests")
    make_older(home, name)


def submitted(folder: Path) -> str:
    """The job's document as it was stored first."""
    return json.dumps(json.loads((folder / "spec.json").read_bytes())["job"])
