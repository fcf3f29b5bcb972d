"""Reads one task's journal as log entries, from a place in it on.

Both files of a journal may be damaged: whatever they hold, each byte of the raw file is read once, and
reading ends.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from vtrain.messages.log import MAX_ENTRY_BYTES, LogEntry
from vtrain.runtime.journal import (
    CUT,
    INDEX_SUFFIX,
    RAW_SUFFIX,
    RECORD,
    SERVICE_WORDS,
    SPARE_RECORDS,
    STDERR,
    STDOUT,
    Record,
    is_sound,
)
from vtrain.runtime.log_text import message_of, parts, severity_of, split_objects

_STREAMS = {STDOUT: "stdout", STDERR: "stderr", SERVICE_WORDS: "service"}
_SEVERITY = {STDOUT: "INFO", STDERR: "ERROR", SERVICE_WORDS: "INFO"}
_CHUNK_RECORDS = 1024
MOST_OPEN = 32
"""Files that are open at a time: a job may have a thousand replicas, a study any number of trials."""


class OpenLine(msgspec.Struct, array_like=True):
    """A line that has begun: its first record, the offset of its first byte, and whether a part is out.

    `size` is how much of it has been seen: what is too short to hand out need not be read for each block.
    """

    record: int
    offset: int
    continued: bool = False
    size: int = 0


class Place(msgspec.Struct, array_like=True):
    """The position of a reader in one task's journal.

    `last` is time and end of the record before `record`, by which an index is known again; `cut` is the time
    at which the log was cut last, as far as it was read.
    """

    record: int = 0
    offset: int = 0
    open_lines: dict[int, OpenLine] = {}
    last: tuple[int, int] | None = None
    cut: int = 0


class Block(msgspec.Struct):
    """A piece of the raw file: one stream, one time."""

    time: int
    start: int
    end: int
    stream: int
    attempt: int


def _open_regular(path: Path) -> int | None:
    """A descriptor for reading; None where there is no file that can be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


class JournalFiles:
    """The files of any number of journals. Those that were read last stay open until `close`."""

    def __init__(self) -> None:
        self._open: dict[str, int | None] = {}

    def get(self, path: str) -> int | None:
        """A descriptor for reading, good until the next call; None where no file can be read."""
        found = self._open.pop(path) if path in self._open else _open_regular(Path(path))
        self._open[path] = found
        if len(self._open) > MOST_OPEN:
            self._forget(next(iter(self._open)))
        return found

    def close(self) -> None:
        for path in tuple(self._open):
            self._forget(path)

    def _forget(self, path: str) -> None:
        descriptor = self._open.pop(path)
        if descriptor is not None:
            os.close(descriptor)


class JournalReader:
    """One task's journal, read from a place on; the place moves with it."""

    def __init__(
        self,
        folder: Path,
        task: str,
        place: Place,
        files: JournalFiles,
        since: int = 0,
        *,
        raw: bool = False,
        by_end: bool = False,
        trial_id: str = "",
        ended_attempt: int = -1,
    ) -> None:
        """`ended_attempt`: up to it, all attempts of the replica had ended before this reader was made."""
        self._trial_id = trial_id
        self._label = f"trial-{trial_id}/{task}" if trial_id else task
        self._place = place
        self._since = since
        self._untouched = raw
        self._by_end = by_end
        self._ended_attempt = ended_attempt
        self.troubles: list[str] = []
        self._chunk, self._chunk_start = b"", 0
        base = str(folder / task)
        self._files = files
        self._index, self._raw = base + INDEX_SUFFIX, base + RAW_SUFFIX
        index, raw_file = self._status(self._index), self._status(self._raw)
        records = index.st_size // RECORD.size if index is not None else 0
        self._size = raw_file.st_size if raw_file is not None else 0
        self._records = min(records, self._size + SPARE_RECORDS)
        self._changed = raw_file.st_mtime_ns if raw_file is not None else 0
        self._tail: Block | None = None
        if raw_file is None:
            self._note(f"The log of {task} cannot be read: {self._raw} is missing or is no file.")

    def _status(self, path: str) -> os.stat_result | None:
        descriptor = self._files.get(path)
        return os.fstat(descriptor) if descriptor is not None else None

    def _read(self, path: str, size: int, start: int) -> bytes:
        descriptor = self._files.get(path)
        return os.pread(descriptor, size, start) if descriptor is not None else b""

    def blocks_from_the_end(self) -> Iterator[Block]:
        """Every block, the newest first; bytes that no record covers are the first of them."""
        following = self._uncovered()
        for number in range(self._records - 1, -1, -1):
            record = self._record(number)
            if not is_sound(record):
                continue
            following.start = min(record[1], following.end)
            if following.start < following.end:
                yield following
            following = Block(record[0], 0, following.start, record[2], record[3])
        yield following

    def raw(self, start: int, end: int) -> bytes:
        return self._read(self._raw, end - start, start) if end > start else b""

    def has_more(self, ended: bool) -> bool:
        """Whether there is a record to read; after the end, bytes that no record covers are one more."""
        return self._place.record < self._records or (ended and self._place.offset < self._size)

    def next_time(self) -> int:
        return self._next_block().time

    def read_piece(self, size: int, entries: list[LogEntry]) -> int:
        """Take at most `size` bytes of the next block apart into entries; how many it took."""
        block = self._next_block()
        if block.stream == CUT:
            self._forget_open_lines(block, entries)  # their ends are gone
            self._place.offset = min(self._record(self._place.record)[1], self._size)
            self._place.cut = block.time
            self._end_record()
            return 1
        self._end_lines_before(block.attempt, entries)
        end = min(block.end, block.start + size)
        piece = self.raw(block.start, end)
        last_newline = piece.rfind(b"\n")
        if end < block.end and last_newline >= 0:
            piece = piece[: last_newline + 1]
        self._place.offset = block.start + len(piece)
        if self._untouched:
            if piece:
                self._add(block, block.start, piece, entries, partial=True)
        else:
            self._take(block, piece, entries)
        if self._place.offset >= block.end or not piece:
            self._place.offset = max(self._place.offset, block.end)
            self._end_record()
        return len(piece) or 1

    def read_open_lines(self, entries: list[LogEntry], *, partial: bool, ended: bool) -> None:
        """Hand out lines without an end: whole where no more of them can come, with `partial` in part."""
        # Bytes that no record covers yet may go on with a line.
        is_covered = self._place.offset >= self._size
        for stream, line in sorted(self._place.open_lines.items()):
            has_ended = is_covered and self._line_block(line).attempt <= self._ended_attempt
            if ended or has_ended:
                self._end_line(stream, line, entries)
            elif partial and line.size and (line.continued or not self._may_be_object(stream, line)):
                text = self._open_bytes(stream, self._place.offset)
                self._hand_out(self._line_block(line), text, line, entries)

    def _next_block(self) -> Block:
        """The rest of the block that comes next."""
        number, start = self._place.record, self._place.offset
        if number >= self._records:
            block = self._uncovered()
            block.start = start
            return block
        time_ns, end, stream, attempt = self._record(number)[:4]
        return Block(time_ns, start, max(min(end, self._size), start), stream, attempt)

    def _uncovered(self) -> Block:
        """The bytes after the last record: of the attempt that wrote last, at the time of the last change."""
        if self._tail is None:
            numbers = range(self._records - 1, -1, -1)
            last = next((record for n in numbers if is_sound(record := self._record(n))), None)
            moment, end, attempt = (last[0], last[1], last[3]) if last else (self._changed, 0, 0)
            self._tail = Block(moment, min(end, self._size), self._size, STDOUT, attempt)
        return msgspec.structs.replace(self._tail)

    def _end_record(self) -> None:
        if self._place.record >= self._records:
            return
        self._place.last = self._record(self._place.record)[:2]
        self._place.record += 1
        self._skip_damage()

    def _skip_damage(self) -> None:
        """Go on to a record that can be trusted; it covers what those before it were about."""
        while self._place.record < self._records:
            record = self._record(self._place.record)
            if is_sound(record):
                if record[1] > self._size:
                    self._note(f"The log of {self._label} was cut: lines are missing.")
                return
            self._note(
                f"The index of the log of {self._label} is damaged: times and streams of lines may be wrong."
            )
            self._place.last = record[:2]
            self._place.record += 1

    def find_place(self, entries: list[LogEntry]) -> None:
        """Find the next record again in an index that was cut or made anew since the cursor was given."""
        place = self._place
        place.record, place.offset = max(place.record, 0), max(place.offset, 0)
        if not self._is_known(place):
            self._note(f"The log of {self._label} was cut or replaced: lines may be missing.")
            rest = [
                line.offset for line in place.open_lines.values() if line.offset + line.size == place.offset
            ]
            self._forget_open_lines(self._next_block(), entries)
            place.record, cut = self._next_after(place)
            # A line that was just being read is read again.
            place.offset = cut if cut is not None else min([place.offset, *rest])
            place.last = self._record(place.record - 1)[:2] if place.record else None
        self._skip_damage()

    def _is_known(self, place: Place) -> bool:
        """Whether the record before that place is still the one that was read."""
        if place.record > self._records:
            return False
        return place.last is None or place.record == 0 or self._record(place.record - 1)[:2] == place.last

    def _next_after(self, place: Place) -> tuple[int, int | None]:
        """The first cut since that place, and where it left the log; else the first record about more."""
        beyond = self._records
        for number in range(self._records):
            record = self._record(number)
            if is_sound(record):
                if record[2] == CUT and record[0] > place.cut:
                    return number, record[1]
                if record[1] > place.offset:
                    beyond = min(beyond, number)
        return beyond, None

    def _forget_open_lines(self, block: Block, entries: list[LogEntry]) -> None:
        for stream, line in sorted(self._place.open_lines.items()):
            if line.continued:  # a part of it is out: here it ends
                block.stream = stream
                self._add(block, line.offset, b"", entries, mark="end")
        self._place.open_lines.clear()

    def _note(self, trouble: str) -> None:
        if trouble not in self.troubles:
            self.troubles.append(trouble)

    def _end_lines_before(self, attempt: int, entries: list[LogEntry]) -> None:
        """End the lines that an earlier attempt has left without a newline."""
        for stream, line in sorted(self._place.open_lines.items()):
            if self._line_block(line).attempt < attempt:
                self._end_line(stream, line, entries)

    def _end_line(self, stream: int, line: OpenLine, entries: list[LogEntry]) -> None:
        block = self._line_block(line)
        text = self._open_bytes(stream, self._place.offset)
        if text or not line.continued:
            self._add_line(block, text, line, entries)
        else:  # all of it is out, and the next line may begin at this very place
            self._add(block, line.offset, text, entries, mark="end")
        del self._place.open_lines[stream]

    def _may_be_object(self, stream: int, line: OpenLine) -> bool:
        return stream == STDOUT and self.raw(line.offset, line.offset + 1) == b"{"

    def _line_block(self, line: OpenLine) -> Block:
        """The block in which a line began, from the line on."""
        if line.record >= self._records:
            block = self._uncovered()
            block.start = line.offset
            return block
        time_ns, end, stream, attempt = self._record(line.record)[:4]
        return Block(time_ns, line.offset, end, stream, attempt)

    def _record(self, number: int) -> Record:
        """A record of the index; one that is damaged where somebody has cut the index just now."""
        position = (number - self._chunk_start) * RECORD.size
        if not 0 <= position <= len(self._chunk) - RECORD.size:
            self._chunk_start = number - number % _CHUNK_RECORDS
            size, start = _CHUNK_RECORDS * RECORD.size, self._chunk_start * RECORD.size
            self._chunk = self._read(self._index, size, start).ljust(size, b"\xff")
            position = (number - self._chunk_start) * RECORD.size
        found: Record = RECORD.unpack_from(self._chunk, position)
        return found

    def _take(self, block: Block, piece: bytes, entries: list[LogEntry]) -> None:
        line = self._place.open_lines.get(block.stream)
        if line is not None:
            head, newline, rest = piece.partition(b"\n")
            line.size += len(head)
            if not newline and line.size < MAX_ENTRY_BYTES:
                return
            end = block.start + len(head)
            began = self._line_block(line)
            began.time = block.time if self._by_end else began.time
            text = self._open_bytes(block.stream, end)
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
            self._place.open_lines[block.stream] = OpenLine(self._place.record, start, size=len(beginning))
            self._shorten(block, beginning, self._place.open_lines[block.stream], entries)

    def _stream_pieces(self, stream: int, line: OpenLine, stop: int) -> Iterator[tuple[int, int, int]]:
        """The places of a stream's bytes from its open line up to `stop`: record, start, end."""
        position = line.offset
        for number in range(line.record, self._records):
            record = self._record(number)
            if not is_sound(record):
                continue
            end = max(min(record[1], stop), position)
            if record[2] == stream and end > position:
                yield number, position, end
            position = end
            if position >= stop:
                return
        if stream == STDOUT and position < stop:
            yield self._records, position, stop

    def _open_bytes(self, stream: int, stop: int) -> bytes:
        """The bytes of a stream's open line, up to the offset `stop`."""
        line = self._place.open_lines[stream]
        return b"".join(self.raw(start, end) for _, start, end in self._stream_pieces(stream, line, stop))

    def _shorten(self, block: Block, text: bytes, line: OpenLine, entries: list[LogEntry]) -> None:
        if len(text) >= MAX_ENTRY_BYTES:
            self._hand_out(block, text, line, entries)

    def _hand_out(self, block: Block, text: bytes, line: OpenLine, entries: list[LogEntry]) -> None:
        """Hand the beginning of a line out, as much as is whole characters; the line goes on after it."""
        found = list(parts(text, whole=False))
        if not found:
            return
        for start, part in found:
            self._add(block, line.offset + start, part, entries, partial=True)
        count = sum(len(part) for _, part in found)
        for number, start, end in self._stream_pieces(block.stream, line, self._place.offset):
            if count <= end - start:
                line.record, line.offset, line.continued = number, start + count, True
                break
            count -= end - start
        line.size = len(text) - sum(len(part) for _, part in found)

    def _add_line(self, block: Block, text: bytes, line: OpenLine, entries: list[LogEntry]) -> None:
        if not line.continued and len(text) <= MAX_ENTRY_BYTES:
            self._add_lines(block, text, entries)
            return
        found = list(parts(text, whole=True))
        for number, (start, part) in enumerate(found, 1):
            self._add(block, block.start + start, part, entries, partial=number < len(found))

    def _add_lines(self, block: Block, text: bytes, entries: list[LogEntry]) -> None:
        if block.stream == STDERR or not (text.startswith(b"{") or b"\n{" in text):
            self._add(block, block.start, text, entries)
            return
        for start, lines, payload in split_objects(text):
            self._add(block, block.start + start, lines, entries, payload=payload)

    def _add(
        self,
        block: Block,
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
        again = f"~{self._place.cut}" if self._place.cut else ""  # offsets come again after a cut
        severity = _SEVERITY.get(block.stream, "INFO")
        if payload is not None:
            severity = severity_of(payload) or severity
            text = message_of(payload) or text
        entries.append(
            LogEntry(
                time=block.time,
                insert_id=f"{self._label}/{stream}/{offset}{mark}{again}",
                severity=severity,
                task_name=self._label,
                trial_id=self._trial_id,
                payload=text,
                attempt=block.attempt,
                stream=stream,
                json_payload=payload,
                partial=partial,
            )
        )
