"""The engine's log stream taken apart: chunks and frames may be cut anywhere."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from vtrain.containers.streams import ChunkReader, Piece, PieceReader

STAMP = "2026-11-21T04:31:00.123456789Z"
STAMP_NS = 1795235460123456789
TEXTS = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=12)


def frame(stream: int, text: bytes, stamp: str = STAMP) -> bytes:
    payload = stamp.encode() + b" " + text
    return struct.pack(">BxxxL", stream, len(payload)) + payload


def chunked(data: bytes, sizes: list[int]) -> bytes:
    out, start = b"", 0
    for size in [*sizes, len(data)]:
        piece = data[start : start + size]
        if piece:
            out += f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
        start += size
    return out + b"0\r\n\r\n"


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    blocks, start = [], 0
    for size in [*sizes, len(data)]:
        blocks.append(data[start : start + size])
        start += size
    return blocks


@given(TEXTS, st.lists(st.integers(1, 30), max_size=40), st.lists(st.integers(1, 30), max_size=40))
def test_any_cut_gives_the_same_pieces(
    texts: list[tuple[int, bytes]], chunk_sizes: list[int], block_sizes: list[int]
) -> None:
    stream = chunked(b"".join(frame(number, text) for number, text in texts), chunk_sizes)
    chunks, reader = ChunkReader(), PieceReader()
    pieces: list[Piece] = []
    for block in cut(stream, block_sizes):
        pieces += reader.feed(chunks.feed(block))
    assert chunks.ended
    assert pieces == [(number, STAMP_NS, text) for number, text in texts]


def test_times_in_every_form() -> None:
    reader = PieceReader()
    forms = {
        STAMP: STAMP_NS,
        "2026-11-21T04:31:00Z": 1795235460000000000,
        "2026-11-21T04:31:00.5Z": 1795235460500000000,
        "2026-11-21T06:31:00.25+02:00": 1795235460250000000,
        "2026-11-21T00:01:00.000000001-04:30": 1795235460000000001,
    }
    for stamp, expected in forms.items():
        assert reader.feed(frame(1, b"x\n", stamp)) == [(1, expected, b"x\n")]


def test_what_the_engine_tells_instead_of_a_log() -> None:
    reader = PieceReader()
    told = b"Error grabbing logs: unexpected EOF"
    data = frame(1, b"a\n") + struct.pack(">BxxxL", 3, len(told)) + told + frame(2, b"b\n")
    assert reader.feed(data) == [(1, STAMP_NS, b"a\n"), (2, STAMP_NS, b"b\n")]
    assert reader.error == "Error grabbing logs: unexpected EOF"
    assert reader.feed(frame(1, b"x", "not a time")) == []
    assert reader.error == "not a time x"
