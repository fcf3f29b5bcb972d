"""The table format: columns of text, in a box or without, and other formats nested below the rows."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from vtrain.output.language.format import PAGE, Column, Format
from vtrain.output.language.projection import cell_text, row_projector
from vtrain.output.layout import beginning, display_width, text_width

Texts = Sequence[str]
PrintNested = Callable[[Any, Format], str]
"""Prints a value inside a document in a format of its own."""


def print_table(documents: Iterable[Any], fmt: Format, print_nested: PrintNested) -> Iterator[str]:
    """The table, or one for each page with its own column widths."""
    cells_of = row_projector(fmt)
    rows: list[list[Any]] = []
    pages = 0
    for document in documents:
        if document is not PAGE:
            rows.append(cells_of(document))
            continue
        pages += 1
        yield _page(rows, fmt, print_nested, has_title=pages == 1) + "\n"
        rows = []
    yield _page(rows, fmt, print_nested, has_title=pages <= 1)


def _page(rows: list[list[Any]], fmt: Format, print_nested: PrintNested, *, has_title: bool) -> str:
    if not rows:
        return ""
    if all(column.format or column.is_hidden for column in fmt.columns):
        return "".join(_joined(rows, fmt, print_nested))
    rows = sort_rows(rows, fmt)
    shown = [place for place, column in enumerate(fmt.columns) if not column.is_hidden and not column.format]
    texts = [[cell_text(row[place]) for place in shown] for row in rows]
    kept = [at for at, place in enumerate(shown)
            if not fmt.columns[place].is_optional or any(row[at] for row in texts)]  # fmt: skip
    if not kept:
        return ""
    columns = [fmt.columns[shown[at]] for at in kept]
    texts = [[row[at] for at in kept] for row in texts]
    has_nested = any(column.format for column in fmt.columns)
    below = [_nested(row, fmt, print_nested) for row in rows] if has_nested else []
    title = fmt.attributes.get("title") if has_title else None
    return draw_table(_headings(columns, fmt), texts, _layout(columns, texts, fmt, title), below)


def _headings(columns: list[Column], fmt: Format) -> list[str]:
    labels = [column.label for column in columns]
    return (
        labels if any(column.label for column in fmt.columns) and "no-heading" not in fmt.attributes else []
    )


def sort_rows(rows: list[list[Any]], fmt: Format) -> list[list[Any]]:
    """The rows sorted by the format's sort columns: numbers first, then texts, case-sensitive."""

    def rank(value: Any) -> tuple[float, str]:
        return (value if isinstance(value, (int, float)) else float("inf"), cell_text(value))

    for place, reverse in reversed(fmt.order):
        rows = sorted(rows, key=lambda row: rank(row[place]), reverse=reverse)
    return rows


def _joined(rows: list[list[Any]], fmt: Format, print_nested: PrintNested) -> Iterator[str]:
    """Each nested format over all rows, for a table of nested formats only."""
    for place, column in enumerate(fmt.columns):
        if column.format:
            values = [row[place] for row in rows if row[place]]
            items = [item for value in values for item in (value if isinstance(value, list) else [value])]
            yield print_nested(items, column.format)


def _nested(row: list[Any], fmt: Format, print_nested: PrintNested) -> str:
    texts = (
        print_nested(row[place], column.format) for place, column in enumerate(fmt.columns) if column.format
    )
    return "".join(f"    {line}\n" for text in texts for line in text.split("\n")[:-1])


def _layout(columns: list[Column], rows: list[list[str]], fmt: Format, title: str | None) -> Layout:
    attributes = fmt.attributes
    box = "all-box" if "all-box" in attributes else "box" if "box" in attributes else ""
    widths = [max(map(text_width, cells)) for cells in zip(*rows, strict=True)]
    labels = _headings(columns, fmt)
    widths = [
        max(width, text_width(label))
        for width, label in zip(widths, labels or [""] * len(widths), strict=True)
    ]
    widths = [max(width, column.width) for width, column in zip(widths, columns, strict=True)]
    gap = 1 if box else fmt.number("pad", 2)
    borders = 1 + len(columns) * (1 + 2 * gap) if box else (len(columns) - 1) * gap
    space = fmt.number("width", _terminal_width()) - borders - fmt.number("margin", 0)
    places = [TablePlace(width=width, align=column.align) for width, column in
              zip(_wrapped(widths, columns, space), columns, strict=True)]  # fmt: skip
    return Layout(
        places=places, box=box, gap=gap, title=title, is_wrapped=any(column.wrap for column in columns)
    )


def _wrapped(widths: list[int], columns: list[Column], space: int) -> list[int]:
    """The widths, with wrapped columns narrowed so that the table is `space` wide."""
    soft = [place for place, column in enumerate(columns) if column.wrap]
    if not soft or space >= sum(widths):
        return widths
    spare = space - sum(width for place, width in enumerate(widths) if place not in soft)
    return [
        max(spare // len(soft), min(column.wrap, width)) if column.wrap else width
        for width, column in zip(widths, columns, strict=True)
    ]


def _terminal_width() -> int:
    try:
        return int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        return shutil.get_terminal_size((80, 24)).columns


class TablePlace(msgspec.Struct, frozen=True, kw_only=True):
    """The width of one column, and its alignment (left, right or center)."""

    width: int
    align: str


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The geometry of a table.

    `box` is '' for none, 'box' for lines around heading and body, 'all-box' for lines between rows too. `gap`
    is the number of spaces between columns. With `is_wrapped`, cells may be wider than their column.
    """

    places: Sequence[TablePlace]
    box: str = ""
    gap: int = 2
    title: str | None = None
    is_wrapped: bool = False


def draw_table(headings: Texts, rows: Sequence[Texts], layout: Layout, below: Sequence[str] = ()) -> str:
    """The table as text ending in a newline.

    `headings` may be empty. `below` is empty, or has the text below each row. A cell of several lines, or one
    wider than its column, takes several lines of its row.
    """
    if layout.title is not None:
        layout = _widened(layout)
    texts = _boxed(headings, rows, layout, below) if layout.box else _plain(headings, rows, layout, below)
    return "".join(texts)


def _widened(layout: Layout) -> Layout:
    """The layout with columns wide enough for the title."""
    widths = [place.width for place in layout.places]
    title = display_width(layout.title or "")
    if sum(widths) >= title or layout.is_wrapped:
        return layout
    more = (title + len(widths) - 1) // len(widths)
    places = [msgspec.structs.replace(place, width=place.width + more) for place in layout.places]
    return msgspec.structs.replace(layout, places=places)


def _plain(headings: Texts, rows: Sequence[Texts], layout: Layout, below: Sequence[str]) -> list[str]:
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


def _boxed(headings: Texts, rows: Sequence[Texts], layout: Layout, below: Sequence[str]) -> list[str]:
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


def _rule(corners: str, places: Sequence[TablePlace]) -> str:
    left, cross, right = tuple(corners)
    return left + cross.join("─" * (place.width + 2) for place in places) + right + "\n"


def _lines(row: Texts, places: Sequence[TablePlace]) -> list[list[str]]:
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
    """Where to break a text: after the first newline, else the last word that fits, else anywhere."""
    split = len(beginning(text, width))
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
