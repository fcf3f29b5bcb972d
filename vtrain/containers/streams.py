"""The engine's streams taken apart, however they are cut: HTTP's chunks, frames, and the pieces of a log.

Source: the Engine API's "Attach to a container": a frame is one byte for the stream, three of zero, four for
the length, and the payload. With `timestamps=1` each payload begins with an RFC 3339 time and a space. A line
of more than 16 KiB comes in pieces that bear the same time; only the last ends in a newline.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator
from http.client import HTTPResponse

from vtrain.times import NANOSECONDS, nanoseconds

Piece = tuple[int, int, bytes]
"""Stream (1 stdout, 2 stderr), time in nanoseconds since the epoch, text."""

ENGINE_STREAM = 3
"""Frames with the engine's own error about reading the log: they bear no time."""

READ_BYTES = 256 * 1024
BUSY_PAUSE_SECONDS = 0.002
"""Pause between reads under load, so that one read takes many lines."""

_HEADER = struct.Struct(">BxxxL")


def read_pieces(blocks: Iterable[bytes], reader: PieceReader) -> Iterator[list[Piece]]:
    """The pieces in the blocks of `containers/ID/logs?timestamps=1`, as they come."""
    last_read = 0.0
    for block in blocks:
        pieces = reader.feed(block)
        if pieces:
            yield pieces
        now = time.monotonic()
        if now - last_read < 2 * BUSY_PAUSE_SECONDS:
            time.sleep(BUSY_PAUSE_SECONDS)
        last_read = now


def read_blocks(response: HTTPResponse) -> Iterator[bytes]:
    """The body as far as it is there, the transfer coding taken off: the library hands out single chunks.

    Raises OSError where the connection breaks.
    """
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
    """Frames, whole ones only; what has only begun waits for the next block."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, block: bytes) -> Iterator[tuple[int, bytes]]:
        """Stream and payload of each frame that is whole now; all of them have to be taken."""
        data, start = self._held + block, 0
        while start + 8 <= len(data):
            stream, size = _HEADER.unpack_from(data, start)
            end = start + 8 + size
            if end > len(data):
                break
            yield stream, data[start + 8 : end]
            start = end
        self._held = data[start:]


class PieceReader:
    """The pieces of a log with times.

    `error` is what the engine, or a frame that makes no sense, says of a part that cannot be read.
    """

    def __init__(self) -> None:
        self.error = ""
        self._frames = FrameReader()
        self._second = b""
        self._second_ns = 0

    def feed(self, block: bytes) -> list[Piece]:
        """The pieces that are whole now."""
        pieces: list[Piece] = []
        for stream, payload in self._frames.feed(block):
            stamp, _, text = payload.partition(b" ")
            try:
                if stream != ENGINE_STREAM:
                    pieces.append((stream, self._nanoseconds(stamp), text))
                    continue
            except ValueError:  # no time: the engine's file was damaged
                pass
            self.error = " ".join(payload.decode("utf-8", "replace").split()).rstrip(".")
        return pieces

    def _nanoseconds(self, stamp: bytes) -> int:
        is_usual = len(stamp) == 30 and stamp.endswith(b"Z")  # nine digits, in UTC
        if is_usual and stamp[:19] == self._second:
            return self._second_ns + int(stamp[20:29])
        found = nanoseconds(stamp.decode())
        if is_usual:
            self._second, self._second_ns = stamp[:19], found - found % NANOSECONDS
        return found
