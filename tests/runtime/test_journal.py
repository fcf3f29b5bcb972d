"""What is written to a journal comes out again: once, whole, in order, however it is read."""

from __future__ import annotations

import json
import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vtrain.backends.docker.container_log import Transcript
from vtrain.errors import ConfigError
from vtrain.messages.log import MAX_ENTRY_BYTES, LogEntry, LogQuery
from vtrain.runtime.folder import JobFolder, ReplicaExit, ReplicaFolder, write_struct
from vtrain.runtime.log.log_reader import read_logs, read_tail
from vtrain.runtime.log.segments import newest_records
from vtrain.runtime.process.journal import RECORD, STDERR, STDOUT, JournalWriter
from vtrain.times import NANOSECONDS

pytestmark = pytest.mark.child


def write(folder: Path, blocks: list[tuple[int, bytes]], task: str = "workerpool0-0") -> None:
    writer = JournalWriter(str(folder / task))
    for stream, block in blocks:
        writer.write(block, stream)
    writer.close()


def read(
    folder: Path, *, limit: int = 2**22, partial: bool = False, ended: bool = True, **query: object
) -> list[LogEntry]:
    entries: list[LogEntry] = []
    cursor = ""
    while True:
        page = read_logs(
            folder, LogQuery(name="x", cursor=cursor, limit=limit, partial=partial, **query), ended=ended
        )
        if not page.entries:
            return entries
        entries += page.entries
        cursor = page.cursor


def text_of(entries: list[LogEntry], stream: str) -> bytes:
    return b"".join(e.payload + (b"" if e.partial else b"\n") for e in entries if e.stream == stream)


def with_last_newline(text: bytes) -> bytes:
    return text if text.endswith(b"\n") or not text else text + b"\n"


PIECES = st.one_of(
    st.sampled_from(
        [b"\n", b"line\n", b"{", b'{"message": 1}\n', b"\r50%\r", "é€😀".encode(), b"\xff\xe2\x82", b"x" * 50]
    ),
    st.binary(max_size=20),
)
BLOCKS = st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), PIECES.filter(bool)), max_size=25)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(blocks=BLOCKS, limit=st.sampled_from([1, 7, 60, 2**20]), partial=st.booleans())
def test_bytes_come_out_as_they_went_in(blocks: list[tuple[int, bytes]], limit: int, partial: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), blocks)
        entries = read(Path(name), limit=limit, partial=partial)
    for stream, stream_name in ((STDOUT, "stdout"), (STDERR, "stderr")):
        written = b"".join(block for s, block in blocks if s == stream)
        plain = with_last_newline(written)
        got = b"".join(
            (json_line(e) if e.json_payload is not None else e.payload) + (b"" if e.partial else b"\n")
            for e in entries
            if e.stream == stream_name
        )
        assert normalised(got) == normalised(plain)
    assert len({e.insert_id for e in entries}) == len(entries)


def json_line(entry: LogEntry) -> bytes:
    return json.dumps(entry.json_payload).encode()


def normalised(text: bytes) -> bytes:
    """Lines, those that are JSON objects written in one way."""
    lines = []
    for line in text.split(b"\n"):
        try:
            found = json.loads(line) if line.startswith(b"{") else None
        except ValueError:
            found = None
        lines.append(json.dumps(found).encode() if isinstance(found, dict) else line)
    return b"\n".join(lines)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(blocks=BLOCKS, partial=st.booleans())
def test_following_gives_the_same_as_reading_later(blocks: list[tuple[int, bytes]], partial: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        writer = JournalWriter(str(folder / "workerpool0-0"))
        entries: list[LogEntry] = []
        cursor = ""
        for stream, block in blocks:
            writer.write(block, stream)
            page = read_logs(folder, LogQuery(name="x", cursor=cursor, partial=partial), ended=False)
            entries += page.entries
            cursor = page.cursor
        writer.close()
        entries += read_logs(folder, LogQuery(name="x", cursor=cursor, partial=partial), ended=True).entries
        later = read(folder)
    for stream in ("stdout", "stderr"):
        assert normalised(joined(entries, stream)) == normalised(joined(later, stream))


def joined(entries: list[LogEntry], stream: str) -> bytes:
    return b"".join(
        (json_line(e) if e.json_payload is not None else e.payload) + (b"" if e.partial else b"\n")
        for e in entries
        if e.stream == stream
    )


def test_lines_of_one_block_are_one_entry(tmp_path: Path) -> None:
    write(tmp_path, [(STDOUT, b"a\nb\nc\n"), (STDERR, b"d\n")])
    entries = read(tmp_path)
    assert [(e.payload, e.stream, e.severity) for e in entries] == [
        (b"a\nb\nc", "stdout", "INFO"),
        (b"d", "stderr", "ERROR"),
    ]
    assert entries[0].insert_id == "workerpool0-0/stdout/0/0"


def test_a_line_in_two_blocks_has_the_time_of_its_beginning(tmp_path: Path) -> None:
    before = time.time_ns()
    write(tmp_path, [(STDOUT, b"hal")])
    middle = time.time_ns()
    write(tmp_path, [(STDERR, b"no\n"), (STDOUT, b"lo\nnext\n")])
    entries = read(tmp_path)
    assert [e.payload for e in entries] == [b"no", b"hallo", b"next"]
    assert before <= entries[1].time <= middle <= entries[2].time


def test_json_objects_are_lifted(tmp_path: Path) -> None:
    lines = [
        b"plain",
        b'{"severity":"warn","message":"careful","n":1}',
        b"{not json}",
        b'{"levelname":"DEBUG"}',
        b"end",
    ]
    write(tmp_path, [(STDOUT, b"\n".join(lines) + b"\n")])
    entries = read(tmp_path)
    assert [(e.severity, e.payload) for e in entries] == [
        ("INFO", b"plain"),
        ("WARNING", b"careful"),
        ("INFO", b"{not json}"),
        ("DEBUG", b'{"levelname":"DEBUG"}'),
        ("INFO", b"end"),
    ]
    assert entries[1].json_payload == {"severity": "warn", "message": "careful", "n": 1}


def test_a_line_of_megabytes_comes_in_parts_of_whole_characters(tmp_path: Path) -> None:
    line = ("x" + "€" * 400_000).encode()
    write(tmp_path, [(STDOUT, line[:1_000_000]), (STDOUT, line[1_000_000:] + b"\nafter\n")])
    entries = read(tmp_path)
    assert text_of(entries, "stdout") == line + b"\nafter\n"
    assert all(len(e.payload) <= MAX_ENTRY_BYTES for e in entries)
    assert [e.partial for e in entries] == [True] * (len(entries) - 2) + [False, False]
    for entry in entries:
        entry.payload.decode()


def test_the_beginning_of_a_line_at_once(tmp_path: Path) -> None:
    write(tmp_path, [(STDOUT, b"loss: \xe2\x82")])
    page = read_logs(tmp_path, LogQuery(name="x"), ended=False)
    assert page.entries == ()
    page = read_logs(tmp_path, LogQuery(name="x", partial=True), ended=False)
    assert [(e.payload, e.partial) for e in page.entries] == [(b"loss: ", True)]
    write(tmp_path, [(STDOUT, b"\xac!\n")])
    page = read_logs(tmp_path, LogQuery(name="x", partial=True, cursor=page.cursor), ended=False)
    assert [(e.payload, e.partial) for e in page.entries] == [("€!".encode(), False)]


def test_the_last_line_needs_no_newline_after_the_end(tmp_path: Path) -> None:
    write(tmp_path, [(STDOUT, b"a\nlast")])
    assert [e.payload for e in read(tmp_path, ended=False)] == [b"a"]
    assert [e.payload for e in read(tmp_path)] == [b"a", b"last"]


class EndingReplica:
    """A job's folder with the log of one replica, whose attempts end one after the other."""

    def __init__(self, path: Path, *, partial: bool = False) -> None:
        self.job = JobFolder(path)
        self.job.logs.mkdir()
        self.query = LogQuery(name="x", partial=partial)

    def write(self, text: bytes, attempt: int = 0) -> None:
        self.replica(attempt).path.mkdir(parents=True, exist_ok=True)
        writer = JournalWriter(str(self.job.logs / "workerpool0-0"), attempt)
        writer.write(text, STDOUT)
        writer.close()

    def end(self, attempt: int = 0) -> None:
        write_struct(self.replica(attempt).path / "exit.json", ReplicaExit(code=0, started=0.0, ended=1.0))

    def replica(self, attempt: int) -> ReplicaFolder:
        return self.job.replica("workerpool0-0", attempt)

    def next_lines(self) -> list[tuple[bytes, bool]]:
        page = read_logs(self.job.logs, self.query, ended=False)
        self.query = msgspec.structs.replace(self.query, cursor=page.cursor)
        return [(entry.payload, entry.partial) for entry in page.entries]


def test_the_last_line_of_an_ended_replica_comes_before_the_end_of_its_job(tmp_path: Path) -> None:
    replica = EndingReplica(tmp_path)
    replica.write(b"a\nlast")
    assert replica.next_lines() == [(b"a", False)]
    replica.end()
    write(replica.job.logs, [(STDOUT, b"Tearing down\n")], task="service")
    assert replica.next_lines() == [(b"last", False), (b"Tearing down", False)]
    assert replica.next_lines() == []


def test_the_rest_of_a_line_that_is_partly_shown_ends_with_its_replica(tmp_path: Path) -> None:
    replica = EndingReplica(tmp_path, partial=True)
    replica.write(b"last")
    assert replica.next_lines() == [(b"last", True)]
    replica.end()
    write(replica.job.logs, [(STDOUT, b"Tearing down\n")], task="service")
    assert replica.next_lines() == [(b"", False), (b"Tearing down", False)]
    assert replica.next_lines() == []


def test_a_line_of_the_next_attempt_stays_open(tmp_path: Path) -> None:
    replica = EndingReplica(tmp_path)
    replica.write(b"first")
    replica.end()
    assert replica.next_lines() == [(b"first", False)]
    replica.write(b"sec", attempt=1)
    assert replica.next_lines() == []
    replica.write(b"ond", attempt=1)
    replica.end(attempt=1)
    assert replica.next_lines() == [(b"second", False)]
    assert replica.next_lines() == []


def test_a_last_line_without_a_newline_comes_before_what_was_written_later(tmp_path: Path) -> None:
    write(tmp_path, [(STDOUT, b"a\nlast")])
    write(tmp_path, [(STDOUT, b"ended\n")], task="service")
    for limit in (1, 2**22):
        assert [e.payload for e in read(tmp_path, limit=limit)] == [b"a", b"last", b"ended"]


def kill_in_the_middle(folder: Path, rest: bytes, number: int = 0) -> None:
    """Leave what a writer leaves that dies with bytes and a part of their record stored."""
    base = folder / f"workerpool0-0.{number}"
    with Path(f"{base}.log").open("ab") as raw, Path(f"{base}.idx").open("ab") as index:
        raw.write(rest)
        index.write(b"torn")


def test_a_torn_record_and_uncovered_bytes(tmp_path: Path) -> None:
    write(tmp_path, [(STDOUT, b"a\n")])
    kill_in_the_middle(tmp_path, b"b\n")
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert [e.payload for e in read(tmp_path, ended=False)] == [b"a"]
    assert [e.payload for e in read(tmp_path)] == [b"a", b"b"]
    write(tmp_path, [(STDERR, b"c\n")])
    assert {path: path.read_bytes() for path in files} == files
    for ended in (False, True):
        assert [(e.payload, e.stream) for e in read(tmp_path, ended=ended)] == [
            (b"a", "stdout"),
            (b"b", "stdout"),
            (b"c", "stderr"),
        ]


def test_what_a_pipe_has_left_is_shown_when_its_attempt_has_ended(tmp_path: Path) -> None:
    replica = EndingReplica(tmp_path)
    replica.write(b"a\n")
    kill_in_the_middle(replica.job.logs, b"b\nc")
    assert replica.next_lines() == [(b"a", False)]
    replica.end()
    assert replica.next_lines() == [(b"b", False), (b"c", False)]
    assert replica.next_lines() == []


def test_what_a_container_wrote_without_a_record_is_never_shown(tmp_path: Path) -> None:
    """The engine gives it again to the next writer."""
    base = str(tmp_path / "workerpool0-0")
    for number, text in enumerate((b"a\n", b"b\n")):
        journal = JournalWriter(base, from_pipe=False)
        journal.write(text, STDOUT, 1000 + number, 1)
        journal.close()
        kill_in_the_middle(tmp_path, b"b\n", number)
    for ended in (False, True):
        assert [e.payload for e in read(tmp_path, ended=ended)] == [b"a", b"b"]
    assert read_tail(tmp_path, "workerpool0-0", STDOUT, 100) == "a\nb\n"


@pytest.mark.parametrize("partial", [False, True])
def test_a_line_goes_on_in_the_next_segment_of_its_attempt(tmp_path: Path, *, partial: bool) -> None:
    """A shim is killed in the middle of a line, and the supervisor finds the rest in the pipe."""
    replica = EndingReplica(tmp_path, partial=partial)
    shown = []
    for piece in (b"one\nha", b"l", b"lo\nthr"):
        replica.write(piece)
        shown += replica.next_lines()
    replica.end()
    replica.write(b"ee\n", attempt=1)
    shown += replica.next_lines()
    text = b"".join(payload + (b"" if is_part else b"\n") for payload, is_part in shown)
    assert text == b"one\nhallo\nthr\nee\n"
    assert [e.payload for e in read(replica.job.logs)] == [b"one", b"hallo", b"thr", b"ee"]
    assert read_tail(replica.job.logs, "workerpool0-0", STDOUT, 8) == "allo\nthr"


def test_a_writer_with_nothing_to_say_leaves_nothing(tmp_path: Path) -> None:
    write(tmp_path, [])
    assert [path.read_bytes() for path in tmp_path.glob("*.log")] == [b""]
    write(tmp_path, [])
    write(tmp_path, [(STDOUT, b"a\n")])
    assert sorted(path.name for path in tmp_path.glob("*.log")) == [f"workerpool0-0.{n}.log" for n in (0, 1)]
    assert [e.payload for e in read(tmp_path)] == [b"a"]


@pytest.mark.parametrize("limit", [1, 2**22])
def test_a_cursor_of_many_segments_is_small(tmp_path: Path, limit: int) -> None:
    for number in range(300):
        write(tmp_path, [(STDOUT, b"%d\n" % number)])
    cursor, lines, ids = "", [], set()
    while (page := read_logs(tmp_path, LogQuery(name="x", cursor=cursor, limit=limit), ended=False)).entries:
        lines += [entry.payload for entry in page.entries]
        ids |= {entry.insert_id for entry in page.entries}
        cursor = page.cursor
        assert len(cursor) < 100
    assert lines == [b"%d" % number for number in range(300)]
    assert len(ids) == 300


def test_replicas_are_merged_by_time_and_selected(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path, [(STDOUT, f"{number}\n".encode())], f"workerpool{number % 2}-0")
    assert [e.payload for e in read(tmp_path)] == [b"0", b"1", b"2", b"3"]
    assert [e.payload for e in read(tmp_path, limit=1)] == [b"0", b"1", b"2", b"3"]
    assert [e.payload for e in read(tmp_path, task_name="workerpool1-0")] == [b"1", b"3"]
    since = read(tmp_path)[2].time
    assert [e.payload for e in read(tmp_path, since=since)] == [b"2", b"3"]
    assert read(tmp_path, trial_id="1") == []


def test_tail(tmp_path: Path) -> None:
    write(tmp_path, [(STDERR, b"one\n"), (STDOUT, b"noise\n"), (STDERR, b"two\n")])
    assert read_tail(tmp_path, "workerpool0-0", STDERR, 100) == "one\ntwo\n"
    assert read_tail(tmp_path, "workerpool0-0", STDERR, 6) == "e\ntwo\n"


def limited(size: int, act: Callable[[], None]) -> int:
    """The exit code of a child whose files may not grow beyond `size` bytes."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_record_that_the_disk_takes_in_part_is_taken_back(tmp_path: Path) -> None:
    base = str(tmp_path / "workerpool0-0")

    def write_on() -> None:
        journal = JournalWriter(base)
        for number in range(20):
            journal.write(b"%d\n" % number, STDOUT)
        journal.close()

    size = RECORD.size * 5 + 4  # the sixth record fits in part
    assert limited(size, write_on) == 0
    assert (tmp_path / "workerpool0-0.0.idx").stat().st_size == RECORD.size * 5
    assert (tmp_path / "workerpool0-0.0.log").read_bytes() == b"".join(b"%d\n" % n for n in range(20))
    assert b"\n".join(e.payload for e in read(tmp_path)) == b"\n".join(b"%d" % n for n in range(20))


def test_what_can_be_read_again_is_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    base = str(tmp_path / "workerpool0-0")
    refused = []

    def write_on() -> None:
        journal = JournalWriter(base, from_pipe=False)
        for number in range(20):
            try:
                journal.write(b"line %04d\n" % number, STDOUT, time_ns=1000 + number, pieces=1)
            except OSError:
                refused.append(number)
        assert refused == list(range(4, 20))

    assert limited(RECORD.size * 5 + 4, write_on) == 0
    assert (tmp_path / "workerpool0-0.0.log").read_bytes() == b"".join(b"line %04d\n" % n for n in range(4))
    assert [record[0] for record in newest_records(base, 0)][:-1] == [1003, 1002, 1001, 1000]


def test_a_block_that_the_disk_takes_in_part_is_read_again(tmp_path: Path) -> None:
    """No record speaks of it: the next supervisor reads it from the engine."""
    base = str(tmp_path / "workerpool0-0")

    def write_on() -> None:
        journal = JournalWriter(base, from_pipe=False)
        for number in range(3):
            journal.write(b"%d" % number * 99 + b"\n", STDOUT, time_ns=1000 + number, pieces=1)

    assert limited(250, write_on) == 1
    assert [record[0] for record in newest_records(base, 0)][:-1] == [1001, 1000]
    assert [e.payload for e in read(tmp_path)] == [b"0" * 99, b"1" * 99]


def test_a_closed_log_has_reached_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads that a job has ended finds its log, also when the machine is switched off just then."""
    sync, synced = os.fsync, set()
    monkeypatch.setattr(os, "fsync", lambda file: (sync(file), synced.add(os.fstat(file).st_ino)))
    write(tmp_path, [(STDOUT, b"1\n")])
    assert synced == {path.stat().st_ino for path in tmp_path.iterdir()}


def test_a_full_disk_is_counted(tmp_path: Path) -> None:
    def write_on() -> None:
        journal = JournalWriter(str(tmp_path / "x"))
        journal.write(b"12345" * 5, STDOUT)
        journal.write(b"67890", STDOUT)
        assert journal.lost == 3

    assert limited(27, write_on) == 0
    assert (tmp_path / "x.0.log").read_bytes() == b"12345" * 5 + b"67"


def test_a_disk_that_takes_no_segment_is_counted(tmp_path: Path) -> None:
    def write_on() -> None:
        journal = JournalWriter(str(tmp_path / "x"))
        journal.write(b"12345", STDOUT)
        assert journal.lost == 5
        journal.close()

    assert limited(RECORD.size - 1, write_on) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("attempt", [0, 1, 255, 256, 403, 65535])
def test_attempts_of_any_number_are_told_apart(tmp_path: Path, attempt: int) -> None:
    for number in (attempt, attempt + 1):
        journal = JournalWriter(str(tmp_path / "workerpool0-0"), min(number, 65535))
        journal.write(b"%d\n" % number, STDERR)
        journal.close()
    assert [e.attempt for e in read(tmp_path)] == [attempt, min(attempt + 1, 65535)]
    if attempt < 65535:
        assert read_tail(tmp_path, "workerpool0-0", STDERR, 100, attempt) == f"{attempt}\n"


def test_a_container_goes_on_where_an_attempt_beyond_255_ended(tmp_path: Path) -> None:
    """403 attempts are allowed: the 256th must not be taken for the first."""
    base = str(tmp_path / "workerpool0-0")
    for attempt in (0, 256):
        transcript = Transcript(base, attempt)
        assert transcript.resume() == 0
        transcript.take([(STDOUT, NANOSECONDS * (10 + attempt), b"line\n")])
        transcript.close()
    again = Transcript(base, 256)
    assert again.resume() > 0
    again.close()


@pytest.mark.parametrize("cursor", ["nonsense", '{"a":', '{"workerpool0-0":["x"]}', "[]"])
def test_a_cursor_that_is_none_is_refused(tmp_path: Path, cursor: str) -> None:
    with pytest.raises(ConfigError, match="is not a place in a log"):
        read_logs(tmp_path, LogQuery(name="x", cursor=cursor), ended=True)


def test_a_page_tells_whether_there_is_more(tmp_path: Path) -> None:
    write(tmp_path, [(STDOUT, b"one\n"), (STDOUT, b"two\n")])
    assert [read_logs(tmp_path, LogQuery(name="x", limit=n), ended=False).more for n in (1, 100)] == [
        True,
        False,
    ]


def test_a_page_of_tiny_entries_is_no_larger(tmp_path: Path) -> None:
    """Each object is an entry of its own, which takes far more memory than its three bytes."""
    write(tmp_path, [(STDOUT, b"{}\n" * 100)] * 40)
    page = read_logs(tmp_path, LogQuery(name="x", limit=10_000), ended=True)
    assert len(page.entries) == 200
    assert page.more
    assert len(read(tmp_path, limit=10_000)) == 4000
