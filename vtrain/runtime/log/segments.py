"""The segments of a log, each as long as it was when it was looked at; few of their files are open at a time.

Whatever the files hold, reading takes time and memory for what was written, and not for what an index claims.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from vtrain.runtime.process.journal import (
    AFTER_DAMAGE,
    HEAD,
    INDEX_SUFFIX,
    MAX_ATTEMPT,
    RAW_SUFFIX,
    READ_AGAIN,
    RECORD,
    STDOUT,
    Record,
    is_sound,
    segment_numbers,
    segment_of,
)

_CHUNK_RECORDS = 1024
MOST_OPEN = 32
"""Files that are open at a time: a job may have a thousand replicas, a study any number of trials."""
SPARE_RECORDS = 1000
"""How many records are read of an index beyond one for each byte of its raw file, which may have been cut."""


class Spot(msgspec.Struct, array_like=True):
    """A place in a log, and what lies there: one stream, one time. `segment` and `record` are numbers."""

    time: int
    segment: int
    record: int
    start: int
    stream: int
    attempt: int


class Block(Spot):
    """A piece of a raw file, up to the offset `end`."""

    end: int


class JournalFiles:
    """The files of any number of logs. Those that were read last stay open until `close`."""

    def __init__(self) -> None:
        self._open: dict[str, int | None] = {}

    def get(self, path: str) -> int | None:
        """A descriptor for reading, good until the next call; None where no file can be read."""
        found = self._open.pop(path) if path in self._open else _open_regular(path)
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


def _open_regular(path: str) -> int | None:
    """A descriptor for reading; None where there is no file that can be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


class Segment:
    """One segment of a log, as long as it was when it was looked at."""

    def __init__(self, files: JournalFiles, base: str, number: int) -> None:
        self.number = number
        self.raw_path = f"{base}.{number}{RAW_SUFFIX}"
        self._index_path = f"{base}.{number}{INDEX_SUFFIX}"
        self._files = files
        self._chunk, self._chunk_start = b"", 0
        index, raw = self._status(self._index_path), self._status(self.raw_path)
        self.is_there = raw is not None
        self.size, self._changed = (raw.st_size, raw.st_mtime_ns) if raw is not None else (0, 0)
        self.records = min(index.st_size // RECORD.size, self.size + SPARE_RECORDS) if index and raw else 0
        head = self.record(0) if self.records else None
        is_known = head is not None and is_sound(head) and head[2] == HEAD
        self.begun, self.attempt, marks = (head[0], head[3], head[5]) if head and is_known else (0, -1, 0)
        self.is_read_again, self.is_after_damage = bool(marks & READ_AGAIN), bool(marks & AFTER_DAMAGE)

    def _status(self, path: str) -> os.stat_result | None:
        descriptor = self._files.get(path)
        return os.fstat(descriptor) if descriptor is not None else None

    def _read(self, path: str, size: int, start: int) -> bytes:
        descriptor = self._files.get(path)
        return os.pread(descriptor, size, start) if descriptor is not None else b""

    def raw(self, start: int, end: int) -> bytes:
        """The bytes between two offsets."""
        return self._read(self.raw_path, end - start, start) if end > start else b""

    def record(self, number: int) -> Record:
        """A record of the index; one that is damaged where somebody has cut the index just now."""
        position = (number - self._chunk_start) * RECORD.size
        if not 0 <= position <= len(self._chunk) - RECORD.size:
            self._chunk_start = number - number % _CHUNK_RECORDS
            size, start = _CHUNK_RECORDS * RECORD.size, self._chunk_start * RECORD.size
            self._chunk = self._read(self._index_path, size, start).ljust(size, b"\xff")
            position = (number - self._chunk_start) * RECORD.size
        found: Record = RECORD.unpack_from(self._chunk, position)
        return found

    def records_from_the_end(self) -> Iterator[tuple[int, Record]]:
        """The sound records with their numbers, the newest first."""
        for number in range(self.records - 1, -1, -1):
            record = self.record(number)
            if is_sound(record):
                yield number, record

    def rest(self) -> Block:
        """The bytes after the last record: of the attempt that wrote last, at the time of the last change."""
        _, last = next(self.records_from_the_end(), (0, None))
        moment, end, attempt = (last[0], last[1], last[3]) if last else (self._changed, 0, 0)
        return Block(moment, self.number, self.records, min(end, self.size), STDOUT, attempt, self.size)

    def blocks_from_the_end(self) -> Iterator[Block]:
        """Every block, the newest first."""
        following = self.rest()
        if self.is_read_again:
            following.end = following.start
        for number, (time_ns, end, stream, attempt, *_) in self.records_from_the_end():
            following.start = min(end, following.end)
            if following.start < following.end:
                yield following
            following = Block(time_ns, self.number, number, 0, stream, attempt, following.start)
        yield following


def newest_records(base: str, attempt: int) -> Iterator[Record]:
    """The sound records of one attempt in all its segments, the newest first."""
    with closing(JournalFiles()) as files:
        for number in reversed(segment_numbers(base)):
            for _, record in Segment(files, base, number).records_from_the_end():
                if record[3] != min(attempt, MAX_ATTEMPT):
                    return
                yield record


def list_segments(folder: Path) -> dict[str, list[int]]:
    """The numbers of the segments in a folder, by the names of their logs; none where there is no folder."""
    found: dict[str, set[int]] = defaultdict(set)
    with suppress(OSError), os.scandir(folder) as files:
        for file in files:
            name = segment_of(file.name)
            if name is not None and file.is_file(follow_symlinks=False):
                found[name[0]].add(name[1])
    return {name: sorted(numbers) for name, numbers in found.items()}
