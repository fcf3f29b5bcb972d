"""A real command on a pseudo terminal: keys go in, and `pyte` keeps what a person would see."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyte

PATIENCE = 120.0
"""Seconds for a text to appear, and for a command to end, on a machine that is busy with other things."""
CTRL_C, CTRL_D = "\x03", "\x04"
_HISTORY = 10_000  # lines
_PIECE = 65_536  # bytes
# In a session of its own the terminal has to be made the controlling one, so that Ctrl-C becomes a signal.
_START = (
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


class Frame(NamedTuple):
    """The screen at one moment, in seconds since the start."""

    time: float
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


class PseudoTerminal:
    """A program on a terminal of this size. `frames` has each picture once that was seen after another."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        columns: int = 80,
        lines: int = 30,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.screen = pyte.HistoryScreen(columns, lines, history=_HISTORY, ratio=0.5)
        self.frames: list[Frame] = []
        self.raw = b""
        self._taken: list[tuple[float, bytes]] = []
        self._stream = pyte.ByteStream(self.screen)
        self._began = time.monotonic()
        self._ours, theirs = os.openpty()
        self._set_size(columns, lines)
        start = [sys.executable, "-I", "-S", "-c", _START, *argv]
        self._process = subprocess.Popen(
            start, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cwd, start_new_session=True
        )
        os.close(theirs)

    @property
    def process_id(self) -> int:
        """The command's process id."""
        return self._process.pid

    @property
    def shown(self) -> str:
        """The lines on the screen now, without the empty ones at its end."""
        return "\n".join(_rows(self.screen.display)).rstrip("\n")

    @property
    def transcript(self) -> str:
        """All that was shown and has not been overwritten: what has scrolled away, and the screen."""
        top = ("".join(row[column].data for column in range(self.screen.columns)) for row in self._scrolled())
        return "\n".join(_rows([*top, *self.screen.display])).rstrip("\n")

    @property
    def rows(self) -> list[list[pyte.screens.Char]]:
        """The transcript's cells, which know their colours."""
        everything = [*self._scrolled(), *(self.screen.buffer[line] for line in range(self.screen.lines))]
        return [[row[column] for column in range(self.screen.columns)] for row in everything]

    def press(self, keys: str) -> None:
        """Type these characters."""
        os.write(self._ours, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        """Change the window's size; the kernel sends SIGWINCH."""
        self.screen.resize(lines, columns)
        self._set_size(columns, lines)

    def wait_for(self, text: str) -> None:
        """Read until the transcript has this text; a screen does not tell blanks at the end of a line."""
        self.wait_until(lambda: text.rstrip(" ") in self.transcript, f"{text!r} did not appear")

    def wait_until(self, is_seen: Callable[[], bool], otherwise: str = "It was not seen") -> None:
        """Read until this is so."""
        deadline = time.monotonic() + PATIENCE
        while not is_seen():
            assert time.monotonic() < deadline, f"{otherwise}:\n{self.transcript}"
            assert self._read(0.1) or is_seen(), f"{otherwise} before the end:\n{self.transcript}"

    def has_more(self) -> bool:
        """Whether there is something to read, as soon as there is."""
        return bool(self._poll(PATIENCE))

    def read_for(self, seconds: float) -> None:
        """Read for this long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and self._read(left):
            pass

    def end(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._take(0.1) and time.monotonic() < deadline:
            pass  # drawing takes so long on a busy machine that the command would think that nobody reads
        self._draw()
        assert time.monotonic() < deadline, f"The command goes on:\n{self.transcript}"
        return self._process.wait(timeout=PATIENCE)

    def exit_code(self) -> int:
        """The exit code, without reading any more."""
        return self._process.wait(timeout=PATIENCE)

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self._ours)
        self._ours = -1

    def close(self) -> None:
        """Close the window, and kill a command that goes on."""
        if self._ours >= 0:
            self.hang_up()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def _read(self, seconds: float) -> bool:
        """Read and draw what comes within this time; whether the program still has the terminal."""
        goes_on = self._take(seconds)
        self._draw()
        return goes_on

    def _take(self, seconds: float) -> bool:
        if not self._poll(seconds):
            return self._process.poll() is None
        try:
            data = os.read(self._ours, _PIECE)
        except OSError:  # Linux: nobody has the other side any more
            return False
        self.raw += data
        self._taken.append((time.monotonic() - self._began, data))
        return bool(data)

    def _draw(self) -> None:
        for moment, data in self._taken:
            self._stream.feed(data)
            frame = Frame(moment, tuple(_rows(self.screen.display)))
            if not self.frames or self.frames[-1].lines != frame.lines:
                self.frames.append(frame)
        self._taken.clear()

    def _poll(self, seconds: float) -> list[tuple[int, int]]:
        poll = select.poll()  # `select` takes no descriptor above 1023, which a long test run reaches
        poll.register(self._ours, select.POLLIN)
        return poll.poll(seconds * 1000)

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _scrolled(self) -> list[Mapping[int, pyte.screens.Char]]:
        return list(self.screen.history.top)


def _rows(display: Sequence[str]) -> list[str]:
    return [line.rstrip() for line in display]
