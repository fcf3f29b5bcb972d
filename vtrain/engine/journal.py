"""A replica's log on disk: the raw bytes, and beside them when and from which stream each block came.

`NAME.log` holds what the replica wrote, byte for byte, so that people can `tail` it. `NAME.idx` holds
one record per block. Raw bytes are written first, so that a record never speaks of bytes that are not
there. Standard library only: the shim, which stores the lines, loads this file alone.
"""

from __future__ import annotations

import os
import struct
import time

RECORD = struct.Struct("<qqBB6x")
"""Time in nanoseconds since the epoch, end of the block in the raw file, stream, attempt."""

STDOUT = 1
STDERR = 2
SERVICE_WORDS = 3
"""What the engine itself says about a job, told apart from the output of the tools that it runs."""
RAW_SUFFIX = ".log"
INDEX_SUFFIX = ".idx"

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class JournalWriter:
    """Appends blocks; the only writer of its two files.

    A disk that refuses is no reason to stop a trainer: what could not be stored is counted in `lost`.
    """

    def __init__(self, base: str, attempt: int = 0) -> None:
        self.lost = 0
        self._attempt = attempt
        self._raw = os.open(base + RAW_SUFFIX, _FLAGS, 0o600)
        self._index = os.open(base + INDEX_SUFFIX, _FLAGS, 0o600)
        self._end = os.fstat(self._raw).st_size
        self._repair()

    def write(self, block: memoryview | bytes, stream: int) -> None:
        """Store one block that was read from `stream` just now."""
        stored = self._append_raw(block)
        self.lost += len(block) - stored
        if stored:
            self._end += stored
            self._append_record(stream)

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

    def _append_record(self, stream: int) -> None:
        record = RECORD.pack(time.time_ns(), self._end, stream, self._attempt)
        try:
            written = os.write(self._index, record)
        except OSError:
            return
        if written != RECORD.size:
            self._repair()

    def _repair(self) -> None:
        """Cut a torn last record off, and cover raw bytes that no record covers yet."""
        size = os.fstat(self._index).st_size
        whole = size - size % RECORD.size
        if size != whole:
            os.ftruncate(self._index, whole)
        covered = 0
        if whole:
            covered = RECORD.unpack(os.pread(self._index, RECORD.size, whole - RECORD.size))[1]
        if covered < self._end:
            self._append_record(STDOUT)
