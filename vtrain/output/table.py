"""Tables: columns of text, two spaces apart, or in a box of Unicode lines."""

from __future__ import annotations

from collections.abc import Sequence

Row = Sequence[str]


def render_table(
    headings: Row,
    rows: Sequence[Row],
    *,
    aligns: Sequence[str],
    box: str = "",
    pad: int | None = None,
    title: str = "",
) -> str:
    """The table as text ending in a newline.

    `headings` is empty for none; `aligns` has left, right or center for each column; `box` is '' for none,
    'box' for lines around heading and body, 'all-box' for lines between rows too; `pad` is the number of
    spaces between columns. A cell of several lines takes several lines of its row.
    """
    split_rows = [_split(row) for row in rows]
    every_line = [headings] * bool(headings) + [line for lines in split_rows for line in lines]
    widths = [max(map(display_width, column), default=0) for column in zip(*every_line, strict=True)]
    if box:
        return _boxed(headings, split_rows, widths, aligns, title, every_row=box == "all-box")
    gap = " " * (2 if pad is None else pad)
    lines = [gap.join(_cells(line, widths, aligns)).rstrip() for line in every_line]
    if title:
        lines.insert(0, _fit(title, sum(widths) + len(gap) * (len(widths) - 1), "center").rstrip())
    return "\n".join(lines) + "\n"


def _boxed(
    headings: Row,
    rows: Sequence[Sequence[Row]],
    widths: list[int],
    aligns: Sequence[str],
    title: str,
    *,
    every_row: bool,
) -> str:
    def rule(left: str, cross: str, right: str) -> str:
        return left + cross.join("─" * (width + 2) for width in widths) + right

    def line(cells: Sequence[str]) -> str:
        return "│ " + " │ ".join(cells) + " │"

    lines = [rule("┌", "─" if title else "┬", "┐")]
    if title:
        inner = sum(widths) + 3 * len(widths) - 3
        lines += ["│ " + _fit(title, inner, "center") + " │", rule("├", "┬", "┤")]
    if headings:
        lines += [line(_cells(headings, widths, ["center"] * len(widths))), rule("├", "┼", "┤")]
    for place, row in enumerate(rows):
        if place and every_row:
            lines.append(rule("├", "┼", "┤"))
        lines += [line(_cells(part, widths, aligns)) for part in row]
    return "\n".join([*lines, rule("└", "┴", "┘")]) + "\n"


def _split(row: Row) -> list[Row]:
    if not any("\n" in cell for cell in row):
        return [row]
    columns = [cell.rstrip("\n").split("\n") for cell in row]
    height = max(map(len, columns))
    return [[column[place] if place < len(column) else "" for column in columns] for place in range(height)]


def _cells(row: Row, widths: Sequence[int], aligns: Sequence[str]) -> list[str]:
    return [_fit(cell, width, align) for cell, width, align in zip(row, widths, aligns, strict=True)]


def _fit(text: str, width: int, align: str) -> str:
    spare = max(0, width - display_width(text))
    left = spare if align == "right" else (spare + 1) // 2 if align == "center" else 0
    return " " * left + text + " " * (spare - left)


def display_width(text: str) -> int:
    """Columns that `text` takes on a terminal: wide East Asian characters two, combining marks none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)
