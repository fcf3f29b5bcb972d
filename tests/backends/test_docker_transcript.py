"""Every piece of a container's log once, however reading it was interrupted."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from vtrain.backends.docker.container_log import Transcript
from vtrain.containers.streams import Piece
from vtrain.messages.log import LogQuery
from vtrain.runtime.log.log_reader import read_logs

SECOND = 10**9


def numbered(count: int) -> list[Piece]:
    """Lines of both streams; some streams' times lie behind, and some lines come in pieces of one time."""
    pieces: list[Piece] = []
    for number in range(count):
        stream = 1 + (number % 3 == 0)
        time = (1000 + number) * 10**6 - (5 * 10**6 if stream == 2 else 0)
        pieces.append((stream, time, b"piece %d " % number))
        if number % 4 == 0:
            pieces.append((stream, time, b"and its end\n"))
    return pieces


def text(base: Path) -> bytes:
    page = read_logs(base.parent, LogQuery(name="x", raw=True), ended=True)
    assert page.trouble == ""
    return b"".join(entry.payload for entry in page.entries)


def store(base: Path, pieces: list[Piece]) -> Transcript:
    transcript = Transcript(str(base), 0)
    transcript.resume()
    transcript.take(pieces)
    return transcript


@given(st.lists(st.integers(0, 60), min_size=1, max_size=5))
def test_reading_again_after_an_interruption_doubles_nothing(
    tmp_path_factory: object, stops: list[int]
) -> None:
    base = tmp_path_factory.mktemp("log") / "workerpool0-0"  # type: ignore[attr-defined]
    whole = numbered(40)
    for stop in sorted(stops):
        store(base, whole[:stop]).close()
    store(base, whole).close()
    assert text(base) == b"".join(piece[2] for piece in whole)


def no_stream(since: int) -> list[list[Piece]]:
    raise AssertionError("a tail is enough")


def test_bytes_without_a_record_are_read_again(tmp_path: Path) -> None:
    base = tmp_path / "workerpool0-0"
    whole = numbered(20)
    store(base, whole[:10]).close()
    with base.with_suffix(".0.log").open("ab") as file:
        file.write(b"written, and then the supervisor was killed")
    store(base, whole).close()
    assert text(base) == b"".join(piece[2] for piece in whole)


def test_the_drain_finds_what_the_follower_missed(tmp_path: Path) -> None:
    base = tmp_path / "workerpool0-0"
    whole = [(2, SECOND, b"a warning, long ago\n")]
    whole += [(1, 2 * SECOND + number * 1000, b"%d\n" % number) for number in range(5000)]
    transcript = store(base, whole[:3000])
    asked = []

    def read_tail(count: int) -> list[Piece]:
        asked.append(count)
        return whole[-count:]

    transcript.drain(read_tail, no_stream)
    transcript.close()
    assert text(base) == b"".join(piece[2] for piece in whole)
    assert asked == [256, 2048]


@given(st.integers(0, 40), st.integers(1, 40), st.integers(-3600, 3600))
def test_a_clock_that_is_set_back_doubles_nothing_at_the_end(
    tmp_path_factory: object, stored: int, step: int, seconds: int
) -> None:
    """The engine's times follow the machine's clock, while the order of its lines stays."""
    base = tmp_path_factory.mktemp("log") / "workerpool0-0"  # type: ignore[attr-defined]
    begin = 5000 * SECOND
    whole = [
        (stream, time + begin + (seconds * SECOND if number >= step else 0), words)
        for number, (stream, time, words) in enumerate(numbered(40))
    ]
    transcript = store(base, whole[:stored])
    transcript.drain(lambda count: whole[-count:], no_stream)
    transcript.close()
    assert text(base) == b"".join(piece[2] for piece in whole)


def test_a_drain_of_a_whole_log_reads_a_little(tmp_path: Path) -> None:
    base = tmp_path / "workerpool0-0"
    whole = [(1, SECOND + number, b"%d\n" % number) for number in range(3000)]
    transcript = store(base, whole)
    asked = []

    def read_tail(count: int) -> list[Piece]:
        asked.append(count)
        return whole[-count:]

    transcript.drain(read_tail, no_stream)
    assert asked == [256]
    assert text(base) == b"".join(piece[2] for piece in whole)


def test_a_long_line_is_drained_as_a_stream(tmp_path: Path) -> None:
    """Its pieces bear one time, so that no tail shows where the stored part ends."""
    base = tmp_path / "workerpool0-0"
    whole = [(1, SECOND, b"%04d" % number) for number in range(9000)]
    transcript = store(base, whole[:4000])
    asked = []

    def read_tail(count: int) -> list[Piece]:
        asked.append(count)
        return whole[-count:]

    transcript.drain(
        read_tail, lambda since: (whole[part : part + 100] for part in range(0, len(whole), 100))
    )
    transcript.close()
    assert text(base) == b"".join(piece[2] for piece in whole)
    assert asked == [256, 2048]


def test_going_on_begins_a_little_before_the_last_line(tmp_path: Path) -> None:
    transcript = store(tmp_path / "log", [(1, 10 * SECOND, b"x\n"), (2, 9 * SECOND, b"y\n")])
    assert transcript.resume() == 7 * SECOND
    assert Transcript(str(tmp_path / "none"), 0).resume() == 0
