"""A container's log in the job's journal: every piece once, whoever read it, however often.

The journal itself remembers how far reading has come: the last record of a stream holds the time of its
last piece and how many pieces bore it. Times are unique and rising within a stream and not across streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from vtrain.backends.docker.frames import Piece
from vtrain.engine.journal import STDERR, STDOUT, JournalWriter

BLOCK_NS = 10_000_000
"""Pieces this far apart go into blocks of their own, which have one time each."""
OVERLAP_NS = 2_000_000_000
"""How much earlier than the last time reading goes on, as the streams' times are not in order."""
FIRST_TAIL = 256
TAIL_GROWTH = 8


class Cursor(msgspec.Struct, frozen=True):
    """The time of a stream's last piece in nanoseconds, and how many of its pieces bore it."""

    time: int
    pieces: int


class Transcript:
    """The journal of one replica, written from what the engine kept of its log."""

    def __init__(self, base: str, attempt: int) -> None:
        self._journal = JournalWriter(base, attempt, from_pipe=False)
        self._cursors = self._recall(attempt)
        self._behind: dict[int, Cursor] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing of this attempt is stored."""
        return not self._cursors

    def resume(self) -> int:
        """From when on the log has to be read again, in nanoseconds; 0 means from its beginning.

        What is taken next may repeat what is there; it is left out.
        """
        self._behind = dict(self._cursors)
        if not self._cursors:
            return 0
        return max(min(cursor.time for cursor in self._cursors.values()) - OVERLAP_NS, 0)

    def take(self, pieces: Iterable[Piece]) -> None:
        """Store what is new. Raises OSError where the disk refuses; what was not stored can be read again."""
        stream = begun = 0
        texts: list[bytes] = []
        cursor = Cursor(0, 0)
        for piece_stream, time, text in pieces:
            if self._behind and self._is_there(piece_stream, time):
                continue
            if texts and (piece_stream != stream or not 0 <= time - begun < BLOCK_NS):
                self._store(stream, texts, cursor)
                texts = []
            if not texts:
                stream, begun, cursor = piece_stream, time, self._cursors.get(piece_stream, Cursor(0, 0))
            texts.append(text)
            cursor = Cursor(time, cursor.pieces + 1 if cursor.time == time else 1)
        if texts:
            self._store(stream, texts, cursor)

    def drain(self, read_tail: Callable[[int], list[Piece]]) -> None:
        """Store the end of the log, which a follower can miss. `read_tail` reads that many last pieces."""
        count = FIRST_TAIL
        while True:
            pieces = read_tail(count)
            if len(pieces) < count or self._covers(pieces):
                break
            count *= TAIL_GROWTH
        self.resume()
        self.take(pieces)
        self._behind = {}

    def close(self) -> None:
        """Hand everything to the disk."""
        self._journal.close()

    def _recall(self, attempt: int) -> dict[int, Cursor]:
        cursors: dict[int, Cursor] = {}
        for time, _, stream, number, _, pieces in self._journal.records():
            if number != attempt or len(cursors) == 2:
                break
            if stream in (STDOUT, STDERR) and pieces:
                cursors.setdefault(stream, Cursor(time, pieces))
        return cursors

    def _is_there(self, stream: int, time: int) -> bool:
        cursor = self._behind.get(stream)
        if cursor is None:
            return False
        if time < cursor.time:
            return True
        if time == cursor.time and cursor.pieces:
            self._behind[stream] = Cursor(time, cursor.pieces - 1)
            return True
        del self._behind[stream]
        return False

    def _covers(self, pieces: list[Piece]) -> bool:
        """Whether these last pieces reach back to what is stored: only the end of a log is ever missed."""
        if not self._cursors:
            return False
        latest = max(self._cursors, key=lambda stream: self._cursors[stream].time)
        reached = self._cursors[latest].time
        return any(stream == latest and time < reached for stream, time, _ in pieces)

    def _store(self, stream: int, texts: list[bytes], cursor: Cursor) -> None:
        self._journal.write(b"".join(texts), stream, cursor.time, cursor.pieces)
        self._cursors[stream] = cursor
