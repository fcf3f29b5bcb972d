"""Takes the log stream of a container apart: chunks, frames, and the time that the engine gave each piece.

Source: the Engine API's "Attach to a container" (a frame is one byte for the stream, three of zero, four
for the length, and the payload) and `timestamps=1` (each payload begins with an RFC 3339 time and a
space). A line of more than 16 KiB comes in pieces that bear the same time; only the last ends in a newline.
"""

from __future__ import annotations

import calendar
import struct
import time
from collections.abc import Iterator
from http.client import HTTPResponse

Piece = tuple[int, int, bytes]
"""Stream (1 stdout, 2 stderr), time in nanoseconds since the epoch, text."""

ENGINE_STREAM = 3
"""Frames in which the engine tells what keeps it from reading the log: they bear no time."""

READ_BYTES = 256 * 1024
BUSY_PAUSE_SECONDS = 0.002
"""Pause between reads under load, so that one read takes many lines."""

_HEADER = struct.Struct(">BxxxL")


def read_pieces(response: HTTPResponse, frames: FrameReader) -> Iterator[list[Piece]]:
    """What a response to `containers/ID/logs?timestamps=1` brings, as it comes; ends with the stream.

    Raises OSError where the connection breaks.
    """
    last_read = 0.0
    for block in _blocks(response):
        pieces = frames.feed(block)
        if pieces:
            yield pieces
        now = time.monotonic()
        if now - last_read < 2 * BUSY_PAUSE_SECONDS:
            time.sleep(BUSY_PAUSE_SECONDS)
        last_read = now


def _blocks(response: HTTPResponse) -> Iterator[bytes]:
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
        second = stamp[:19]
        if second != self._second:
            self._second = second
            self._second_ns = calendar.timegm(time.strptime(second.decode(), "%Y-%m-%dT%H:%M:%S")) * 10**9
        if len(stamp) == 30 and stamp.endswith(b"Z"):  # the engine's usual form, nine digits in UTC
            return self._second_ns + int(stamp[20:29])
        return self._second_ns + _fraction_and_zone(stamp[19:].decode())


def _fraction_and_zone(rest: str) -> int:
    """The nanoseconds that `.5+02:00` adds to the seconds before it."""
    digits = rest[1:].partition("Z")[0].partition("+")[0].partition("-")[0] if rest.startswith(".") else ""
    zone = rest[len(digits) + 1 if digits else 0 :]
    fraction = int(digits.ljust(9, "0")[:9]) if digits else 0
    if zone in ("", "Z"):
        return fraction
    hours, _, minutes = zone[1:].partition(":")
    offset = (int(hours) * 3600 + int(minutes or 0) * 60) * 10**9
    return fraction - offset if zone.startswith("+") else fraction + offset
