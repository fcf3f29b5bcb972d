"""Output on a terminal: control characters made visible, a colour per replica, the status line.

A display name, an error of a service or a trainer's line may hold control characters that move the cursor or
hide text. C0 and C1 are Unicode's; the bidirectional ones reorder the shown text (Unicode TR36, 3.6).
"""

from __future__ import annotations

import os
import re
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console as RichConsole
    from rich.console import ConsoleOptions
    from rich.live import Live
    from rich.text import Text

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# Every command imports these patterns and few need one, so they are compiled at their first use.
_IN_WORDS = f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_BIDI}]"
_IN_A_NAME = f"[\x00-\x1f\x7f-\x9f\u2028\u2029{_BIDI}]"
SGR = rb"\x1b\[[0-9;:]*m"
"""A change of colours."""
_C1_AND_BIDI = rb"\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]"  # in UTF-8
_IN_LINES = rb"(" + SGR + rb")|([\x00-\x08\x0b-\x1f\x7f]|" + _C1_AND_BIDI + rb")"
_RESET = b"\x1b[0m"
_COLOURS = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)


def visible(text: str) -> str:
    """The text with escapes (`\\x1b`, `\\u202e`) in place of control characters; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return re.sub(_IN_WORDS, _escape, text.replace("\r\n", "\n"))


def on_one_line(text: str) -> str:
    """A name inside a sentence: as `visible`, with newlines and tabs escaped too."""
    return text if text.isascii() and text.isprintable() else re.sub(_IN_A_NAME, _escape, text)


def from_home(text: str) -> str:
    """A text for people with `~` in place of the user's home in its paths, where a shell would read it."""
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111 - a text
    return re.sub(rf"(?<![^\s(]){re.escape(home)}/", "~/", text) if home.startswith("/") else text


def for_terminal(line: bytes) -> bytes:
    """A trainer's UTF-8 made safe for a terminal: colours stay, and end with the line.

    A carriage return begins a new line, so that no text is overwritten.
    """
    line = line.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    shown = re.sub(_IN_LINES, lambda match: match[1] or _escaped(match[2].decode()).encode(), line)
    return shown + _RESET if b"\x1b[" in shown else shown


def _escape(match: re.Match[str]) -> str:
    return _escaped(match[0])


def _escaped(letter: str) -> str:
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}"


def message_columns() -> int:
    """The width of the terminal that stderr is; 0 where it is none, or too narrow to be written for."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 0
    return columns if columns >= NARROWEST else 0


def in_width(text: str, *, before: int = 0, indent: str = "") -> str:
    """Sentences for stderr, broken between words where that is a terminal; a command to copy stays whole.

    `before` is the number of characters in front of the first line, `indent` stands before the others.
    """
    columns = message_columns()
    text = from_home(text) if columns else text
    if not columns or (len(text) + before <= columns and "\n" not in text):
        return text
    from textwrap import wrap

    lines: list[str] = []
    for line in text.split("\n"):
        start = " " * before if not lines else indent
        margin = indent + line[: len(line) - len(line.lstrip())]
        broken = [start + line]
        if len(broken[0]) > columns and not line.lstrip().startswith("$ "):
            broken = wrap(
                line,
                columns,
                initial_indent=start,
                subsequent_indent=margin,
                break_long_words=False,
                break_on_hyphens=False,
            )
        lines += broken
    return "\n".join(lines)[before:]


def clock(seconds: float) -> str:
    """`0:07`, `12:34`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def colour_prefix(task_name: str, prefix: bytes) -> bytes:
    """A line's prefix in the colour of its replica; the same replica always has the same."""
    colour = _COLOURS[zlib.crc32(task_name.encode()) % len(_COLOURS)]
    return b"\x1b[%dm%s\x1b[0m" % (colour, prefix)


FRAMES_PER_SECOND = 8
NARROWEST = 20
"""Columns of the narrowest terminal for which sentences are broken between words."""


class _StatusText:
    """A spinner and a text, below other lines; each is cut at the terminal's edge: what wraps could not be
    taken away again."""

    def __init__(self) -> None:
        from rich.spinner import Spinner

        self.text = ""
        self.above: Sequence[str] = ()
        self._dots = Spinner("dots")

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> Iterator[Text]:
        from rich.text import Text

        dots = self._dots.render(console.get_time())
        assert isinstance(dots, Text)
        for line in self.above:
            yield Text(line, no_wrap=True, overflow="ellipsis")
        yield Text(f"{dots.plain} {self.text}", no_wrap=True, overflow="ellipsis")  # a name may be no markup


class StatusLine:
    """One line at the bottom of the terminal, or more above it, taken away while something else is written.

    Rich is imported when the first one is made.
    """

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._spinner = _StatusText()
        self._live: Live | None = None
        self._hidden_at = 0.0

    def show(self, text: str, above: Sequence[str] = ()) -> None:
        """Show this text now, below these lines, unless others were written a moment ago."""
        from rich.live import Live

        self._spinner.text, self._spinner.above = text, above
        if self._live is None and time.monotonic() - self._hidden_at > 0.15:
            self._live = Live(
                self._spinner,
                console=self._console,
                transient=True,
                redirect_stdout=False,
                refresh_per_second=FRAMES_PER_SECOND,
            )
            self._live.start()

    def clear(self) -> None:
        """Remove the line and restore the cursor."""
        if self._live is not None:
            self._live.stop()
            sys.stderr.flush()
            self._live = None
        self._hidden_at = time.monotonic()

    def leave(self) -> bytes:
        """Draw nothing any more; the bytes that remove the line. Nothing is written.

        The thread that draws may be in the middle of a write that nobody reads.
        """
        if self._live is None:
            return b""
        self._live = None
        self._console.file = Path(os.devnull).open("w")  # noqa: SIM115 - for the rest of the command
        return b"\r\x1b[2K" + b"\x1b[1A\x1b[2K" * len(self._spinner.above) + b"\x1b[?25h"
