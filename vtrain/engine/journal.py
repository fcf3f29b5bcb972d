"""A replica's log on disk: the raw bytes, and beside them when and from which stream each block came.

`NAME.log` holds what the replica wrote, byte for byte, so that people can `tail` it. `NAME.idx` holds
one record per block. Raw bytes are written first, so that a record never speaks of bytes that are not
there. Standard library only: the shim, which stores the lines, loads this file alone.
"""

from __future__ import annotations

import errno
import os
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = struct.Struct("<qqBBxxI")
"""Time in nanoseconds since the epoch, end of the block in the raw file, stream, attempt; and how many pieces
of a container's log bear that time, so that reading it can go on after them."""

STDOUT = 1
STDERR = 2
SERVICE_WORDS = 3
"""What the engine itself says about a job, told apart from the output of the tools that it runs."""
RAW_SUFFIX = ".log"
INDEX_SUFFIX = ".idx"

_SCAN_BYTES = RECORD.size * 4096
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class JournalWriter:
    """Appends blocks; the only writer of its two files.

    A disk that refuses is no reason to stop a trainer: what could not be stored is counted in `lost`.
    """

    def __init__(self, base: str, attempt: int = 0, *, from_pipe: bool = True, goes_on: bool = False) -> None:
        """What came `from_pipe` cannot be read again: what fits is stored. Else a block is all or nothing.

        `goes_on`: another writer has begun this attempt, and has died.
        """
        self.lost = 0
        self._from_pipe = from_pipe
        self._attempt = attempt
        self._raw = os.open(base + RAW_SUFFIX, _FLAGS, 0o600)
        self._index = os.open(base + INDEX_SUFFIX, _FLAGS, 0o600)
        self._end = os.fstat(self._raw).st_size
        self._repair(goes_on)

    def write(self, block: memoryview | bytes, stream: int, time_ns: int = 0, pieces: int = 0) -> None:
        """Store one block that was written to `stream` at that time, by default just now.

        Raises OSError where what can be read again was not stored.
        """
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

    def records(self) -> Iterator[tuple[int, int, int, int, int]]:
        """What the index holds, the newest first."""
        size = os.fstat(self._index).st_size
        for end in range(size, 0, -_SCAN_BYTES):
            start = max(end - _SCAN_BYTES, 0)
            yield from reversed([*RECORD.iter_unpack(os.pread(self._index, end - start, start))])

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
        record = RECORD.pack(time_ns or time.time_ns(), self._end, stream, number, pieces)
        try:
            written = os.write(self._index, record)
        except OSError:
            return False
        if written != RECORD.size:
            os.ftruncate(self._index, os.fstat(self._index).st_size - written)
        return written == RECORD.size

    def _repair(self, goes_on: bool) -> None:
        """Cut a torn last record off; then cover raw bytes that no record covers yet, or cut them off."""
        size = os.fstat(self._index).st_size
        whole = size - size % RECORD.size
        if size != whole:
            os.ftruncate(self._index, whole)
        covered = attempt = 0
        if whole:
            _, covered, _, attempt, _ = RECORD.unpack(os.pread(self._index, RECORD.size, whole - RECORD.size))
        if covered < self._end and self._from_pipe:
            writer = self._attempt - (not goes_on)  # else the attempt before this wrote it
            self._append_record(STDOUT, attempt=max(attempt, writer))
        elif covered < self._end:
            os.ftruncate(self._raw, covered)
            self._end = covered
