"""Tables: columns of text, some spaces apart, or in a box of Unicode lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

Row = Sequence[str]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One column: how wide it is, and on which side its cells stand (left, right or center)."""

    width: int
    align: str


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """How a table is drawn.

    `box` is '' for none, 'box' for lines around heading and body, 'all-box' for lines between rows too; `gap`
    is the number of spaces between columns. `is_wrapped` tells that cells may be wider than their column.
    """

    places: Sequence[Place]
    box: str = ""
    gap: int = 2
    title: str | None = None
    is_wrapped: bool = False


def draw_table(headings: Row, rows: Sequence[Row], layout: Layout, below: Sequence[str] = ()) -> str:
    """The table as text ending in a newline.

    `headings` is empty for none. `below` has, if anything, the text that is to stand below each row. A cell
    of several lines, or wider than its column, takes several lines of its row.
    """
    if layout.title is not None:
        layout = _widened(layout)
    texts = _boxed(headings, rows, layout, below) if layout.box else _plain(headings, rows, layout, below)
    return "".join(texts)


def _widened(layout: Layout) -> Layout:
    """The layout with as much room in each column as the title needs."""
    widths = [place.width for place in layout.places]
    title = display_width(layout.title or "")
    if sum(widths) >= title or layout.is_wrapped:
        return layout
    more = (title + len(widths) - 1) // len(widths)
    places = [msgspec.structs.replace(place, width=place.width + more) for place in layout.places]
    return msgspec.structs.replace(layout, places=places)


def _plain(headings: Row, rows: Sequence[Row], layout: Layout, below: Sequence[str]) -> list[str]:
    places, gap = layout.places, " " * layout.gap
    drawn: list[str] = []
    if layout.title is not None:
        width = sum(place.width for place in places) + layout.gap * (len(places) - 1)
        drawn.append(_fit(layout.title, width, "center").rstrip() + "\n")
    for number, row in enumerate([headings, *rows] if headings else rows):
        drawn += [gap.join(cells).rstrip() + "\n" for cells in _lines(row, places)]
        place = number - bool(headings)
        drawn += [below[place]] if below and place >= 0 else []
    return drawn


def _boxed(headings: Row, rows: Sequence[Row], layout: Layout, below: Sequence[str]) -> list[str]:
    places, title = layout.places, layout.title
    top = _rule("├┬┤" if title else "┌┬┐", places)
    middle, bottom = _rule("├┼┤", places), _rule("└┴┘", places)
    drawn: list[str] = []
    if title is not None:
        inner = sum(place.width for place in places) + 3 * len(places) - 1
        drawn += ["┌" + "─" * inner + "┐\n", "│" + _fit(title, inner, "center") + "│\n"]
    drawn.append(top)
    if headings:
        cells = [name.center(place.width) for name, place in zip(headings, places, strict=True)]
        drawn += ["│ " + " │ ".join(cells) + " │\n", middle]
    for number, row in enumerate(rows):
        if number and (below or layout.box == "all-box"):
            drawn.append(top if below else middle)
        drawn += ["│ " + " │ ".join(cells) + " │\n" for cells in _lines(row, places)]
        drawn += [bottom, below[number]] if below else []
    return drawn if below else [*drawn, bottom]


def _rule(corners: str, places: Sequence[Place]) -> str:
    left, cross, right = tuple(corners)
    return left + cross.join("─" * (place.width + 2) for place in places) + right + "\n"


def _lines(row: Row, places: Sequence[Place]) -> list[list[str]]:
    """The lines that a row takes, each with a cell for every column."""
    stacks = [_broken(cell, place.width) for cell, place in zip(row, places, strict=True)]
    return [
        [_fit(stack[line] if line < len(stack) else "", place.width, place.align)
         for stack, place in zip(stacks, places, strict=True)]
        for line in range(max(map(len, stacks)))
    ]  # fmt: skip


def _broken(text: str, width: int) -> list[str]:
    lines: list[str] = []
    while "\n" in text or display_width(text) > width:
        split = _split_place(text, width)
        lines.append(text[:split].rstrip())
        text = text[split:]
        if not text:
            return lines
    return [*lines, text]


def _split_place(text: str, width: int) -> int:
    """Where to break a text: after the first newline, else after the last word that fits, else anywhere."""
    split = taken = 0
    while split < len(text):
        taken += display_width(text[split])
        if taken > width:
            break
        split += 1
    split += len(text[split:]) - len(text[split:].lstrip())
    newline = text.find("\n") + 1
    if 0 < newline <= split:
        return newline
    spaces = [found.end() for found in re.finditer(r"\s+", text) if found.end() <= split]
    return max(spaces[-1] if spaces else split, 1)


def _fit(text: str, width: int, align: str) -> str:
    characters = width - display_width(text) + len(text)
    if align == "right":
        return text.rjust(characters)
    return text.center(characters) if align == "center" else text.ljust(characters)


def text_width(text: str) -> int:
    """The width of the widest line."""
    return display_width(text) if "\n" not in text else max(map(display_width, text.split("\n")))


def display_width(text: str) -> int:
    """Columns that `text` takes on a terminal: wide East Asian characters two, combining marks none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)
