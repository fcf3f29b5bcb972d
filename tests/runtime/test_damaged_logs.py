"""Logs that somebody else has cut, removed, replaced or damaged: reading ends, and says what is missing."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vtrain.messages.log import LogEntry, LogQuery
from vtrain.runtime.log.log_reader import read_logs, read_tail
from vtrain.runtime.log.segments import newest_records
from vtrain.runtime.process import journal as journal_module
from vtrain.runtime.process.journal import (
    INDEX_SUFFIX,
    RAW_SUFFIX,
    RECORD,
    STDERR,
    STDOUT,
    JournalWriter,
    pack_record,
    segment_numbers,
)

TASK = "workerpool0-0"
PAGES = 10_000
"""More than any of these logs has."""


@pytest.fixture(autouse=True)
def _always_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here waits for a writer's next look at its files."""
    monkeypatch.setattr(journal_module, "LOOK_SECONDS", 0.0)


class Reader:
    """A follower of a folder's logs."""

    def __init__(self, folder: Path, *, raw: bool = False, partial: bool = False, limit: int = 2**22) -> None:
        self.folder = folder
        self.query = LogQuery(name="x", raw=raw, partial=partial, limit=limit)
        self.cursor = ""
        self.entries: list[LogEntry] = []
        self.troubles: set[str] = set()

    def read(self, *, ended: bool = False) -> list[bytes]:
        """The payloads since the last time."""
        found: list[LogEntry] = []
        for _ in range(PAGES):
            query = LogQuery(
                name="x",
                cursor=self.cursor,
                raw=self.query.raw,
                partial=self.query.partial,
                limit=self.query.limit,
            )
            page = read_logs(self.folder, query, ended=ended)
            self.cursor = page.cursor
            self.troubles |= {page.trouble} - {""}
            if not page.entries:
                self.entries += found
                return [entry.payload for entry in found]
            found += page.entries
        raise AssertionError("the log has no end")


def journal_of(folder: Path, attempt: int = 0, *, lines: int = 0) -> JournalWriter:
    journal = JournalWriter(str(folder / TASK), attempt)
    for number in range(lines):
        journal.write(b"line %d\n" % number, STDERR if number % 3 == 0 else STDOUT)
    return journal


def raw_of(folder: Path) -> Path:
    return folder / f"{TASK}.{newest(folder)}{RAW_SUFFIX}"


def index_of(folder: Path) -> Path:
    return folder / f"{TASK}.{newest(folder)}{INDEX_SUFFIX}"


def newest(folder: Path) -> int:
    """The number of the newest segment; of the first where there is none yet."""
    return max(segment_numbers(str(folder / TASK)), default=0)


def raw_bytes(folder: Path) -> bytes:
    """All segments, one after the other."""
    numbers = segment_numbers(str(folder / TASK))
    return b"".join((folder / f"{TASK}.{number}{RAW_SUFFIX}").read_bytes() for number in numbers)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def rename(path: Path) -> None:
    path.rename(path.with_name(path.name + ".1"))


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def replace(path: Path) -> None:
    """By a larger file of something else."""
    other = path.with_name("other")
    other.write_bytes(random.Random(1).randbytes(100_000))
    other.rename(path)


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(random.Random(2).randbytes(path.stat().st_size))


DAMAGES = [empty, halve, Path.unlink, rename, make_folder, make_fifo, make_link, replace, overwrite]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("which", [raw_of, index_of])
def test_what_is_written_after_damage_is_read(
    tmp_path: Path, which: Callable[[Path], Path], damage: Callable[[Path], None]
) -> None:
    """By who was following, and by who comes later."""
    journal, follower = journal_of(tmp_path, lines=20), Reader(tmp_path, raw=True)
    assert b"".join(follower.read()) == b"".join(b"line %d\n" % number for number in range(20))
    damage(which(tmp_path))
    journal.write(b"one\n", STDOUT)
    follower.read()
    journal.write(b"two\n", STDERR)
    journal.close()
    follower.read(ended=True)
    assert [e.payload for e in follower.entries if e.stream == "stderr"][-1] == b"two\n"
    assert b"".join(e.payload for e in follower.entries).endswith(b"one\ntwo\n")
    later = Reader(tmp_path, raw=True)
    assert b"".join(later.read(ended=True)).endswith(b"one\ntwo\n")
    assert raw_of(tmp_path).read_bytes().endswith(b"one\ntwo\n")
    ids = [entry.insert_id for entry in follower.entries]
    assert len(set(ids)) == len(ids)
    if damage is not overwrite:  # the follower has read that
        assert follower.troubles and later.troubles
    follower.troubles.clear()
    assert follower.read(ended=True) == [] and not follower.troubles, "it is told once"


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("which", [raw_of, index_of])
@pytest.mark.parametrize("partial", [True, False])
def test_a_damaged_log_of_an_ended_job_has_an_end(
    tmp_path: Path, which: Callable[[Path], Path], damage: Callable[[Path], None], partial: bool
) -> None:
    journal = journal_of(tmp_path, lines=50)
    journal.close()
    follower = Reader(tmp_path, partial=partial, limit=100)
    follower.query = LogQuery(name="x", partial=partial, limit=100)
    page = read_logs(tmp_path, follower.query, ended=False)
    follower.cursor = page.cursor
    damage(which(tmp_path))
    rest = follower.read(ended=True)
    later = Reader(tmp_path, partial=partial)
    text = later.read(ended=True)
    if which is index_of:  # the raw bytes are all there, and are shown
        lines = [line for e in page.entries for line in e.payload.split(b"\n")]
        lines += [line for payload in rest for line in payload.split(b"\n")]
        assert sorted(lines, key=lambda line: (len(line), line)) == [b"line %d" % n for n in range(50)]
        assert len(b"\n".join(text).split(b"\n")) == 50
    elif damage not in (replace, overwrite):
        assert any("was cut" in t or "is missing or is no file" in t for t in later.troubles), later.troubles
    read_tail(tmp_path, TASK, STDOUT, 1000)


@settings(max_examples=50)
@example(seed=3413, limit=2**20, partial=False)  # the bytes of the newest segment are gone before it is read
@given(seed=st.integers(0, 2**32), limit=st.sampled_from([1, 50, 2**20]), partial=st.booleans())
def test_any_damage_is_survived_by_readers_and_writers(seed: int, limit: int, partial: bool) -> None:
    """Each byte that is still there is read once by who comes later, if only the index was damaged."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        journal, attempt = journal_of(folder), 0
        follower = Reader(folder, raw=True, partial=partial, limit=limit)
        only_index = True
        for number in range(chance.randrange(40)):
            journal.write(b"%d%s" % (number, chance.choice([b"\n", b"", b"\n\n{}"])), chance.choice([1, 2]))
            if chance.random() < 0.2:
                follower.read()
            if chance.random() < 0.1:
                which = chance.choice([raw_of, index_of])
                only_index &= which is index_of
                damage_somewhere(which(folder), chance)
            if chance.random() < 0.1:
                journal.close()
                attempt += 1
                journal = journal_of(folder, attempt)
        journal.close()
        follower.read(ended=True)
        later = Reader(folder, raw=True, limit=limit)
        text = b"".join(later.read(ended=True))
        Reader(folder, limit=limit, partial=partial).read(ended=True)
        read_tail(folder, TASK, STDERR, 10, attempt)
        if only_index:
            assert text == raw_bytes(folder)
            assert b"".join(e.payload for e in follower.entries) == text


def damage_somewhere(path: Path, chance: random.Random) -> None:
    size = path.stat().st_size
    place = chance.randrange(size + 1)
    kind = chance.choice(["cut", "flip", "zero", "remove", "garbage"])
    if kind == "cut":
        os.truncate(path, place)
    elif kind == "remove":
        path.unlink()
    else:
        with path.open("r+b") as file:
            file.seek(place)
            there = file.read(chance.randrange(1, 60))
            file.seek(place)
            flipped = bytes(byte ^ chance.randrange(1, 256) for byte in there)
            more = chance.randbytes(200) if kind == "garbage" and path.suffix == INDEX_SUFFIX else b""
            file.write((bytes(len(there)) if kind == "zero" else flipped) + more)


def test_a_flipped_bit_of_a_record_is_told(tmp_path: Path) -> None:
    journal_of(tmp_path, lines=3).close()
    with index_of(tmp_path).open("r+b") as file:
        file.seek(2 * RECORD.size + 16)
        file.write(bytes([STDERR]))
    reader = Reader(tmp_path)
    assert reader.read(ended=True) == [b"line 0", b"line 1\nline 2"]
    assert reader.troubles == {
        f"The index of the log of {TASK} is damaged: times and streams of lines may be wrong."
    }


def test_a_line_whose_end_was_cut_off_is_ended(tmp_path: Path) -> None:
    """A part of it is out: the next line is no part of it."""
    journal, reader = journal_of(tmp_path), Reader(tmp_path, partial=True)
    journal.write(b"half of a", STDOUT)
    assert reader.read() == [b"half of a"]
    empty(raw_of(tmp_path))
    journal.write(b"another\n", STDOUT)
    journal.close()
    assert reader.read(ended=True) == [b"", b"another"]
    assert [entry.partial for entry in reader.entries] == [True, False, False]


def test_a_log_that_is_cut_again_and_again(tmp_path: Path) -> None:
    """As logrotate does it with copytruncate."""
    journal, reader = journal_of(tmp_path), Reader(tmp_path)
    for number in range(10):
        journal.write(b"%d\n" % number, STDOUT)
        reader.read()
        empty(raw_of(tmp_path))
    journal.close()
    assert [entry.payload for entry in reader.entries] == [b"%d" % number for number in range(10)]


def test_two_writers_append_and_nothing_is_lost(tmp_path: Path) -> None:
    """Whoever writes into a log by hand makes it longer, and no line wrong."""
    journal, reader = journal_of(tmp_path), Reader(tmp_path)
    journal.write(b"one\n", STDOUT)
    with raw_of(tmp_path).open("ab") as file:
        file.write(b"by hand\n")
    journal.write(b"two\n", STDERR)
    journal.close()
    assert b"\n".join(reader.read(ended=True)).split(b"\n") == [b"one", b"by hand", b"two"]


def test_the_folder_of_the_logs_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    journal = journal_of(folder, lines=2)
    shutil.rmtree(folder)
    journal.write(b"one\n", STDOUT)
    folder.rename(tmp_path / "old")
    folder.write_bytes(b"no folder")
    journal.write(b"two\n", STDOUT)
    journal.close()
    assert Reader(tmp_path / "old").read(ended=True) == [b"one"]
    assert Reader(folder).read(ended=True) == [b"two"]


def test_a_writer_passes_over_what_has_the_name_of_its_next_segment(tmp_path: Path) -> None:
    """As a trainer may put it there, which runs as the same user."""
    foreign = [
        f"{TASK}.1{RAW_SUFFIX}",
        f"{TASK}.2{INDEX_SUFFIX}",
        f"{TASK}.3{RAW_SUFFIX}",
        f"{TASK}.4{RAW_SUFFIX}",
    ]
    journal, reader = journal_of(tmp_path, lines=1), Reader(tmp_path)
    (tmp_path / foreign[0]).mkdir()
    os.mkfifo(tmp_path / foreign[1])
    (tmp_path / foreign[2]).symlink_to(tmp_path / "elsewhere")
    (tmp_path / foreign[3]).symlink_to(tmp_path)
    journal.write(b"line 1\n", STDOUT)
    assert reader.read() == [b"line 0", b"line 1"]
    empty(raw_of(tmp_path).with_name(f"{TASK}.0{RAW_SUFFIX}"))
    journal.write(b"line 2\n", STDOUT)
    journal_of(tmp_path, 1, lines=1).close()
    journal.close()
    assert reader.read(ended=True) == [b"line 2", b"line 0"]
    assert newest(tmp_path) == 6
    assert not (tmp_path / "elsewhere").exists()


def test_a_follower_of_a_log_that_was_removed_reads_the_one_that_is_begun_anew(tmp_path: Path) -> None:
    """Its segments have the numbers of those that are gone."""
    reader = Reader(tmp_path)
    for attempt in range(3):
        journal_of(tmp_path, attempt, lines=4).close()
        reader.read()
    for path in tmp_path.iterdir():
        path.unlink()
    assert reader.read() == []
    for attempt in (3, 4):
        journal_of(tmp_path, attempt, lines=2).close()
    assert b"\n".join(reader.read(ended=True)).split(b"\n") == [b"line 0", b"line 1"] * 2
    assert reader.troubles == {f"The log of {TASK} was cut or replaced: lines may be missing."}


def test_a_cursor_may_lead_far_beyond_its_log(tmp_path: Path) -> None:
    """It may come from anywhere, such as the address of a page."""
    journal, reader = journal_of(tmp_path, lines=2), Reader(tmp_path)
    journal.write(b"an open line", STDOUT)
    reader.read()
    place = json.loads(reader.cursor)
    place[TASK][3] = 2**62
    reader.cursor = json.dumps(place)
    assert reader.read(ended=True) == [b"an open line"]
    journal.close()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_damage_costs_its_segment_alone(tmp_path: Path, number: int) -> None:
    for attempt in range(3):
        journal_of(tmp_path, attempt, lines=2).close()
    for path in tmp_path.glob(f"{TASK}.{number}.*"):
        path.unlink()
    reader = Reader(tmp_path)
    reader.read(ended=True)
    assert [(e.attempt, e.payload) for e in reader.entries] == [
        (attempt, b"line %d" % line) for attempt in range(3) if attempt != number for line in range(2)
    ]
    is_last = number == 2  # nobody can know of it
    assert reader.troubles == (
        set()
        if is_last
        else {f"The log of {TASK} cannot be read: {tmp_path}/{TASK}.{number}.log is missing or is no file."}
    )


def test_a_container_whose_log_was_cut_goes_on(tmp_path: Path) -> None:
    """What its writer has stored it does not read again: it tells that this may be missing."""
    journal, reader = JournalWriter(str(tmp_path / TASK), from_pipe=False), Reader(tmp_path)
    journal.write(b"one\n", STDOUT, 1000, 1)
    empty(index_of(tmp_path))
    journal.write(b"two\n", STDERR, 2000, 1)
    empty(raw_of(tmp_path))
    journal.write(b"three\n", STDOUT, 3000, 1)
    journal.close()
    assert raw_of(tmp_path).read_bytes() == b"three\n"
    assert next(newest_records(str(tmp_path / TASK), 0))[0] == 3000
    assert reader.read(ended=True) == [b"one", b"three"]
    assert f"The log of {TASK} was cut or replaced: lines may be missing." in " ".join(reader.troubles)


def test_a_container_is_read_again_where_the_index_was_damaged(tmp_path: Path) -> None:
    """Only its present attempt is."""
    for attempt in (0, 1):
        journal = JournalWriter(str(tmp_path / TASK), attempt, from_pipe=False)
        journal.write(b"an attempt\n", STDOUT, 1000, 1)
        journal.close()
        assert [record[0] for record in newest_records(str(tmp_path / TASK), attempt)][:1] == [1000]
        index_of(tmp_path).unlink()
        assert list(newest_records(str(tmp_path / TASK), attempt)) == []


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_an_index_that_claims_offsets_beyond_a_sparse_log(tmp_path: Path) -> None:
    """A gigabyte of holes: in time and memory that do not depend on what the index claims."""
    with raw_of(tmp_path).open("wb") as file:
        file.truncate(2**30)
    records = [pack_record(2**62 - n, 2**62 - n, STDOUT, 3, 1) for n in range(1000)]
    index_of(tmp_path).write_bytes(b"".join(records))
    before, begun = peak_memory(), time.process_time()
    cursor, size = "", 0
    for _ in range(5):
        page = read_logs(tmp_path, LogQuery(name="x", cursor=cursor), ended=True)
        cursor, size = page.cursor, size + sum(len(entry.payload) for entry in page.entries)
    assert 0 < size < 2**25
    assert peak_memory() - before < 2**27
    assert len(read_tail(tmp_path, TASK, STDOUT, 1000, 3)) == 1000
    assert time.process_time() - begun < 20


def test_an_index_of_megabytes_of_something_else(tmp_path: Path) -> None:
    raw_of(tmp_path).write_bytes(b"line\n" * 1000)
    index_of(tmp_path).write_bytes(random.Random(3).randbytes(2**22))
    begun = time.process_time()
    reader = Reader(tmp_path, limit=100)
    assert b"\n".join(reader.read(ended=True)).split(b"\n") == [b"line"] * 1000
    assert time.process_time() - begun < 20


def test_an_index_far_longer_than_its_log(tmp_path: Path) -> None:
    """Eight gigabytes of holes: no more of it is read than the log can have filled."""
    journal = journal_of(tmp_path, lines=10)
    os.truncate(index_of(tmp_path), 2**33)
    begun = time.process_time()
    assert b"\n".join(Reader(tmp_path).read(ended=True)).count(b"line") == 10
    assert read_tail(tmp_path, TASK, STDERR, 7) == "line 9\n"
    journal.write(b"after\n", STDOUT)
    journal.close()
    assert index_of(tmp_path).stat().st_size < 100 * RECORD.size
    assert Reader(tmp_path).read(ended=True)[-1].endswith(b"after")
    assert time.process_time() - begun < 20


def test_times_that_go_backwards(tmp_path: Path) -> None:
    for task, times in ((TASK, (3000, 1000, 2000)), ("workerpool1-0", (2**62, 1, 1500))):
        journal = JournalWriter(str(tmp_path / task))
        for moment in times:
            journal.write(b"%s %d\n" % (task.encode(), moment), STDOUT, moment)
        journal.close()
    payloads = Reader(tmp_path).read(ended=True)
    for task, times in ((TASK, (3000, 1000, 2000)), ("workerpool1-0", (2**62, 1, 1500))):
        own = [payload for payload in payloads if payload.startswith(task.encode())]
        assert own == [b"%s %d" % (task.encode(), moment) for moment in times]


def test_an_open_line_beside_a_busy_stream_is_not_read_again_and_again(tmp_path: Path) -> None:
    """Its beginning is shown; then only what is new is looked at, however much the other stream writes."""
    journal, reader = journal_of(tmp_path), Reader(tmp_path, partial=True)
    journal.write(b"{", STDOUT)
    journal.write(b"progress", STDERR)
    begun = time.process_time()
    for number in range(500):
        journal.write(b"%d\n" % number, STDERR)
        reader.read()
    journal.write(b"}\n", STDOUT)
    journal.close()
    reader.read(ended=True)
    assert [e.json_payload for e in reader.entries if e.stream == "stdout"] == [{}]
    assert time.process_time() - begun < 20


def test_a_cut_is_seen_at_once_and_a_removal_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(journal_module, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(journal_module.time, "monotonic", lambda: now[0])
    journal, reader = journal_of(tmp_path, lines=3), Reader(tmp_path)
    reader.read()
    empty(raw_of(tmp_path))
    journal.write(b"after the cut\n", STDOUT)
    assert reader.read() == [b"after the cut"]
    raw_of(tmp_path).unlink()
    now[0] += 0.06
    journal.write(b"after the removal\n", STDOUT)
    assert reader.read() == [b"after the removal"]
    journal.close()
