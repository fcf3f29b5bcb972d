"""A container's log: from chunks and frames of the engine's stream to the job's journal, every piece once.

Source: the Engine API's "Attach to a container" (a frame is one byte for the stream, three of zero, four
for the length, and the payload) and `timestamps=1` (each payload begins with an RFC 3339 time and a
space). A line of more than 16 KiB comes in pieces that bear the same time; only the last ends in a newline.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPResponse

import msgspec

from vtrain.runtime.journal import STDERR, STDOUT, JournalWriter
from vtrain.times import NANOSECONDS, nanoseconds

Piece = tuple[int, int, bytes]
"""Stream (1 stdout, 2 stderr), time in nanoseconds since the epoch, text."""

ENGINE_STREAM = 3
"""Frames with the engine's own error about reading the log: they bear no time."""

READ_BYTES = 256 * 1024
BUSY_PAUSE_SECONDS = 0.002
"""Pause between reads under load, so that one read takes many lines."""

_HEADER = struct.Struct(">BxxxL")


def read_pieces(response: HTTPResponse, frames: FrameReader) -> Iterator[list[Piece]]:
    """The pieces in a response to `containers/ID/logs?timestamps=1`, as they come; ends with the stream.

    Raises OSError where the connection breaks.
    """
    last_read = 0.0
    for block in read_blocks(response):
        pieces = frames.feed(block)
        if pieces:
            yield pieces
        now = time.monotonic()
        if now - last_read < 2 * BUSY_PAUSE_SECONDS:
            time.sleep(BUSY_PAUSE_SECONDS)
        last_read = now


def read_blocks(response: HTTPResponse) -> Iterator[bytes]:
    """The body as far as it is there, the transfer coding taken off: the library hands out single chunks."""
    buffered = response.fp
    if not response.chunked:
        while block := buffered.read1(READ_BYTES):
            yield block
        return
    chunks = ChunkReader()
    while not chunks.ended:
        block = buffered.read1(READ_BYTES)
        if not block:
            raise ConnectionResetError("the engine closed the log in the middle of it")
        yield chunks.feed(block)


class ChunkReader:
    """HTTP/1.1's chunked transfer coding (RFC 9112, section 7.1), taken off."""

    def __init__(self) -> None:
        self.ended = False
        self._held = b""

    def feed(self, block: bytes) -> bytes:
        """The content of the chunks that are whole now."""
        data, start, content = self._held + block, 0, []
        while not self.ended:
            line_end = data.find(b"\r\n", start)
            if line_end < 0:
                break
            size = int(data[start:line_end].partition(b";")[0], 16)
            end = line_end + 2 + size
            if end + 2 > len(data):
                break
            content.append(data[line_end + 2 : end])
            self.ended = size == 0
            start = end + 2
        self._held = data[start:]
        return b"".join(content)


class FrameReader:
    """Frames, whole ones only; what has only begun waits for the next block.

    `error` is what the engine, or a frame that makes no sense, says of a part that cannot be read.
    """

    def __init__(self) -> None:
        self.error = ""
        self._held = b""
        self._second = b""
        self._second_ns = 0

    def feed(self, block: bytes) -> list[Piece]:
        """The pieces that are whole now."""
        data, start = self._held + block, 0
        pieces: list[Piece] = []
        while start + 8 <= len(data):
            stream, size = _HEADER.unpack_from(data, start)
            end = start + 8 + size
            if end > len(data):
                break
            self._add(stream, data[start + 8 : end], pieces)
            start = end
        self._held = data[start:]
        return pieces

    def _add(self, stream: int, payload: bytes, pieces: list[Piece]) -> None:
        stamp, _, text = payload.partition(b" ")
        try:
            if stream != ENGINE_STREAM:
                pieces.append((stream, self._nanoseconds(stamp), text))
                return
        except ValueError:  # no time: the engine's file was damaged
            stream = ENGINE_STREAM
        self.error = " ".join(payload.decode("utf-8", "replace").split()).rstrip(".")

    def _nanoseconds(self, stamp: bytes) -> int:
        is_usual = len(stamp) == 30 and stamp.endswith(b"Z")  # nine digits, in UTC
        if is_usual and stamp[:19] == self._second:
            return self._second_ns + int(stamp[20:29])
        found = nanoseconds(stamp.decode())
        if is_usual:
            self._second, self._second_ns = stamp[:19], found - found % NANOSECONDS
        return found


BLOCK_NS = 10_000_000
"""Pieces this far apart go into blocks of their own, which have one time each."""
OVERLAP_NS = 2_000_000_000
"""Reading goes on so much earlier than the last time, as the streams' times are not in order."""
FIRST_TAIL = 256
TAIL_GROWTH = 8
LARGEST_TAIL = 2048
"""Pieces of 16 KiB: such a tail is read whole, into memory. A longer one is read as a stream."""


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

    def resume(self) -> int:
        """The time from which the log has to be read again, in nanoseconds; 0 means all of it.

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
        for piece_stream, moment, text in pieces:
            if self._behind and self._is_there(piece_stream, moment):
                continue
            if texts and (piece_stream != stream or not 0 <= moment - begun < BLOCK_NS):
                self._store(stream, texts, cursor)
                texts = []
            if not texts:
                stream, begun, cursor = piece_stream, moment, self._cursors.get(piece_stream, Cursor(0, 0))
            texts.append(text)
            cursor = Cursor(moment, cursor.pieces + 1 if cursor.time == moment else 1)
        if texts:
            self._store(stream, texts, cursor)

    def drain(
        self,
        read_tail: Callable[[int], list[Piece]],
        read_since: Callable[[int], Iterable[list[Piece]]],
    ) -> None:
        """Store the end of the log, which a follower can miss.

        `read_tail` reads that many last pieces, and `read_since` all from a time on, in nanoseconds. The tail
        is tried first: the engine finds it at once, while it searches a time from the log's beginning.
        """
        count, pieces = FIRST_TAIL, read_tail(FIRST_TAIL)
        while not (is_enough := len(pieces) < count or self._covers(pieces)) and count < LARGEST_TAIL:
            count *= TAIL_GROWTH
            pieces = read_tail(count)
        since = self.resume()
        for part in [self._beyond_stored(pieces)] if is_enough else read_since(since):
            self.take(part)
        self._behind = {}

    def close(self) -> None:
        """Hand everything to the disk."""
        self._journal.close()

    def _recall(self, attempt: int) -> dict[int, Cursor]:
        cursors: dict[int, Cursor] = {}
        for moment, _, stream, number, _, pieces in self._journal.records():
            if number != attempt or len(cursors) == 2:
                break
            if stream in (STDOUT, STDERR) and pieces:
                cursors.setdefault(stream, Cursor(moment, pieces))
        return cursors

    def _is_there(self, stream: int, moment: int) -> bool:
        cursor = self._behind.get(stream)
        if cursor is None:
            return False
        if moment < cursor.time:
            return True
        if moment == cursor.time and cursor.pieces:
            self._behind[stream] = Cursor(moment, cursor.pieces - 1)
            return True
        del self._behind[stream]
        return False

    def _covers(self, pieces: list[Piece]) -> bool:
        """Whether these last pieces reach back to what is stored: only the end of a log is ever missed."""
        if not self._cursors:
            return False
        latest = max(self._cursors, key=lambda stream: self._cursors[stream].time)
        reached = self._cursors[latest].time
        return any(stream == latest and moment < reached for stream, moment, _ in pieces)

    def _beyond_stored(self, pieces: list[Piece]) -> list[Piece]:
        """These last pieces without those that are stored: all up to the last one of its stream.

        Times alone would not do: where the machine's clock was set back, earlier pieces have later times.
        """
        ends: dict[int, int] = {}
        for stream, cursor in self._cursors.items():
            last = (stream, cursor.time)
            same = [place for place, piece in enumerate(pieces) if piece[:2] == last][: cursor.pieces]
            if same:
                ends[stream] = same[-1]
                self._behind.pop(stream, None)
        return [piece for place, piece in enumerate(pieces) if place > ends.get(piece[0], -1)]

    def _store(self, stream: int, texts: list[bytes], cursor: Cursor) -> None:
        self._journal.write(b"".join(texts), stream, cursor.time, cursor.pieces)
        self._cursors[stream] = cursor
