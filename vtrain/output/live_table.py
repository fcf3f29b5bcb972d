"""A table on a terminal that is drawn anew in its place."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from types import TracebackType

from vtrain.output.colours import has_colours
from vtrain.output.layout import beginning, display_width, filled, in_columns
from vtrain.output.terminal import SGR, on_one_line
from vtrain.output.writing import write_all

LEAVING = "Ctrl-C leaves."
_COLOURS = re.compile(SGR.decode())


class LiveTable:
    """The rows of the moment. Ctrl-C ends the block, and leaves the last rows where they are."""

    def __init__(self) -> None:
        self._lines = 0

    def __enter__(self) -> LiveTable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return kind is not None and issubclass(kind, KeyboardInterrupt)

    def show(self, headings: Sequence[str], rows: Sequence[Sequence[str]], otherwise: str) -> None:
        """Draw these rows over the last ones, or else a sentence. Columns without any text are left out."""
        cells = [list(map(on_one_line, row)) for row in filled(headings, rows)]
        role_of = (lambda _place, _cell: None) if has_colours(sys.stdout) else None
        self.draw(in_columns(cells, role_of=role_of) if rows else [otherwise])

    def draw(self, lines: Sequence[str]) -> None:
        """Draw these lines over the last ones. One that is too long is cut, and loses its colours."""
        columns, height = shutil.get_terminal_size()
        shown = [*lines, "", LEAVING][: max(height - 1, 1)]
        plain = [_COLOURS.sub("", line) for line in shown]
        lines = [
            line if display_width(text) <= columns else beginning(text, columns)
            for line, text in zip(shown, plain, strict=True)
        ]
        up = f"\x1b[{self._lines}A" if self._lines else ""
        drawn = "".join(f"\r\x1b[K{line}\n" for line in lines)
        write_all(sys.stdout.fileno(), f"{up}{drawn}\x1b[J".encode("utf-8", "replace"))
        self._lines = len(lines)
