"""The width of text on a terminal, and rows in columns of the widths that they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vtrain.output.colours import Role, paint

GAP = "  "
"""What stands between two columns."""


def filled(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The headings and the rows below them, without the columns in which no row has any text."""
    kept = [place for place in range(len(headings)) if any(row[place] for row in rows)]
    return [[row[place] for place in kept] for row in (headings, *rows)]


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of the widest cell of each column."""
    return [max(map(display_width, cells)) for cells in zip(*rows, strict=True)]


def in_columns(
    rows: Sequence[Sequence[str]],
    *,
    widths: Sequence[int] | None = None,
    role_of: Callable[[int, str], Role | None] | None = None,
) -> list[str]:
    """The rows as lines. A cell that is wider than its column is cut, and ends in an ellipsis.

    With `role_of` they are coloured: the first one as headings, a cell of the others in the role that it
    gives for the number of the column and the text.
    """
    widths = widths or column_widths(rows)
    lines = []
    for number, row in enumerate(rows):
        cells = []
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
            shown = cell if display_width(cell) <= width else f"{beginning(cell, width - 1)}…"
            role = None if role_of is None else role_of(place, cell) if number else Role.NAME
            padding = " " * (width - display_width(shown))
            cells.append((paint(shown, role) if role else shown) + padding)
        lines.append(GAP.join(cells).rstrip())
    return lines


def text_width(text: str) -> int:
    """The width of the widest line."""
    return display_width(text) if "\n" not in text else max(map(display_width, text.split("\n")))


def display_width(text: str) -> int:
    """Columns that `text` takes on a terminal, as gcloud counts them.

    Wide East Asian characters take two; combining marks, and characters that only format, take none.
    """
    if text.isascii():
        return len(text)
    from unicodedata import category, combining, east_asian_width

    return sum(
        0 if combining(char) or category(char) == "Cf" else 2 if east_asian_width(char) in "WF" else 1
        for char in text
    )


def beginning(text: str, columns: int) -> str:
    """As much of the beginning of a text as fits into that many columns."""
    if text.isascii():
        return text[:columns]
    taken = 0
    for place, char in enumerate(text):
        taken += display_width(char)
        if taken > columns:
            return text[:place]
    return text
