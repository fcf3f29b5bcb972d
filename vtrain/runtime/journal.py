"""A replica's log on disk: the raw bytes, and beside them when and from which stream each block came.

`NAME.log` holds what the replica wrote, byte for byte, so that people can `tail` it. `NAME.idx` holds
one record per block. Raw bytes are written first, so that a record never speaks of bytes that are not
there. Somebody else may cut, remove or replace both files at any time: the writer goes on with what is left.
Standard library only: the shim, which stores the lines, loads this file alone.
"""

# ruff: noqa: PTH102, PTH104, PTH120
# pathlib would cost the shim more than all the rest of its start.

from __future__ import annotations

import errno
import os
import stat
import struct
import time
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = struct.Struct("<qqBHBI")
"""Time in nanoseconds since the epoch, end of the block in the raw file, stream, attempt, check; and how many
pieces of a container's log bear that time, so that reading it can go on after them.

The check makes damage known.
"""

STDOUT = 1
STDERR = 2
SERVICE_WORDS = 3
"""The runtime's own lines about a job, told apart from the output of the tools that it runs."""
CUT = 4
"""The stream of a record without bytes: somebody had cut or replaced the log, which goes on at its end."""
RAW_SUFFIX = ".log"
INDEX_SUFFIX = ".idx"
MAX_ATTEMPT = 0xFFFF
SPARE_RECORDS = 1000
"""How many records an index may hold beyond one for each byte of its log: those about cuts have no bytes."""
LOOK_SECONDS = 0.05
"""How often a writer looks whether its files are in their place. That the log was cut is seen at once."""

_SCAN_BYTES = RECORD.size * 4096
# A trainer may put a link or a FIFO in the place of its log: no link is followed, and no reader waited for.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_STREAMS = (STDOUT, STDERR, SERVICE_WORDS, CUT)
_NO_FILE = (errno.EISDIR, errno.ENXIO, errno.ELOOP)
"""The answers of open(2) to a folder, a socket and a link."""

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


class JournalWriter:
    """Appends blocks; the only writer of its two files.

    A disk that refuses is no reason to stop a trainer: what could not be stored is counted in `lost`.
    """

    def __init__(self, base: str, attempt: int = 0, *, from_pipe: bool = True, goes_on: bool = False) -> None:
        """Bytes `from_pipe` cannot be read again, so what fits is stored. Else a block is all or nothing.

        `goes_on`: another writer has begun this attempt, and has died.
        """
        self.lost = 0
        self._from_pipe = from_pipe
        self._attempt = attempt
        self._base = base
        self._raw = _open_regular(base + RAW_SUFFIX)
        self._index = _open_regular(base + INDEX_SUFFIX)
        self._end = os.fstat(self._raw).st_size
        self._next_look = 0.0
        writer = attempt - (not goes_on)  # of what no record covers
        self._repair(writer, drops=not from_pipe)
        if attempt and not from_pipe and not (self._end or self._index_size):
            # Bytes beside an empty index would be of any attempt. With a record they are of this one.
            self._append_record(STDOUT)

    def write(self, block: memoryview | bytes, stream: int, time_ns: int = 0, pieces: int = 0) -> None:
        """Store one block that was written to `stream` at that time, by default just now.

        Raises OSError where what can be read again was not stored.
        """
        self._look_after_files()
        stored = self._append_raw(block)
        if stored < len(block) and not self._from_pipe:
            self._take_back()
        self.lost += len(block) - stored
        if stored:
            self._end += stored
            recorded = self._append_record(stream, time_ns, pieces)
            if not recorded and not self._from_pipe:
                self._end -= stored
                self._take_back()

    def records(self) -> Iterator[Record]:
        """The sound records of the index, the newest first."""
        return (record for _, record in self._records_from_the_end() if is_sound(record))

    def close(self) -> None:
        """Hand everything to the disk."""
        for descriptor in (self._raw, self._index):
            try:
                os.fsync(descriptor)
            except OSError:
                self.lost = self.lost or 1
            os.close(descriptor)

    def _append_raw(self, block: memoryview | bytes) -> int:
        stored = 0
        while stored < len(block):
            try:
                stored += os.write(self._raw, block[stored:])
            except OSError:
                return stored
        return stored

    def _take_back(self) -> None:
        os.ftruncate(self._raw, self._end)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _append_record(
        self, stream: int, time_ns: int = 0, pieces: int = 0, *, attempt: int | None = None
    ) -> bool:
        """Whether the record is there. Without one the next record covers what this one should have."""
        number = self._attempt if attempt is None else attempt
        record = pack_record(time_ns or time.time_ns(), self._end, stream, number, pieces)
        try:
            written = os.write(self._index, record)
        except OSError:
            return False
        if written != RECORD.size:
            os.ftruncate(self._index, os.fstat(self._index).st_size - written)
            return False
        self._index_size += written
        return True

    def _look_after_files(self) -> None:
        """Go on in a log that somebody has cut, removed, renamed or replaced since the last block."""
        now = time.monotonic()
        if now < self._next_look and os.lseek(self._raw, 0, os.SEEK_END) == self._end:
            return
        self._next_look = now + LOOK_SECONDS
        try:
            raw, index = os.lstat(self._base + RAW_SUFFIX), os.lstat(self._base + INDEX_SUFFIX)
            own_raw, own_index = os.fstat(self._raw), os.fstat(self._index)
            is_ours = os.path.samestat(raw, own_raw) and os.path.samestat(index, own_index)
            if is_ours and (raw.st_size, index.st_size) == (self._end, self._index_size):
                return
        except OSError:
            is_ours = False
        before = os.fstat(self._raw)
        try:
            if not is_ours:
                self._open_again()
        except OSError:
            return  # into the files that are open still: there is no other place
        found = os.fstat(self._raw)
        is_another = not os.path.samestat(before, found)
        if is_another:  # of which the index says nothing
            os.ftruncate(self._index, 0)
        is_cut = is_another or found.st_size < self._end
        self._end = found.st_size
        self._repair(self._attempt, is_cut=is_cut)

    def _open_again(self) -> None:
        raw = _open_regular(self._base + RAW_SUFFIX)
        try:
            index = _open_regular(self._base + INDEX_SUFFIX)
        except OSError:
            os.close(raw)
            raise
        for descriptor in (self._raw, self._index):
            os.close(descriptor)
        self._raw, self._index = raw, index

    def _repair(self, writer: int, *, drops: bool = False, is_cut: bool = False) -> None:
        """Let the index fit the raw bytes: they cover each other when this is done.

        Records at its end that are torn, damaged, or about bytes that are gone are cut off. Raw bytes that no
        record covers were written by the attempt `writer`, or are cut off too (`drops`).
        """
        kept, covered, attempt, misfits, is_short = self._last_fitting()
        is_damaged = misfits > 0 or (kept == 0 and self._attempt > 0)
        os.ftruncate(self._index, kept)
        self._index_size = kept
        # Only the present attempt is read again, and of a damaged index nobody knows which one wrote last.
        if covered < self._end and drops and not (is_damaged and attempt < self._attempt):
            os.ftruncate(self._raw, covered)
            self._end = covered
        elif covered < self._end:
            self._append_record(STDOUT, attempt=max(attempt, writer))
        if is_cut or is_short:
            self._append_record(CUT)

    def _last_fitting(self) -> tuple[int, int, int, int, bool]:
        """The last record about bytes that are there: its end in the index, their end, its attempt.

        And how many records after it do not fit, and whether one of them is about bytes that are gone.
        """
        misfits, is_short = 0, False
        for end, record in self._records_from_the_end():
            if is_sound(record):
                if record[1] <= self._end:
                    return end, record[1], record[3], misfits, is_short
                is_short = True
            misfits += 1
        return 0, 0, 0, misfits, is_short

    def _records_from_the_end(self) -> Iterator[tuple[int, Record]]:
        """Every whole record, the newest first, and where it ends in the index."""
        size = min(os.fstat(self._index).st_size, (self._end + SPARE_RECORDS) * RECORD.size)
        whole = size - size % RECORD.size
        for end in range(whole, 0, -_SCAN_BYTES):
            start = max(end - _SCAN_BYTES, 0)
            part = os.pread(self._index, end - start, start)
            records = [*RECORD.iter_unpack(part[: len(part) - len(part) % RECORD.size])]
            for number in range(len(records), 0, -1):
                yield start + number * RECORD.size, records[number - 1]


def _open_regular(path: str) -> int:
    """Open a file for appending; make it and its folder where they are missing. Anything else is renamed."""
    try:
        descriptor = os.open(path, _FLAGS, 0o600)
    except (FileNotFoundError, NotADirectoryError):
        folder = os.path.dirname(path)
        if os.path.lexists(folder):
            _set_aside(folder)
        os.mkdir(folder, 0o700)
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        _set_aside(path)
    else:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        _set_aside(path)
    return os.open(path, _FLAGS, 0o600)


def _set_aside(path: str) -> None:
    os.rename(path, f"{path}.damaged-{time.time_ns()}")
