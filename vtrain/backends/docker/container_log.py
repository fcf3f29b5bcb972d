"""A container's output, from the engine to the job's log, every byte once: of pipes, or of a terminal.

Each supervisor writes segments of its own, and goes on after the last record of those before it.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from functools import partial

import msgspec

from vtrain.backends.docker.container import ContainerOrder
from vtrain.backends.docker.job_engine import READING, ContainerView
from vtrain.containers.engine import Engine, engine_errors
from vtrain.containers.exec_session import DETACH_KEYS
from vtrain.containers.streams import BUSY_PAUSE_SECONDS, READ_BYTES, Piece
from vtrain.errors import EngineError
from vtrain.runtime.job_order import LentTerminal
from vtrain.runtime.log.segments import newest_records
from vtrain.runtime.process.journal import STDERR, STDOUT, JournalWriter
from vtrain.runtime.process.trainer_terminal import WindowMessages

END_OF_INPUT = b"\x04"
END_OF_INPUT_SECONDS = 1.0
"""A program that reads key by key drops what was typed before, so that the end is sent again."""
_LARGEST_UNREAD = 64 * 1024


class ContainerWindow:
    """The window whose size a container has, and the keys that are typed for it.

    A job without `--interactive` has nobody who types: its terminal gets, now and then, an end of the input,
    so that a trainer that reads fails at once instead of waiting for ever.
    """

    def __init__(self, engine: Callable[[], Engine], container: str, terminal: LentTerminal) -> None:
        """`engine` gives the engine, or raises EngineError."""
        self._engine = engine
        self._path = f"/containers/{container}"
        self._terminal = terminal
        self._size = (0, 0)
        self._link: socket.socket | None = None
        self._links = ExitStack()
        self._over, self._tell = os.pipe()
        self._thread = threading.Thread(target=self._pass_on, name="window", daemon=True)

    def open(self) -> None:
        """Give the program its size, at once, and pass on what comes until `close`."""
        if self._thread.ident is None:
            self._resize((self._terminal.lines, self._terminal.columns))
            self._thread.start()

    def close(self) -> None:
        """Pass nothing on any more."""
        os.close(self._tell)
        if self._thread.ident is not None:
            self._thread.join()
        self._links.close()
        os.close(self._over)

    def _pass_on(self) -> None:
        messages = WindowMessages(self._terminal.fifo)
        heard = [messages.fifo] if messages.fifo >= 0 else []
        typed, end_at = b"", time.monotonic()
        try:
            while True:
                writable = [self._link] if typed and self._link is not None else []
                readable, _, _ = select.select([self._over, *heard], writable, [], END_OF_INPUT_SECONDS)
                if self._over in readable:
                    return
                if heard and heard[0] in readable:
                    keys = messages.hear()
                    if self._terminal.interactive:
                        typed = (typed + keys)[:_LARGEST_UNREAD]
                    self._resize(messages.size)
                if not self._terminal.interactive and time.monotonic() >= end_at:
                    typed, end_at = END_OF_INPUT, time.monotonic() + END_OF_INPUT_SECONDS
                typed = self._type(typed)
        finally:
            if messages.fifo >= 0:
                os.close(messages.fifo)

    def _type(self, keys: bytes) -> bytes:
        """Type as many keys as the connection takes now; those that are left."""
        if not keys:
            return b""
        try:
            if self._link is None:
                params = {"stream": 1, "stdin": 1, "detachKeys": DETACH_KEYS}
                attached = self._engine().calls.hijack(f"{self._path}/attach", params=params)
                with engine_errors("attach to the container"):
                    self._link = self._links.enter_context(attached)
            if not select.select([], [self._link], [], 0)[1]:
                return keys
            return keys[self._link.send(keys) :]
        except (EngineError, OSError):  # the container has ended, or the engine is away: the next try tells
            self._links.close()
            self._link = None
            return keys if self._terminal.interactive else b""

    def _resize(self, size: tuple[int, int]) -> None:
        if size == self._size or not all(size):
            return
        # After an error the next try tells, as above: the command sends its size every second.
        with suppress(EngineError), engine_errors("resize the container's terminal"):
            self._engine().calls.post(f"{self._path}/resize", h=size[0], w=size[1])
            self._size = size


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


def _recall(base: str, attempt: int) -> dict[int, Cursor]:
    """The cursors of an attempt by its records in all segments."""
    cursors: dict[int, Cursor] = {}
    for moment, _, stream, _, _, pieces in newest_records(base, attempt):
        if stream in (STDOUT, STDERR) and pieces:
            cursors.setdefault(stream, Cursor(moment, pieces))
        if len(cursors) == 2:
            break
    return cursors


class Transcript:
    """The journal of one replica, written from what the engine kept of its log."""

    def __init__(self, base: str, attempt: int) -> None:
        self._journal = JournalWriter(base, attempt, from_pipe=False)
        self._cursors = _recall(base, attempt)
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


class PipedOutput:
    """The output of one attempt, which the engine keeps with the time and the stream of each line.

    Everything but `close` raises EngineError, and OSError of a full disk.
    """

    def __init__(self, view: ContainerView, order: ContainerOrder) -> None:
        self._view = view
        self._transcript = Transcript(order.log, order.attempt)

    def before_start(self) -> None:
        """Prepare for what the program writes first."""

    def after_start(self) -> None:
        """Note that the program has just started."""

    def follow(self) -> None:
        """Store what comes, until there is no more, or the connection breaks."""
        with closing(self._view.read_log(self._transcript.resume(), follow=True)) as log:
            for pieces in log:
                self._transcript.take(pieces)

    def drain(self) -> None:
        """Store the end, once the container has ended: a follower can miss it."""
        self._transcript.drain(self._view.read_tail, partial(self._view.read_log, follow=False))

    def last_words(self, count: int) -> list[Piece]:
        """The last lines, as the engine has kept them."""
        return self._view.read_tail(count)

    def close(self) -> None:
        """Hand everything to the disk."""
        self._transcript.close()


LARGEST_COUNT = 0xFFFF_FFFF
"""A record has four bytes for a number: of a longer output a later supervisor repeats a part."""
RECENT_BYTES = 64 * 1024
TAIL_LINES = 10
"""The last lines show whether the end was stored."""


class TerminalOutput:
    """The same of a terminal, which comes as it is written: a bar that redraws its line ends no line.

    The engine keeps whole lines. Those are read by a supervisor that takes over, or whose connection broke.
    Each record of the log tells how much of the output is stored by then, and that much is left out.
    """

    def __init__(self, view: ContainerView, order: ContainerOrder, terminal: LentTerminal) -> None:
        self._view = view
        self._journal = JournalWriter(order.log, order.attempt, from_pipe=False)
        known = _recall(order.log, order.attempt).get(STDOUT)
        self._stored = known.pieces if known is not None else 0
        self._held = self._recent = b""
        self._link: socket.socket | None = None
        self._links = ExitStack()
        self._window = ContainerWindow(lambda: view.engine, order.name, terminal)

    def before_start(self) -> None:
        self._links.close()
        self._link = None
        # Where that fails, as behind a proxy that lets nobody attach, whole lines are read.
        with suppress(EngineError), engine_errors(READING):
            self._link = self._links.enter_context(self._view.attach())

    def after_start(self) -> None:
        self._window.open()

    def follow(self) -> None:
        self._window.open()
        try:
            if self._link is not None:
                self._take(_received(self._link))
            else:
                with closing(self._view.read_terminal(follow=True)) as log:
                    self._take(_beyond(self._stored, log))
        finally:
            self._held, self._link = b"", None
            self._links.close()

    def drain(self) -> None:
        if not self._has_end(self._view.read_terminal_tail(TAIL_LINES)):
            with closing(self._view.read_terminal(follow=False)) as log:
                self._take(_beyond(self._stored, log))

    def last_words(self, count: int) -> list[Piece]:
        lines = self._view.read_terminal_tail(count).splitlines()
        return [(STDOUT, 0, line.rstrip(b"\r")) for line in lines]

    def close(self) -> None:
        self._window.close()
        self._links.close()
        self._journal.close()

    def _take(self, blocks: Iterable[bytes]) -> None:
        for block in blocks:
            self._store(self._held + block, is_last=False)
        self._store(self._held, is_last=True)

    def _store(self, block: bytes, *, is_last: bool) -> None:
        """Store a block without the carriage returns that the terminal puts before newlines.

        One at the block's end may be such a one: it is held until the next block tells.
        """
        held = b"" if is_last or not block.endswith(b"\r") else b"\r"
        block = block[: len(block) - len(held)]
        if block:
            stored = self._stored + len(block)
            text = block.replace(b"\r\n", b"\n")
            self._journal.write(text, STDOUT, time.time_ns(), min(stored, LARGEST_COUNT))
            self._stored = stored
            self._recent = (self._recent + block)[-RECENT_BYTES:]
        self._held = held

    def _has_end(self, tail: bytes) -> bool:
        """Whether the engine's last lines are those that were stored last.

        The engine keeps U+FFFD for each byte that is not UTF-8.
        """
        wanted = tail.decode("utf-8", "ignore").replace("\ufffd", "").rstrip("\n")
        recent = self._recent.decode("utf-8", "ignore").replace("\ufffd", "").rstrip("\n")
        shortest = min(len(wanted), len(recent))
        is_cut = len(self._recent) > RECENT_BYTES // 2
        return recent.endswith(wanted) or (is_cut and shortest > 0 and wanted.endswith(recent))


ContainerOutput = PipedOutput | TerminalOutput


def output_of(view: ContainerView, order: ContainerOrder) -> ContainerOutput:
    """The output of a container that is made by this order."""
    if order.terminal is not None:
        return TerminalOutput(view, order, order.terminal)
    return PipedOutput(view, order)


def _received(link: socket.socket) -> Iterable[bytes]:
    """The blocks that come through a connection until it ends or breaks."""
    while True:
        try:
            block = link.recv(READ_BYTES)
        except OSError:
            return
        if not block:
            return
        yield block
        time.sleep(BUSY_PAUSE_SECONDS)


def _beyond(count: int, blocks: Iterable[bytes]) -> Iterable[bytes]:
    """The blocks without their first bytes, as many as that."""
    for block in blocks:
        rest = block[count:]
        count = max(count - len(block), 0)
        if rest:
            yield rest
