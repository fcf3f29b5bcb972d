"""Lines about an image that is built, pulled or pushed, and on a terminal what runs now, and for how long."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vtrain.messages.log import DETAIL_MARGIN
from vtrain.output.console import VERBOSITIES, Console
from vtrain.output.terminal import clock, on_one_line

TICK_SECONDS = 0.1
_MOVING = re.compile(r"(Pulling|Pushing) \S+: \d+ of ")
_NUMBER = re.compile(r"\[[^]]*\]")
_DONE = re.compile(r"\[[^]]*\] done in |Image \S+: |(Pull|Push)ed ")


@contextmanager
def live_progress(console: Console) -> Iterator[Callable[[str], None]]:
    """A function that tells a line. Through a pipe, every line is written.

    On a terminal details, which have a margin, are only shown in the live line; --verbosity=info writes them.
    """
    if not console.can_draw:
        yield console.progress
        return
    live = _LiveLine(console)
    live.ticker.start()
    try:
        yield live.tell
    finally:
        live.ended.set()
        live.ticker.join()
        console.close()


class _LiveLine:
    """The line at the bottom of the terminal. A thread moves its clock while a step is silent."""

    def __init__(self, console: Console) -> None:
        self.ended = threading.Event()
        self.ticker = threading.Thread(target=self._tick, name="live line", daemon=True)
        self._console = console
        self._shows_details = VERBOSITIES.index(console.verbosity) <= VERBOSITIES.index("info")
        self._writing = threading.Lock()
        self._step = self._detail = ""
        self._begun = time.monotonic()

    def tell(self, line: str) -> None:
        """Write a line, or show it in the live line alone."""
        is_detail = line.startswith(DETAIL_MARGIN)
        with self._writing:
            if is_detail or _MOVING.match(line):
                self._detail = on_one_line(line).strip()
            else:
                self._step, self._detail = "" if _DONE.match(line) else on_one_line(line), ""
            if self._shows_details or not self._detail:
                self._console.progress(line)

    def _tick(self) -> None:
        while not self.ended.wait(TICK_SECONDS):
            with self._writing:
                if self._step or self._detail:
                    self._console.show_state(f"{clock(time.monotonic() - self._begun)}  {self._now}")

    @property
    def _now(self) -> str:
        """The step, or its number and what it says: its name is in the line above."""
        if not self._detail or _MOVING.match(self._detail):
            return self._detail or self._step
        number = _NUMBER.match(self._step)
        return f"{number[0]} {self._detail}" if number else self._detail
