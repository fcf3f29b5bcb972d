"""The logs of many replicas: all of them are read, in the order of their times, with few files open."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lib.stored_jobs import add_job

from vtrain.backends import BackendSettings
from vtrain.backends.registry import open_backend
from vtrain.messages import states
from vtrain.messages.log import LogEntry, LogQuery
from vtrain.runtime.folder import JobFolder, write_struct
from vtrain.runtime.log.log_reader import ChildLogs, read_logs
from vtrain.runtime.process.journal import STDOUT, JournalWriter

REPLICAS = 320
ROUNDS = 3


def name_of(number: int) -> str:
    return f"workerpool{number and 1}-{max(number - 1, 0)}"


def write_all(logs: Path, count: int = REPLICAS, *, last: bytes = b"", attempt: int = 0) -> None:
    """A line of each replica in each round, one after the other; then `last` of each."""
    logs.mkdir(parents=True, exist_ok=True)
    writers = []
    with few_files(count * 2 + 200):
        for number in range(count):
            writers.append(JournalWriter(str(logs / name_of(number)), attempt))
        for turn in range(ROUNDS):
            for number, writer in enumerate(writers):
                writer.write(b"%d of %d\n" % (turn, number), STDOUT)
        for writer in writers:
            if last:
                writer.write(last, STDOUT)
            writer.close()


@contextmanager
def few_files(count: int) -> Iterator[None]:
    """This process may have that many files open meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


EXPECTED = [b"%d of %d" % (turn, number) for turn in range(ROUNDS) for number in range(REPLICAS)]


def lines(entries: list[LogEntry]) -> list[bytes]:
    return [line for entry in entries for line in entry.payload.split(b"\n")]


@pytest.mark.parametrize("limit", [2**20, 1000])
@pytest.mark.parametrize("ended", [True, False])
def test_every_replica_is_read_in_the_order_of_the_times(tmp_path: Path, limit: int, *, ended: bool) -> None:
    write_all(tmp_path)
    entries: list[LogEntry] = []
    cursor, more = "", True
    opened = len([*Path("/dev/fd").iterdir()])
    with few_files(256):
        while more:
            page = read_logs(tmp_path, LogQuery(name="x", cursor=cursor, limit=limit), ended=ended)
            assert page.trouble == ""
            assert page.entries or not page.more
            entries += page.entries
            cursor, more = page.cursor, page.more
        last = read_logs(tmp_path, LogQuery(name="x", cursor=cursor, limit=limit), ended=ended)
    assert lines(entries) == EXPECTED
    assert (last.entries, last.more) == ((), False)
    assert len([*Path("/dev/fd").iterdir()]) == opened


def test_lines_without_an_end_keep_nobody_from_being_read(tmp_path: Path) -> None:
    """As of progress bars, while the job runs; the same for the trials of a study."""
    write_all(tmp_path / "1" / "logs", last=b"50 %")
    study = tmp_path / "2" / "logs"
    study.mkdir(parents=True)
    children = [ChildLogs(folder=tmp_path / "1" / "logs", key="task")]
    for folder, parts in ((tmp_path / "1" / "logs", ()), (study, children)):
        first = read_logs(folder, LogQuery(name="x", limit=2**20), ended=False, children=parts)
        assert sorted(lines(list(first.entries))) == sorted(EXPECTED)
        query = LogQuery(name="x", limit=2**20, cursor=first.cursor)
        again = read_logs(folder, query, ended=False, children=parts)
        assert (again.entries, again.more) == ((), False)
        ended = read_logs(folder, query, ended=True, children=parts)
        assert lines(list(ended.entries)) == [b"50 %"] * REPLICAS


@pytest.mark.parametrize("number", [-1, -(2**63), 2**63, 2**70])
def test_a_cursor_with_any_numbers_is_read(tmp_path: Path, number: int) -> None:
    writer = JournalWriter(str(tmp_path / "workerpool0-0"))
    writer.write(b"one\ntwo", STDOUT)
    writer.close()
    line = [number, 0, number, number, 1, 0, False, number]
    before = [b"one", b"two"] if number < 0 else []
    cut = "" if number < 0 else "The log of workerpool0-0 was cut or replaced: lines may be missing."
    for place, found, trouble in (
        ([0, 0, number, number, {}], before, ""),
        ([0, 0, 1, 4, {"1": line}], [], ""),
        ([number, number, 0, 0, {}], before, cut),
    ):
        cursor = json.dumps({"workerpool0-0": place})
        page = read_logs(tmp_path, LogQuery(name="x", cursor=cursor), ended=True)
        assert ([entry.payload for entry in page.entries], page.trouble) == (found, trouble), place


LISTED: list[str] = []
"""The folders that were listed while `listed_folders` counts."""
_counts = [False]


@contextmanager
def listed_folders() -> Iterator[list[str]]:
    """The folders that are listed in the block. A hook for audits cannot be taken away again."""
    if not LISTED:
        sys.addaudithook(_note_listing)
    LISTED[:] = ["the hook is there"]
    _counts[0] = True
    try:
        yield LISTED
    finally:
        _counts[0] = False
        del LISTED[0]


def _note_listing(event: str, values: tuple[object, ...]) -> None:
    if _counts[0] and event in ("os.scandir", "os.listdir"):
        LISTED.append(str(values[0]))


def test_a_quiet_poll_lists_no_folder_of_a_replica(tmp_path: Path) -> None:
    """As of progress bars: a line without an end has each replica looked at again."""
    job = JobFolder(tmp_path / "1")
    write_all(job.logs, 50, last=b"50 %", attempt=1)
    for number in range(50):
        job.replica(name_of(number), 1).path.mkdir(parents=True)
    first = read_logs(job.logs, LogQuery(name="x", limit=2**20), ended=False)
    query = LogQuery(name="x", limit=2**20, cursor=first.cursor)
    with listed_folders() as listed:
        quiet = read_logs(job.logs, query, ended=False)
    assert (quiet.entries, listed) == ((), [str(job.logs)])
    write_struct(job.replica(name_of(7), 1).path / "exit.json", {})
    for number, attempt in ((8, 2), (9, 2), (9, 3)):
        job.replica(name_of(number), attempt).path.mkdir(parents=True)
    ended = read_logs(job.logs, query, ended=False)
    assert [entry.task_name for entry in ended.entries] == [name_of(number) for number in (7, 8, 9)]


def test_what_a_backend_answers_has_the_last_replica(vtrain_home: Path) -> None:
    """Commands, the dashboard, the emulator and the library all ask this."""
    name = add_job(vtrain_home, "1234567890123456789", "many", state=states.SUCCEEDED)
    write_all(JobFolder(vtrain_home / "jobs" / "1234567890123456789").logs)
    settings = BackendSettings(home=vtrain_home, project="local", region="us-central1")
    backend = open_backend("process", settings)
    with few_files(256):
        page = backend.logs(LogQuery(name=name, limit=2**20))
        assert lines(list(page.entries)) == EXPECTED
        last = name_of(REPLICAS - 1)
        own = backend.logs(LogQuery(name=name, task_name=last, limit=2**20))
    assert lines(list(own.entries)) == [b"%d of %d" % (turn, REPLICAS - 1) for turn in range(ROUNDS)]
