"""The only writer: results on stdout, messages on stderr, colour and a status line on a terminal."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vtrain.errors import OutputError, VtrainError
from vtrain.messages.log import DETAIL_MARGIN
from vtrain.output.colours import Piece, Role, dim, has_colours, painted
from vtrain.output.terminal import SGR, StatusLine, from_home, in_width, visible
from vtrain.output.writing import in_haste, write_all

if TYPE_CHECKING:
    from vtrain.output.language.format import Format
    from vtrain.output.language.keys import Path

_WORTH_WRITING = 32_768  # characters
_TAIL_BYTES = 64
_INVISIBLE_END = rb"(?:\x1b\[[0-9;?]{0,16}[mh])+\Z"
"""Colours, and the cursor shown again: what progress displays write after their last newline."""
_RECENT_WRITES, _RECENT_BYTES = 200, 8192  # what is left on a screen, of each of the last writes
_CHANGES = ("+ ", "- ", "~ ")
"""The beginnings of lines in a list of what an installer has changed: nothing under way."""
_DUMB = ("dumb", "unknown")
"""Values of TERM for which Rich draws nothing."""
VERBOSITIES = ("debug", "info", "warning", "error", "critical", "none")


class Console:
    """The output of one command.

    `format_text` is the user's `--format` and `flatten` the keys of `--flatten`. Both are parsed at once, so
    that a bad one is refused before anything happens. `default_format` is the user's configured format in
    place of YAML. `user_output` false silences stdout and status messages, as in gcloud.
    """

    def __init__(
        self,
        *,
        format_text: str = "",
        flatten: Sequence[str] = (),
        default_format: str = "",
        verbosity: str = "warning",
        quiet: bool = False,
        user_output: bool = True,
    ) -> None:
        self.default_format = default_format
        self.format_text = (default_format if format_text.endswith("default") else "") or format_text
        self.format: Format | None = _parsed(self.format_text) if self.format_text else None
        self.flatten = [_path_of(key) for key in flatten if key]
        self.verbosity = verbosity
        self.quiet = quiet
        self.user_output = user_output
        self._status: StatusLine | None = None
        self._unended: set[int] = set()
        self._recent: deque[bytes] = deque(maxlen=_RECENT_WRITES)
        self.activity = ""
        """What is being prepared at present, for the status line."""

    # results

    def result(self, document: Any, default: str = "") -> None:
        """One resource on stdout in `--format`, else in `default` (empty: nothing)."""
        chosen = self._chosen(default)
        if chosen is None or not self.user_output:
            return
        if self.flatten:
            self.print_list(self.flattened([document]), chosen)
        else:
            from vtrain.output.language.printers import render

            self._print([render(document, chosen)])

    def results(self, documents: Iterable[Any], default: str) -> None:
        """Several resources on stdout."""
        self.print_list(self.flattened(documents), self._chosen(default) or _parsed("yaml"))

    def print_list(self, documents: Iterable[Any], chosen: Format) -> None:
        """Several resources on stdout, in a format that the caller has chosen."""
        if self.user_output:
            from vtrain.output.language.printers import render_list

            self._print(render_list(documents, chosen))

    def flattened(self, documents: Iterable[Any]) -> Iterable[Any]:
        """The documents after `--flatten`."""
        if not self.flatten:
            return documents
        from vtrain.output.language.projection import flatten_documents

        return flatten_documents(documents, self.flatten)

    def _chosen(self, default: str) -> Format | None:
        text = (self.default_format if default == "yaml" else "") or default
        return self.format or (_parsed(text) if text else None)

    def _print(self, texts: Iterable[str]) -> None:
        """Write texts in pieces that are large enough to be worth a system call."""
        waiting: list[str] = []
        size = 0
        for text in map(self.printable, texts):
            waiting.append(text)
            size += len(text)
            if size > _WORTH_WRITING:
                self.write("".join(waiting).encode("utf-8", "replace"))
                waiting, size = [], 0
        self.write("".join(waiting).encode("utf-8", "replace"))

    def printable(self, text: str) -> str:
        """A text for stdout: on a terminal without control characters, elsewhere as it is."""
        return visible(text) if sys.stdout.isatty() else text

    def write(self, data: bytes, *, stderr: bool = False) -> None:
        """Write bytes unchanged, at once."""
        self._clear_status()
        stream = sys.stderr if stderr else sys.stdout
        stream.flush()
        place, end = self._place(stderr=stderr), data[-_TAIL_BYTES:]
        if not end.endswith(b"\n"):  # a trainer may end in colours after the newline
            end = re.sub(_INVISIBLE_END, b"", end)
        if end and not end.endswith(b"\n"):  # before it is seen: a user who sees it may press Ctrl-C at once
            self._unended.add(place)
        write_all(stream.fileno(), data)
        if end.endswith(b"\n"):
            self._unended.discard(place)
        if data and (stderr or self._is_shared):
            self._recent.append(data[-_RECENT_BYTES:])

    def has_just_shown(self, lines: Sequence[str]) -> bool:
        """Whether all these lines were written a moment ago where messages go too, in whatever colours."""
        recent = re.sub(SGR, b"", b"".join(self._recent))
        return bool(lines) and all(line.encode("utf-8", "replace") in recent for line in lines)

    # messages

    def status(self, *pieces: str | Piece) -> None:
        """A message about something that was done, of plain text and pieces with a colour."""
        if self.user_output:
            self._write_lines(*pieces)

    def progress(self, *pieces: str | Piece) -> None:
        """A message about something under way; `--quiet` leaves it out."""
        if self.user_output and not self.quiet:
            self._write_lines(*pieces)

    def tell(self, text: str) -> None:
        """A line about a preparation. Details, which have a margin, need --verbosity=info."""
        if not text.strip().startswith(_CHANGES):
            self.activity = text.strip()
        is_detail = text.startswith(DETAIL_MARGIN)
        if not is_detail or VERBOSITIES.index(self.verbosity) <= VERBOSITIES.index("info"):
            self.progress(dim(text))

    def ask(self, text: str) -> None:
        """A question without a newline. The caller has checked that stdin is a terminal."""
        self.write(visible(text).encode("utf-8", "backslashreplace"), stderr=True)
        self._unended.discard(self._place(stderr=True))  # the answer ends the line

    def end_line(self) -> None:
        """End the line that a trainer has left open where messages go, for another console."""
        if self._place(stderr=True) in self._unended:
            self.write(b"\n", stderr=True)

    def warn(self, text: str) -> None:
        """A warning."""
        self._message("warning", Piece("WARNING:", Role.WARNING), " ", in_width(text, before=9, indent="  "))

    def debug(self, text: str) -> None:
        """A message for `--verbosity=debug`."""
        self._message("debug", dim(f"DEBUG: {text}"))

    def error(self, error: VtrainError) -> None:
        """The error's sentence, and its hint below."""
        hint = "\n".join(f"  {line}" for line in error.hint.splitlines())
        hint = in_width(hint)
        if error.message:
            role = Role.ERROR if error.prefix else Role.NAME
            message = in_width(error.message, before=len(error.prefix))
            self._message("error", Piece(error.prefix, role), message, f"\n{hint}" if hint else "")
        elif hint:
            self._message("error", hint)

    def _message(self, level: str, *pieces: str | Piece) -> None:
        if VERBOSITIES.index(level) >= VERBOSITIES.index(self.verbosity):
            self._write_lines(*pieces)

    def _write_lines(self, *pieces: str | Piece) -> None:
        """Write lines of their own: a trainer's last line may have no newline."""
        start = "\n" if self._place(stderr=True) in self._unended else ""
        if sys.stderr.isatty():
            pieces = tuple(
                each._replace(text=from_home(each.text)) if isinstance(each, Piece) else from_home(each)
                for each in pieces
            )
        text = painted(pieces, coloured=self.has_colours)
        self.write(f"{start}{text}\n".encode("utf-8", "backslashreplace"), stderr=True)

    @cached_property
    def has_colours(self) -> bool:
        """Whether messages on stderr are coloured."""
        return has_colours(sys.stderr)

    def _place(self, *, stderr: bool) -> int:
        """A number for the stream's file, the same for both streams where they are the same file."""
        return 2 if stderr or self._is_shared else 1

    @cached_property
    def _is_shared(self) -> bool:
        return os.path.samestat(os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno()))

    @property
    def _has_open_line(self) -> bool:
        """Whether the terminal's last line has no end yet: a trainer's dots, or a bar that it redraws."""
        if 2 in self._unended:
            return True
        if 1 not in self._unended:
            return False
        mode = os.fstat(sys.stdout.fileno()).st_mode  # stdout may be seen through `| cat` or `| tee`, too
        return sys.stdout.isatty() or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)

    # the status line

    @cached_property
    def can_draw(self) -> bool:
        """Whether lines can be drawn and taken away again where messages go."""
        moves_cursor = sys.stderr.isatty() and os.environ.get("TERM") not in _DUMB
        return moves_cursor and self.user_output and not self.quiet

    def show_state(self, text: str, above: Sequence[str] = ()) -> None:
        """Show state and elapsed time in the bottom line of a terminal, unless a line is open there.

        The lines `above` are shown with it.
        """
        if self._status is None and self.can_draw:
            self._status = StatusLine()
        if self._status is not None and not self._has_open_line and not in_haste():
            self._status.show(text, above)

    def close(self) -> None:
        """Restore the terminal."""
        self._clear_status()
        self._status = None

    def _clear_status(self) -> None:
        if self._status is None:
            return
        if not in_haste():
            self._status.clear()
        elif erasing := self._status.leave():
            with suppress(OutputError):  # what is written next tells
                write_all(sys.stderr.fileno(), erasing)

    @property
    def has_status_line(self) -> bool:
        """Whether a status line shows state and time already."""
        return self._status is not None


def _parsed(text: str) -> Format:
    """A format. Its language takes longer to import than a command that prints nothing has time for."""
    from vtrain.output.language.format import parse_format

    return parse_format(text)


def _path_of(key: str) -> Path:
    from vtrain.output.language.expressions import parse_key

    return parse_key(key, "--flatten").path
