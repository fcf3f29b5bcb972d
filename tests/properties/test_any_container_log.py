"""The log of a container: however it is cut, interrupted and read again, each piece is stored once."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from vtrain.backends.docker.container_log import Transcript
from vtrain.containers.streams import Piece, PieceReader
from vtrain.messages.log import LogQuery
from vtrain.runtime.log.log_reader import read_logs
from vtrain.runtime.process.journal import STDERR, STDOUT, segment_numbers

MILLISECOND = 10**6
STREAMS = {STDOUT: "stdout", STDERR: "stderr"}


@st.composite
def container_logs(draw: st.DrawFn) -> list[Piece]:
    """What an engine keeps: rising times in each stream, pieces of one line with one time, streams up to a
    second apart."""
    pieces: list[Piece] = []
    clock = {STDOUT: 10**18, STDERR: 10**18 - draw(st.integers(0, 1000)) * MILLISECOND}
    for number in range(draw(st.integers(0, 30))):
        stream = draw(st.sampled_from(sorted(clock)))
        clock[stream] = max(clock[stream] + draw(st.sampled_from([1, MILLISECOND, 40 * MILLISECOND])), 1)
        clock[stream] = max(clock[stream], max(clock.values()) - 1000 * MILLISECOND)
        parts = draw(st.sampled_from([1, 1, 1, 2, 3]))
        pieces += [(stream, clock[stream], b"piece %d.%d " % (number, part)) for part in range(parts - 1)]
        pieces.append((stream, clock[stream], b"piece %d.\n" % number))
    return pieces


LOGS = container_logs()
READS = st.lists(
    st.tuples(st.integers(0, 90), st.sampled_from(["follow", "drain", "kill", "reopen"]), st.booleans()),
    max_size=6,
)


@example(attempts=[[], []], reads=[(0, "kill", False)])
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(attempts=st.lists(LOGS, min_size=1, max_size=3), reads=READS)
def test_every_piece_once(attempts: list[list[Piece]], reads: list[tuple[int, str, bool]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name) / "workerpool0-0"
        for number, whole in enumerate(attempts):
            follow_interrupted(base, number, whole, reads)
        entries = read_logs(Path(name), LogQuery(name="x", raw=True), ended=True).entries
    for number, whole in enumerate(attempts):
        for stream, stream_name in STREAMS.items():
            wanted = b"".join(text for piece_stream, _, text in whole if piece_stream == stream)
            found = [e.payload for e in entries if (e.attempt, e.stream) == (number, stream_name)]
            assert b"".join(found) == wanted


def follow_interrupted(
    base: Path, attempt: int, whole: list[Piece], reads: list[tuple[int, str, bool]]
) -> None:
    """Read a growing log: the connection breaks, supervisors die and leave half a block, others go on."""
    transcript = Transcript(str(base), attempt)
    for stop, verb, in_two in sorted(reads):
        there = whole[:stop]
        if verb == "drain":
            transcript.drain(lambda count, there=there: there[-count:], no_stream)  # type: ignore[misc]
        else:
            since = transcript.resume()
            asked = [piece for piece in there if piece[1] >= since]
            half = len(asked) // 2 if in_two else 0
            transcript.take(asked[:half])
            transcript.take(asked[half:])
        if verb in ("kill", "reopen"):
            transcript.close()
            if verb == "kill":
                newest = segment_numbers(str(base))[-1]
                with base.with_suffix(f".{newest}.log").open("ab") as file:
                    file.write(b"written, and no record of it")
            transcript = Transcript(str(base), attempt)
    transcript.drain(lambda count: whole[-count:], no_stream)
    transcript.close()


def no_stream(since: int) -> list[list[Piece]]:
    raise AssertionError("such a log is read by its tail")


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_are_frames_or_wait_for_more(blocks: list[bytes]) -> None:
    together, apart = PieceReader(), PieceReader()
    pieces = [piece for block in blocks for piece in apart.feed(block)]
    assert together.feed(b"".join(blocks)) == pieces
    assert together.error == apart.error
