"""What only a terminal shows: a colour per replica and the status line. Imported late, for Rich."""

from __future__ import annotations

import sys
import time
import zlib

from rich.console import Console as RichConsole
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

_COLOURS = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)


def colour_prefix(task_name: str, prefix: bytes) -> bytes:
    """A line's prefix in the colour of its replica; the same replica always has the same."""
    colour = _COLOURS[zlib.crc32(task_name.encode()) % len(_COLOURS)]
    return b"\x1b[%dm%s\x1b[0m" % (colour, prefix)


class StatusLine:
    """One line at the bottom of the terminal; it steps aside while something else is written."""

    def __init__(self) -> None:
        self._console = RichConsole(stderr=True)
        self._spinner = Spinner("dots")
        self._live: Live | None = None
        self._hidden_at = 0.0

    def show(self, text: str) -> None:
        """Show this text now, unless lines are just streaming by."""
        self._spinner.update(text=Text(text))  # a name may look like Rich's markup
        if self._live is None and time.monotonic() - self._hidden_at > 0.15:
            self._live = Live(self._spinner, console=self._console, transient=True, redirect_stdout=False)
            self._live.start()

    def clear(self) -> None:
        """Take the line away and give the cursor back."""
        if self._live is not None:
            self._live.stop()
            sys.stderr.flush()
            self._live = None
        self._hidden_at = time.monotonic()
