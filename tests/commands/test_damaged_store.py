"""A store with one entry, or all of it, that cannot be read: the commands say so, and keep what is there."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from vtrain.runtime.database import DATABASE
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.store import Record, Store

COUNT = 20
NAME = "projects/local/locations/us-central1/customJobs/{}"
DAMAGED = 7
DOCUMENTS = [
    b"",
    b"{",
    b"[]",
    b"\xff\xfe\x00{}",
    b'{"jobSpec": 3}',
    b'{"jobSpec": {"workerPoolSpecs": [1]}}',
    b'{"createTime": {}, "replicas": 3}',
    b"{}",
    b'{"name": "%s"}' % NAME.format(DAMAGED).encode(),
    b'{"name": "%s", "state": "DANCING"}' % NAME.format(DAMAGED).encode(),
    b'{"name": "%s", "state": "JOB_STATE_SUCCEEDED"}' % NAME.format(DAMAGED + 1).encode(),
    b'{"name": "%s", "state": "JOB_STATE_RUNNING"}' % NAME.format(DAMAGED).encode(),
    17,
]


def furnish(home: Path) -> None:
    """A store with ended jobs, each with a folder."""
    store = Store.open(home)
    for number in range(COUNT):
        name = NAME.format(number)
        document = {
            "name": name,
            "displayName": f"job {number}",
            "state": "JOB_STATE_SUCCEEDED",
            "createTime": "2026-01-01T00:00:00Z",
            "jobSpec": {"workerPoolSpecs": [{"pythonPackageSpec": {"pythonModule": "this"}}]},
            "labels": {"filling": "x" * 60, "a": "b"},
        }
        record = Record(
            name=name,
            collection="customJobs",
            state="JOB_STATE_SUCCEEDED",
            create_time="2026-01-01T00:00:00Z",
            end_time="2026-01-01T00:00:01Z",
            backend="process",
            document=json.dumps(document),
        )
        store.insert(record)
        logs = JobFolder(home / "jobs" / str(number)).logs
        logs.mkdir(parents=True)
        (logs / "workerpool0-0.0.log").write_text("kept\n")
    store.close()


@pytest.fixture
def furnished(vtrain_home: Path) -> Path:
    furnish(vtrain_home)
    return vtrain_home


def damage(home: Path, document: object) -> None:
    """Put something else in the place of one job's document."""
    with closing(sqlite3.connect(home / DATABASE)) as connection, connection:
        value = "CAST(? AS TEXT)" if isinstance(document, bytes) else "?"
        connection.execute(
            f"UPDATE resources SET document = {value} WHERE name = ?",
            (document, NAME.format(DAMAGED)),
        )


@pytest.mark.parametrize("document", DOCUMENTS, ids=repr)
def test_one_entry_is_named_and_the_others_are_listed(vtrain, furnished: Path, document: object) -> None:
    damage(furnished, document)
    name = NAME.format(DAMAGED)
    listed = vtrain("custom-jobs", "list", "--format=value(name)")
    assert listed.code == 0
    assert listed.out.split() == [NAME.format(n) for n in reversed(range(COUNT)) if n != DAMAGED]
    assert listed.err.count("WARNING") == 1
    warning = f"The entry of {name} in the store is damaged: that job is not listed."
    assert warning in " ".join(listed.err.split())
    described = vtrain("custom-jobs", "describe", name)
    assert (described.code, described.out) == (1, "")
    assert f"ERROR: The entry of {name} in the store is damaged" in described.err
    assert "vtrain custom-jobs delete" in described.err
    cancelled = vtrain("custom-jobs", "cancel", name)
    assert "Traceback" not in cancelled.err and name in cancelled.err
    waited = vtrain("custom-jobs", "wait", name)
    assert (waited.code, waited.out) == (1, "")
    assert "is damaged" in waited.err
    assert vtrain("gc", "--dry-run", "--older-than=1d").code == 0
    assert vtrain("custom-jobs", "delete", name).code == 0
    assert not (furnished / "jobs" / str(DAMAGED)).exists()
    again = vtrain("custom-jobs", "list", "--format=value(name)")
    assert (again.code, len(again.out.split())) == (0, COUNT - 1)
    assert "WARNING" not in again.err


def test_a_filter_and_a_key_meet_a_damaged_entry(vtrain, furnished: Path) -> None:
    damage(furnished, b"{")
    listed = vtrain("custom-jobs", "list", "--filter=labels.a=b", "--sort-by=name", "--format=value(name)")
    assert (listed.code, len(listed.out.split())) == (0, COUNT - 1)
    assert Store.open(furnished).page("customJobs", size=99, token="", labels={"a": "b"})[1] == ""


def test_a_living_job_with_a_damaged_entry_can_be_ended(vtrain, furnished: Path) -> None:
    """Its folder cannot be read either, so that nothing can be known of it."""
    damage(furnished, b"{")
    name = NAME.format(DAMAGED)
    with closing(sqlite3.connect(furnished / DATABASE)) as connection, connection:
        connection.execute("UPDATE resources SET state = 'JOB_STATE_RUNNING' WHERE name = ?", (name,))
    assert vtrain("custom-jobs", "list").code == 0
    described = vtrain("custom-jobs", "describe", name, "--format=value(state)")
    assert described.out == "JOB_STATE_FAILED\n"
    assert vtrain("custom-jobs", "delete", name).code == 0


def test_a_job_of_which_neither_column_nor_document_tells_a_state_is_deleted(vtrain, furnished: Path) -> None:
    damage(furnished, b"{}")
    name = NAME.format(DAMAGED)
    with closing(sqlite3.connect(furnished / DATABASE)) as connection, connection:
        connection.execute("UPDATE resources SET state = 'DANCING' WHERE name = ?", (name,))
    assert vtrain("custom-jobs", "delete", name).code == 0
    assert not (furnished / "jobs" / str(DAMAGED)).exists()


VERBS: dict[str, list[str]] = {
    "list": ["custom-jobs", "list", "--format=value(name)"],
    "filter": ["custom-jobs", "list", "--filter=labels.a=b", "--format=value(name)"],
    "describe": ["custom-jobs", "describe", NAME.format(3)],
    "cancel": ["custom-jobs", "cancel", NAME.format(3)],
    "logs": ["custom-jobs", "stream-logs", NAME.format(3)],
    "gc": ["gc", "--dry-run", "--older-than=36500d"],
    "delete": ["custom-jobs", "delete", NAME.format(4)],
}


def check_refused(vtrain, home: Path) -> int:
    """Every command either works or ends with one sentence; the folders are kept. How many were refused."""
    refused = 0
    for verb, argv in VERBS.items():
        ended = vtrain(*argv)
        assert "Traceback" not in ended.err and "unexpectedly" not in ended.err, (verb, ended.err)
        # 12: the job can be read, and its state is unknown
        assert ended.code in (0, 1, 12), (verb, ended.err)
        if ended.code == 1:
            refused += 1
            assert ended.err.count("ERROR: ") == 1, (verb, ended.err)
    kept = {path.name for path in (home / "jobs").iterdir()}
    assert kept >= {str(number) for number in range(COUNT) if number != 4}
    return refused


def test_fifty_stores_damaged_at_random_offsets(
    vtrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish(tmp_path / "whole")
    whole = (tmp_path / "whole" / DATABASE).read_bytes()
    chance = random.Random("store.db")
    refused = 0
    for number in range(50):
        home = Path(shutil.copytree(tmp_path / "whole", tmp_path / f"home{number}"))
        data = bytearray(whole)
        kind, offset = number % 3, chance.randrange(len(whole) if number % 2 else 4096)
        if kind == 0:
            del data[offset:]
        elif kind == 1:
            data[offset : offset + 512] = chance.randbytes(512)
        else:
            data[offset] ^= 1 << chance.randrange(8)
        (home / DATABASE).write_bytes(data)
        monkeypatch.setenv("VTRAIN_HOME", str(home))
        refused += bool(check_refused(vtrain, home))
    assert refused >= 20


def replaced_by_a_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def overwritten(path: Path) -> None:
    path.write_bytes(b"this is no database" * 500)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:6000])


@pytest.mark.parametrize("change", [replaced_by_a_folder, emptied, overwritten, cut])
def test_a_store_that_is_no_store(vtrain, furnished: Path, change: Callable[[Path], None]) -> None:
    change(furnished / DATABASE)
    for verb in ("list", "cancel", "gc"):
        ended = vtrain(*VERBS[verb])
        assert (ended.code, ended.out) == (1, "")
        assert f"ERROR: {furnished / DATABASE} is damaged: " in ended.err
        assert "Move store.db* away, or choose another folder with VTRAIN_HOME." in " ".join(
            ended.err.split()
        )
    assert len(list((furnished / "jobs").iterdir())) == COUNT


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_folder_in_the_place_of_a_file_beside_the_store(vtrain, furnished: Path, suffix: str) -> None:
    (furnished / f"{DATABASE}{suffix}").mkdir()
    ended = vtrain(*VERBS["list"])
    assert (ended.code, ended.out) == (1, "")
    assert f"is damaged: {DATABASE}{suffix} is not a file." in ended.err
    assert check_refused(vtrain, furnished) == len(VERBS)


def test_a_log_of_writes_that_is_damaged(vtrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite takes what is whole of it; what is not is lost, and the folders of those jobs are kept."""
    chance = random.Random("wal")
    furnish(tmp_path / "whole")
    for number in range(5):
        home = Path(shutil.copytree(tmp_path / "whole", tmp_path / f"home{number}"))
        holder = sqlite3.connect(home / DATABASE)  # while it is open, the log of writes stays
        store = Store.open(home)
        store.update(NAME.format(1), state="JOB_STATE_FAILED", end_time="", document="{}")
        wal = home / f"{DATABASE}-wal"
        data = bytearray(wal.read_bytes())
        offset = chance.randrange(len(data))
        data[offset : offset + 64] = chance.randbytes(64)
        for file, content in ((wal, bytes(data)), (home / f"{DATABASE}-shm", chance.randbytes(32768))):
            file.write_bytes(content)
        monkeypatch.setenv("VTRAIN_HOME", str(home))
        check_refused(vtrain, home)
        store.close()
        holder.close()
