"""Reads a job's journals: log entries from a cursor on, all replicas merged by time.

A cursor says per task which record comes next, how far into its block reading has come, and per stream
where a line began whose end has not come yet. So a page can be read by any process, at any time.
"""

from __future__ import annotations

import heapq
import os
import re
import time
from pathlib import Path
from typing import Any

import msgspec

from vtrain.engine.folder import SERVICE
from vtrain.engine.journal import INDEX_SUFFIX, RAW_SUFFIX, RECORD, SERVICE_WORDS, STDERR, STDOUT
from vtrain.engine.log_text import message_of, parts, severity_of, split_objects
from vtrain.messages.log import MAX_ENTRY_BYTES, LogEntry, LogPage, LogQuery

_LOST = "lost"
_STREAMS = {STDOUT: "stdout", STDERR: "stderr", SERVICE_WORDS: "service"}
_SEVERITY = {STDOUT: "INFO", STDERR: "ERROR", SERVICE_WORDS: "INFO"}


class _Open(msgspec.Struct, array_like=True):
    """A line that has begun: its first record, the offset of its first byte, and whether a part is out.

    `size` is how much of it has been seen: what is too short to hand out need not be read for each block.
    """

    record: int
    offset: int
    continued: bool = False
    size: int = 0


class _Place(msgspec.Struct, array_like=True):
    """How far reading has come in one task's journal."""

    record: int = 0
    offset: int = 0
    open_lines: dict[int, _Open] = {}


class _Block(msgspec.Struct):
    """A piece of the raw file: one stream, one time."""

    time: int
    start: int
    end: int
    stream: int
    attempt: int


def read_logs(folder: Path, query: LogQuery, *, ended: bool) -> LogPage:
    """What the journals in `folder` hold from the query's cursor on.

    With `ended`, nothing will be written any more: the last line of a stream is whole even without a
    newline. Raises nothing for a folder without logs: there are no entries then.
    """
    places = _decode_cursor(query.cursor)
    readers = [
        _TaskReader(folder, task, places.setdefault(task, _Place()), query.since, raw=query.raw)
        for task in _task_names(folder)
        if query.task_name in ("", task) and not query.trial_id
    ]
    entries: list[LogEntry] = []
    budget = limit = max(query.limit, 1)
    waiting = [(reader.next_time(ended), i) for i, reader in enumerate(readers) if reader.has_more(ended)]
    heapq.heapify(waiting)
    while waiting and (budget > 0 or not entries):  # an empty page means: nothing more now
        _, i = heapq.heappop(waiting)
        size = budget if budget > 0 else limit
        budget -= readers[i].read_piece(min(size, MAX_ENTRY_BYTES), entries, ended)
        if readers[i].has_more(ended):
            heapq.heappush(waiting, (readers[i].next_time(ended), i))
    for reader in readers:
        if not reader.has_more(ended):
            reader.read_open_lines(entries, partial=query.partial, ended=ended)
        reader.close()
    return LogPage(entries=tuple(entries), cursor=msgspec.json.encode(places).decode())


def lost_log(query: LogQuery) -> LogPage:
    """The log of a job whose folder somebody removed: one line that says so, once."""
    if query.cursor == _LOST:
        return LogPage(entries=(), cursor=_LOST)
    text = b"The log is gone: the job's folder was removed."
    entry = LogEntry(time=time.time_ns(), insert_id=_LOST, severity="ERROR", task_name=SERVICE, payload=text)
    return LogPage(entries=(entry,), cursor=_LOST)


def read_tail(folder: Path, task: str, stream: int, size: int, attempt: int = 0) -> str:
    """About the last `size` bytes that an attempt of a replica wrote to one stream, as text."""
    reader = _TaskReader(folder, task, _Place())
    pieces: list[bytes] = []
    held = 0
    for number in reversed(range(reader.blocks(ended=True))):
        block = reader.block(number, ended=True)
        if (block.stream, block.attempt) == (stream, attempt) and held < size:
            start = max(block.start, block.end - (size - held))
            pieces.append(reader.raw(start, block.end))
            held += block.end - start
        if held >= size or block.attempt < attempt:
            break
    reader.close()
    return b"".join(reversed(pieces)).decode("utf-8", "replace")


def _decode_cursor(cursor: str) -> dict[str, _Place]:
    return msgspec.json.decode(cursor, type=dict[str, _Place]) if cursor else {}


def _task_names(folder: Path) -> list[str]:
    names = [path.name.removesuffix(INDEX_SUFFIX) for path in folder.glob("*" + INDEX_SUFFIX)]
    return sorted(names, key=lambda name: [int(n) for n in re.findall(r"\d+", name)])


class _TaskReader:
    """One task's journal, read from a place on; the place moves with it."""

    def __init__(self, folder: Path, task: str, place: _Place, since: int = 0, *, raw: bool = False) -> None:
        self._task = task
        self._place = place
        self._since = since
        self._untouched = raw
        base = str(folder / task)
        self._index = os.open(base + INDEX_SUFFIX, os.O_RDONLY | os.O_CLOEXEC)
        self._raw = os.open(base + RAW_SUFFIX, os.O_RDONLY | os.O_CLOEXEC)
        self._records = os.fstat(self._index).st_size // RECORD.size
        self._size = os.fstat(self._raw).st_size
        self._covered = self._record(self._records - 1)[1] if self._records else 0

    def close(self) -> None:
        os.close(self._index)
        os.close(self._raw)

    def blocks(self, ended: bool) -> int:
        """How many blocks there are; after the end, bytes that no record covers are one more."""
        return self._records + (1 if ended and self._size > self._covered else 0)

    def block(self, number: int, ended: bool) -> _Block:
        start = self._record(number - 1)[1] if number else 0
        if number < self._records:
            time, end, stream, attempt, _ = self._record(number)
            return _Block(time, start, end, stream, attempt)
        assert ended
        time, _, _, attempt, _ = self._record(number - 1) if number else (0, 0, 0, 0, 0)
        return _Block(time, start, self._size, STDOUT, attempt)

    def raw(self, start: int, end: int) -> bytes:
        return os.pread(self._raw, end - start, start)

    def has_more(self, ended: bool) -> bool:
        return self._place.record < self.blocks(ended)

    def next_time(self, ended: bool) -> int:
        return self.block(self._place.record, ended).time

    def read_piece(self, size: int, entries: list[LogEntry], ended: bool) -> int:
        """Take at most `size` bytes of the next block apart into entries; how many it took."""
        block = self.block(self._place.record, ended)
        self._end_lines_before(block.attempt, entries)
        block.start = max(block.start, self._place.offset)
        end = min(block.end, block.start + size)
        piece = self.raw(block.start, end)
        last_newline = piece.rfind(b"\n")
        if end < block.end and last_newline >= 0:
            piece = piece[: last_newline + 1]
        self._place.offset = block.start + len(piece)
        if self._untouched:
            self._add(block, block.start, piece, entries, partial=True)
        else:
            self._take(block, piece, entries)
        if self._place.offset >= block.end:
            self._place.record += 1
        return len(piece) or 1

    def read_open_lines(self, entries: list[LogEntry], *, partial: bool, ended: bool) -> None:
        """Hand out lines without an end: after the job's end as whole ones, with `partial` in part."""
        if not (partial or ended):
            return
        for stream, line in sorted(self._place.open_lines.items()):
            block = self.block(line.record, ended)
            block.start = line.offset
            text = self._open_bytes(stream, self._place.record, self._size)
            if ended:
                self._end_line(stream, line, entries)
            elif line.continued or not (stream == STDOUT and text.startswith(b"{")):
                self._hand_out(block, text, line, entries)

    def _end_lines_before(self, attempt: int, entries: list[LogEntry]) -> None:
        """What an earlier attempt left without a newline is a line of its own."""
        for stream, line in sorted(self._place.open_lines.items()):
            if self.block(line.record, ended=True).attempt < attempt:
                self._end_line(stream, line, entries)

    def _end_line(self, stream: int, line: _Open, entries: list[LogEntry]) -> None:
        block = self.block(line.record, ended=True)
        block.start = line.offset
        text = self._open_bytes(stream, self._place.record, self._size)
        if text or not line.continued:
            self._add_line(block, text, line, entries)
        else:  # all of it is out, and the next line may begin at this very place
            self._add(block, line.offset, text, entries, mark="end")
        del self._place.open_lines[stream]

    def _record(self, number: int) -> tuple[int, int, int, int, int]:
        found: tuple[int, int, int, int, int] = RECORD.unpack(
            os.pread(self._index, RECORD.size, number * RECORD.size)
        )
        return found

    def _take(self, block: _Block, piece: bytes, entries: list[LogEntry]) -> None:
        line = self._place.open_lines.get(block.stream)
        if line is not None:
            head, newline, rest = piece.partition(b"\n")
            line.size += len(head)
            if not newline and line.size < MAX_ENTRY_BYTES:
                return
            end = block.start + len(head)
            began = self.block(line.record, ended=True)
            began.start = line.offset
            text = self._open_bytes(block.stream, self._place.record + 1, end)
            if not newline:
                self._shorten(began, text, line, entries)
                return
            del self._place.open_lines[block.stream]
            self._add_line(began, text, line, entries)
            block.start, piece = end + 1, rest
        whole, newline, beginning = piece.rpartition(b"\n")
        if newline:
            self._add_lines(block, whole, entries)
        if beginning:
            start = block.start + len(whole) + len(newline)
            self._place.open_lines[block.stream] = _Open(self._place.record, start, size=len(beginning))
            self._shorten(block, beginning, self._place.open_lines[block.stream], entries)

    def _open_bytes(self, stream: int, stop_record: int, stop: int) -> bytes:
        """The bytes of a stream's open line, up to the offset `stop`."""
        line = self._place.open_lines[stream]
        pieces = []
        for number in range(line.record, min(stop_record, self.blocks(ended=True))):
            block = self.block(number, ended=True)
            if block.stream == stream and block.end > line.offset:
                pieces.append(self.raw(max(block.start, line.offset), min(block.end, stop)))
        return b"".join(pieces)

    def _shorten(self, block: _Block, text: bytes, line: _Open, entries: list[LogEntry]) -> None:
        if len(text) >= MAX_ENTRY_BYTES:
            self._hand_out(block, text, line, entries)

    def _hand_out(self, block: _Block, text: bytes, line: _Open, entries: list[LogEntry]) -> None:
        """Hand the beginning of a line out, as much as is whole characters; the line goes on after it."""
        found = list(parts(text, whole=False))
        if not found:
            return
        for start, part in found:
            self._add(block, line.offset + start, part, entries, partial=True)
        count = sum(len(part) for _, part in found)
        line.offset, line.record, line.continued = self._after(block.stream, line, count)
        line.size = len(text) - count

    def _after(self, stream: int, line: _Open, count: int) -> tuple[int, int, bool]:
        """The place `count` bytes of the stream after the beginning of its open line."""
        number, offset = line.record, line.offset
        while True:
            block = self.block(number, ended=True)
            offset = max(offset, block.start)
            if block.stream == stream:
                here = block.end - offset
                if count <= here or number + 1 >= self.blocks(ended=True):
                    return offset + count, number, True
                count -= here
            if number + 1 >= self.blocks(ended=True):
                return block.end, number, True
            offset = block.end
            number += 1

    def _add_line(self, block: _Block, text: bytes, line: _Open, entries: list[LogEntry]) -> None:
        if not line.continued and len(text) <= MAX_ENTRY_BYTES:
            self._add_lines(block, text, entries)
            return
        found = list(parts(text, whole=True))
        for number, (start, part) in enumerate(found, 1):
            self._add(block, block.start + start, part, entries, partial=number < len(found))

    def _add_lines(self, block: _Block, text: bytes, entries: list[LogEntry]) -> None:
        if block.stream == STDERR or not (text.startswith(b"{") or b"\n{" in text):
            self._add(block, block.start, text, entries)
            return
        for start, lines, payload in split_objects(text):
            self._add(block, block.start + start, lines, entries, payload=payload)

    def _add(
        self,
        block: _Block,
        offset: int,
        text: bytes,
        entries: list[LogEntry],
        *,
        payload: dict[str, Any] | None = None,
        partial: bool = False,
        mark: str = "",
    ) -> None:
        if block.time < self._since:
            return
        stream = _STREAMS.get(block.stream, "stdout")
        severity = _SEVERITY.get(block.stream, "INFO")
        if payload is not None:
            severity = severity_of(payload) or severity
            text = message_of(payload) or text
        entries.append(
            LogEntry(
                time=block.time,
                insert_id=f"{self._task}/{stream}/{offset}{mark}",
                severity=severity,
                task_name=self._task,
                payload=text,
                attempt=block.attempt,
                stream=stream,
                json_payload=payload,
                partial=partial,
            )
        )
