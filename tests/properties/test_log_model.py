"""Journals against a model: whatever is written, torn and read meanwhile, each line comes once, in order."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vtrain
from vtrain.messages.log import MAX_ENTRY_BYTES, LogEntry, LogQuery
from vtrain.runtime.log.log_reader import read_logs
from vtrain.runtime.process.journal import RECORD, STDERR, STDOUT, JournalWriter, segment_numbers

TASKS = ("workerpool0-0", "workerpool1-10")
STREAMS = {STDOUT: "stdout", STDERR: "stderr"}
LIMITS = st.sampled_from([1, 7, 60, 2**20])
PIECES = st.one_of(
    st.sampled_from(
        [b"\n", b"\n\n", b"line\n", b"half", b"{", b'{"message": 1}\n', b'{"a": "x"', b"\r50%\r"]
    ),
    st.sampled_from(["é€😀\n".encode(), b"\xe2\x82", b"\xac!\n", b"\xff\xfe\n", b"\x00\n"]),
    st.binary(min_size=1, max_size=12),
)
LINES = 10_000
ROOT = Path(vtrain.__file__).parent.parent
NUMBERS = f"""
import sys
from vtrain.runtime.process.journal import STDOUT, JournalWriter
writer = JournalWriter(sys.argv[1])
for number in range({LINES}):
    writer.write(b"line ", STDOUT)
    writer.write(b"%d\\n" % number, STDOUT)
writer.close()
"""
"""Numbered lines, each in two blocks."""
LONG = "€".encode() * (MAX_ENTRY_BYTES // 3 + 5)


class Write(tuple[int, int, bytes]):
    """A block that a replica writes: which of the tasks, stream, bytes."""


class Restart(tuple[int, int, bytes, bytes]):
    """Another writer goes on, so many attempts later. The last one left raw bytes, and a part of a record."""


class Read(tuple[int, bool]):
    """A reader asks for a page: its limit, and whether it takes the beginnings of lines."""


TASK = st.integers(0, len(TASKS) - 1)
WRITES = st.tuples(TASK, st.sampled_from(sorted(STREAMS)), PIECES).map(Write)
TORN = st.binary(max_size=RECORD.size - 1)
RESTARTS = st.tuples(TASK, st.integers(0, 1), st.just(b"") | PIECES, TORN).map(Restart)
READS = st.tuples(LIMITS, st.booleans()).map(Read)
STEPS = st.lists(WRITES | WRITES | WRITES | RESTARTS | READS, max_size=30)

Key = tuple[str, str]


class Model:
    """What each attempt of a task has written to each stream."""

    def __init__(self) -> None:
        self.attempts = [0] * len(TASKS)
        self.texts: dict[tuple[str, str, int], bytes] = defaultdict(bytes)

    def write(self, task: int, stream: int, block: bytes) -> None:
        self.texts[TASKS[task], STREAMS[stream], self.attempts[task]] += block

    def lines(self) -> dict[Key, list[str]]:
        """What is to be read after the end. What an attempt leaves without a newline is a line of its own."""
        found: dict[Key, list[str]] = defaultdict(list)
        for (task, stream, _), text in sorted(self.texts.items()):
            if text:
                whole = text.removesuffix(b"\n").split(b"\n")
                found[task, stream] += [_shown(line, stream) for line in whole]
        return dict(found)

    def bytes(self) -> dict[Key, bytes]:
        found: dict[Key, bytes] = defaultdict(bytes)
        for (task, stream, _), text in sorted(self.texts.items()):
            found[task, stream] += text
        return {key: text for key, text in found.items() if text}


class Journals:
    """The real ones, in a folder."""

    def __init__(self, folder: Path, tasks: Iterable[str] = TASKS) -> None:
        self.folder = folder
        self.writers = [JournalWriter(str(folder / task)) for task in tasks]
        self.cursor = ""
        self.entries: list[LogEntry] = []

    def write(self, task: int, stream: int, block: bytes) -> None:
        self.writers[task].write(block, stream)

    def restart(self, task: int, attempt: int, raw: bytes, record: bytes) -> None:
        base = str(self.folder / TASKS[task])
        if raw:
            self.writers[task].write(raw, STDOUT)
            index = Path(f"{base}.{segment_numbers(base)[-1]}.idx")
            index.write_bytes(index.read_bytes()[: -RECORD.size] + record)
        self.writers[task].close()
        self.writers[task] = JournalWriter(base, attempt)

    def read(self, limit: int, partial: bool, *, ended: bool = False, raw: bool = False) -> bool:
        """Whether there was something."""
        query = LogQuery(name="x", cursor=self.cursor, limit=limit, partial=partial, raw=raw)
        page = read_logs(self.folder, query, ended=ended)
        self.entries += page.entries
        self.cursor = page.cursor
        return bool(page.entries)

    def read_to_the_end(self, limit: int, *, raw: bool = False) -> None:
        for writer in self.writers:
            writer.close()
        while self.read(limit, False, ended=True, raw=raw):
            pass
        assert read_logs(self.folder, LogQuery(name="x", cursor=self.cursor), ended=True).entries == ()


def play(journals: Journals, steps: Iterable[object], *, raw: bool = False) -> Model:
    model = Model()
    for step in steps:
        if isinstance(step, Write):
            model.write(*step)
            journals.write(*step)
        elif isinstance(step, Restart):
            task, later, left, torn = step
            if left:
                model.write(task, STDOUT, left)
            model.attempts[task] += later
            journals.restart(task, model.attempts[task], left, torn)
        elif isinstance(step, Read):
            journals.read(*step, raw=raw)
    return model


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, limit=LIMITS)
def test_every_line_once_and_in_order(steps: list[object], limit: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        journals = Journals(Path(name))
        model = play(journals, steps)
        journals.read_to_the_end(limit)
    assert lines_of(journals.entries) == model.lines()
    assert len({entry.insert_id for entry in journals.entries}) == len(journals.entries)
    for task in TASKS:
        attempts = [entry.attempt for entry in journals.entries if entry.task_name == task]
        assert attempts == sorted(attempts)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, limit=LIMITS)
def test_raw_pages_are_the_bytes(steps: list[object], limit: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        journals = Journals(Path(name))
        model = play(journals, steps, raw=True)
        journals.read_to_the_end(limit, raw=True)
    found: dict[Key, bytes] = defaultdict(bytes)
    for entry in journals.entries:
        found[entry.task_name, entry.stream] += entry.payload
    assert dict(found) == model.bytes()


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    cuts=st.lists(st.integers(1, 3 * len(LONG)), max_size=6),
    limit=st.sampled_from([70_000, MAX_ENTRY_BYTES - 1, 2**22]),
    partial=st.booleans(),
)
def test_a_long_line_however_it_comes(cuts: list[int], limit: int, partial: bool) -> None:
    text = b"before\n" + LONG * 3 + b"\nafter\n"
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    blocks = [text[start:stop] for start, stop in pairwise(places)]
    with tempfile.TemporaryDirectory() as name:
        journals = Journals(Path(name))
        for block in blocks:
            journals.write(0, STDOUT, block)
            journals.read(limit, partial)
        journals.read_to_the_end(limit)
    assert b"".join(joined(journals.entries)) == text
    for entry in journals.entries:
        assert len(entry.payload) <= MAX_ENTRY_BYTES
        entry.payload.decode()  # no character is cut


@given(steps=st.lists(WRITES | RESTARTS, max_size=20), task=TASK, limit=LIMITS)
def test_one_task_alone_is_read_as_among_others(steps: list[object], task: int, limit: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        journals = Journals(Path(name))
        play(journals, steps)
        journals.read_to_the_end(2**20)
        query = LogQuery(name="x", task_name=TASKS[task], limit=limit)
        alone: list[LogEntry] = []
        while (page := read_logs(journals.folder, query, ended=True)).entries:
            alone += page.entries
            query = LogQuery(name="x", task_name=TASKS[task], limit=limit, cursor=page.cursor)
    among = [entry for entry in journals.entries if entry.task_name == TASKS[task]]
    assert lines_of(alone) == lines_of(among)


@pytest.mark.child
@pytest.mark.parametrize("limit", [1000, 2**20])
@pytest.mark.parametrize("partial", [True, False])
def test_another_process_writes_meanwhile(tmp_path: Path, limit: int, partial: bool) -> None:
    journals = Journals(tmp_path, tasks=TASKS[1:])
    with subprocess.Popen([sys.executable, "-c", NUMBERS, str(tmp_path / TASKS[0])], cwd=ROOT) as writer:
        while writer.poll() is None:
            journals.read(limit, partial)
    assert writer.returncode == 0
    journals.read_to_the_end(limit)
    text = b"".join(joined(journals.entries))
    assert text == b"".join(b"line %d\n" % number for number in range(LINES))
    assert len({entry.insert_id for entry in journals.entries}) == len(journals.entries)


def joined(entries: Iterable[LogEntry]) -> Iterator[bytes]:
    for entry in entries:
        yield entry.payload + (b"" if entry.partial else b"\n")


def lines_of(entries: list[LogEntry]) -> dict[Key, list[str]]:
    """The lines that a reader is shown, parts of one joined."""
    found: dict[Key, bytes] = defaultdict(bytes)
    for entry in entries:
        text = entry.payload if entry.json_payload is None else json.dumps(entry.json_payload).encode()
        found[entry.task_name, entry.stream] += text + (b"" if entry.partial else b"\n")
    return {
        (task, stream): [_shown(line, stream) for line in text.removesuffix(b"\n").split(b"\n")]
        for (task, stream), text in found.items()
    }


def _shown(line: bytes, stream: str) -> str:
    """A line; one of stdout that is a JSON object is written in one way."""
    try:
        found = json.loads(line) if line.startswith(b"{") and stream == "stdout" else None
    except ValueError:
        found = None
    return json.dumps(found) if isinstance(found, dict) else repr(line)
