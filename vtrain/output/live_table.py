"""A table on a terminal that is drawn anew in its place."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from types import TracebackType

from vtrain.output.colours import Role, has_colours, paint
from vtrain.output.layout import beginning, filled, in_columns
from vtrain.output.terminal import on_one_line
from vtrain.output.writing import write_all

LEAVING = "Ctrl-C leaves."


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
        self.draw(in_columns(cells) if rows else [otherwise])

    def draw(self, lines: Sequence[str]) -> None:
        """Draw these lines, of which the first one has the headings, over the last ones."""
        columns, height = shutil.get_terminal_size()
        lines = [beginning(line, columns) for line in [*lines, "", LEAVING]][: max(height - 1, 1)]
        if has_colours(sys.stdout):
            lines[0] = paint(lines[0], Role.NAME)
        up = f"\x1b[{self._lines}A" if self._lines else ""
        drawn = "".join(f"\r\x1b[K{line}\n" for line in lines)
        write_all(sys.stdout.fileno(), f"{up}{drawn}\x1b[J".encode("utf-8", "replace"))
        self._lines = len(lines)
