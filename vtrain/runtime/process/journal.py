"""A replica's log on disk: the raw bytes, and beside them when and from which stream each block came.

A log has segments. `NAME.K.log` holds what the replica wrote, byte for byte, so that people can `tail` it,
and `NAME.K.idx` one record per block. Raw bytes are written first, so that a record never speaks of bytes
that are not there. Each writer begins a segment of its own, with a number above all that are there, and
touches no other. If somebody cuts, removes or replaces its files, it goes on in its next segment.
Standard library only: the shim, which stores the lines, loads this file alone.
"""

# ruff: noqa: PTH102, PTH104, PTH112, PTH120, PTH208
# pathlib would cost the shim more than all the rest of its start.

from __future__ import annotations

import errno
import os
import struct
import time
from binascii import crc32
from contextlib import ExitStack, suppress

RECORD = struct.Struct("<qqBHBI")
"""Time in nanoseconds since the epoch, end of the block in the raw file, stream, attempt, check; and how many
pieces of a container's log bear that time, so that reading it can go on after them.

The check makes damage known.
"""

HEAD = 0
"""The stream of a segment's first record, which covers no bytes: its time is that of the segment's begin.

Where other records have pieces it has the marks below.
"""
STDOUT = 1
STDERR = 2
SERVICE_WORDS = 3
"""The runtime's own lines about a job, as distinct from the output of the tools that it runs."""
READ_AGAIN = 1
"""The mark of a segment whose writer stores again what it has not recorded: nobody else may show that."""
AFTER_DAMAGE = 2
"""The mark of a segment whose writer found its files cut, removed or replaced."""
RAW_SUFFIX = ".log"
INDEX_SUFFIX = ".idx"
MAX_ATTEMPT = 0xFFFF
LOOK_SECONDS = 0.05
"""How often a writer looks whether its files are in their place. That the log was cut is seen at once."""

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_STREAMS = (HEAD, STDOUT, STDERR, SERVICE_WORDS)
_MOST_DIGITS = 9

Record = tuple[int, int, int, int, int, int]


def pack_record(time_ns: int, end: int, stream: int, attempt: int, pieces: int) -> bytes:
    """A record with its check."""
    attempt = min(attempt, MAX_ATTEMPT)
    check = _check(time_ns, end, stream, attempt, pieces)
    return RECORD.pack(time_ns, end, stream, attempt, check, pieces)


def is_sound(record: Record) -> bool:
    """Whether a record is as it was written."""
    time_ns, end, stream, attempt, check, pieces = record
    if stream not in _STREAMS or end < 0 or time_ns < 0:
        return False
    return check == _check(time_ns, end, stream, attempt, pieces)


def _check(time_ns: int, end: int, stream: int, attempt: int, pieces: int) -> int:
    """One byte that is never 0: a record of zeros is damaged."""
    return crc32(RECORD.pack(time_ns, end, stream, attempt, 0, pieces)) % 255 + 1


def segment_of(file: str) -> tuple[str, int] | None:
    """The log and the segment to which a file belongs, by its name; None for any other file."""
    rest, _, suffix = file.rpartition(".")
    name, _, number = rest.rpartition(".")
    is_number = number.isdecimal() and len(number) <= _MOST_DIGITS
    return (name, int(number)) if name and is_number and f".{suffix}" in (RAW_SUFFIX, INDEX_SUFFIX) else None


def segment_numbers(base: str) -> list[int]:
    """The numbers of the segments of a log that are there, and of anything else that has such a name."""
    folder, name = os.path.split(base)
    try:
        found = [segment_of(file) for file in os.listdir(folder)]
    except OSError:
        return []
    return sorted({each[1] for each in found if each is not None and each[0] == name})


class JournalWriter:
    """Appends blocks to segments that nobody else writes. One is begun by the first block.

    A disk that refuses is no reason to stop a trainer: what could not be stored is counted in `lost`.
    """

    def __init__(self, base: str, attempt: int = 0, *, from_pipe: bool = True) -> None:
        """Bytes `from_pipe` cannot be read again, so what fits is stored. Else a block is all or nothing.

        The first writer of a log begins a segment at once: a log that was removed is not one without a line.
        Raises OSError where it cannot, unless it writes `from_pipe`.
        """
        self.lost = 0
        self._from_pipe = from_pipe
        self._attempt = attempt
        self._base = base
        self._number = -1
        self._raw = self._index = -1
        self._end = self._index_size = 0
        self._next_look = 0.0
        if not segment_numbers(base):
            try:
                self._begin()
            except OSError:
                if not from_pipe:
                    raise

    def write(self, block: memoryview | bytes, stream: int, time_ns: int = 0, pieces: int = 0) -> None:
        """Store one block that was written to `stream` at that time, by default just now.

        Raises OSError where what can be read again was not stored.
        """
        try:
            self._find_place()
        except OSError:
            if not self._from_pipe:
                raise
            self.lost += len(block)
            return
        stored = self._append_raw(block)
        end = self._end + stored
        if self._from_pipe:
            if stored:
                self._append_record(end, stream, time_ns, pieces)
        elif stored < len(block) or not self._append_record(end, stream, time_ns, pieces):
            os.ftruncate(self._raw, self._end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._end = end
        self.lost += len(block) - stored

    def close(self) -> None:
        """Hand everything to the disk."""
        for descriptor in (self._raw, self._index) if self._raw >= 0 else ():
            try:
                os.fsync(descriptor)
            except OSError:
                self.lost = self.lost or 1
            os.close(descriptor)
        self._raw = self._index = -1

    def _find_place(self) -> None:
        """Begin a segment where there is none yet, or where somebody has changed the present one."""
        if self._raw < 0:
            self._begin()
        elif not self._is_in_place():
            with suppress(OSError):  # then into the files that are open still: there is no other place
                self._begin(AFTER_DAMAGE)

    def _is_in_place(self) -> bool:
        """Whether the files are where, and as long as, this writer has left them."""
        now = time.monotonic()
        if now < self._next_look and os.lseek(self._raw, 0, os.SEEK_END) == self._end:
            return True
        self._next_look = now + LOOK_SECONDS
        path = f"{self._base}.{self._number}"
        try:
            raw, index = os.lstat(path + RAW_SUFFIX), os.lstat(path + INDEX_SUFFIX)
        except OSError:
            return False
        is_own = os.path.samestat(raw, os.fstat(self._raw)) and os.path.samestat(index, os.fstat(self._index))
        return is_own and (raw.st_size, index.st_size) == (self._end, self._index_size)

    def _begin(self, mark: int = 0) -> None:
        """Begin the next segment. Raises OSError; the present one stays open then."""
        folder = os.path.dirname(self._base)
        if not os.path.isdir(folder):
            if os.path.lexists(folder):
                os.rename(folder, f"{folder}.damaged-{time.time_ns()}")
            os.mkdir(folder, 0o700)
        marks = mark | (0 if self._from_pipe else READ_AGAIN)
        head = pack_record(time.time_ns(), 0, HEAD, self._attempt, marks)
        number = max(segment_numbers(self._base), default=-1) + 1
        try:
            opened = _create(f"{self._base}.{number}", head)
        except FileExistsError:  # a writer that begins at the same moment was faster
            number += 1
            opened = _create(f"{self._base}.{number}", head)
        for descriptor in (self._raw, self._index) if self._raw >= 0 else ():
            os.close(descriptor)
        self._number, (self._raw, self._index) = number, opened
        self._end, self._index_size = 0, len(head)

    def _append_raw(self, block: memoryview | bytes) -> int:
        stored = 0
        while stored < len(block):
            try:
                stored += os.write(self._raw, block[stored:])
            except OSError:
                return stored
        return stored

    def _append_record(self, end: int, stream: int, time_ns: int, pieces: int) -> bool:
        """Whether the record is there. Without one the next record covers what this one should have."""
        record = pack_record(time_ns or time.time_ns(), end, stream, self._attempt, pieces)
        try:
            written = os.write(self._index, record)
        except OSError:
            return False
        if written != RECORD.size:
            os.ftruncate(self._index, self._index_size)
            return False
        self._index_size += written
        return True


def _create(path: str, head: bytes) -> tuple[int, int]:
    """The two files of a new segment, open. Raises OSError; neither is there then."""
    with ExitStack() as undo:
        opened = []
        for file in (path + RAW_SUFFIX, path + INDEX_SUFFIX):
            opened.append(os.open(file, _FLAGS, 0o600))
            undo.callback(os.unlink, file)
            undo.callback(os.close, opened[-1])
        if os.write(opened[1], head) != len(head):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        undo.pop_all()
        return opened[0], opened[1]
