"""The table format: columns of text, in a box or without, and other formats nested below the rows."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from vtrain.output.language.format import PAGE, Column, Format
from vtrain.output.language.projection import cell_text, row_projector
from vtrain.output.layout import beginning, display_width, text_width

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
    shown = [
        (column, [cell_text(row[place]) for row in rows])
        for place, column in enumerate(fmt.columns)
        if not column.is_hidden and not column.format
    ]
    shown = [(column, cells) for column, cells in shown if not column.is_optional or any(cells)]
    if not shown:
        return ""
    has_nested = any(column.format for column in fmt.columns)
    below = [_nested(row, fmt, print_nested) for row in rows] if has_nested else []
    return _Table(shown, fmt, has_title=has_title).drawn(below)


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


def _terminal_width() -> int:
    try:
        return int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        return shutil.get_terminal_size((80, 24)).columns


class _Table:
    """Columns of text, and their geometry. `drawn` takes the text below each row, or none."""

    def __init__(self, shown: Sequence[tuple[Column, list[str]]], fmt: Format, *, has_title: bool) -> None:
        self.columns = [column for column, _ in shown]
        self.rows = list(zip(*(cells for _, cells in shown), strict=True))
        attributes = fmt.attributes
        has_headings = any(column.label for column in fmt.columns) and "no-heading" not in attributes
        self.headings = tuple(column.label for column in self.columns) if has_headings else ()
        self.title = attributes.get("title") if has_title else None
        self.has_rules = "all-box" in attributes
        self.has_box = self.has_rules or "box" in attributes
        self.gap = 1 if self.has_box else fmt.number("pad", 2)
        self.widths = [
            max(column.width, text_width(column.label) if has_headings else 0, *map(text_width, cells))
            for column, cells in shown
        ]
        self._wrap(fmt)
        self._fit_title()

    def _wrap(self, fmt: Format) -> None:
        """Narrow the columns that may be wrapped until the table fits into the terminal."""
        count = len(self.columns)
        borders = 1 + count * (1 + 2 * self.gap) if self.has_box else (count - 1) * self.gap
        space = fmt.number("width", _terminal_width()) - borders - fmt.number("margin", 0)
        soft = sum(bool(column.wrap) for column in self.columns)
        if not soft or space >= sum(self.widths):
            return
        pairs = list(zip(self.widths, self.columns, strict=True))
        spare = space - sum(width for width, column in pairs if not column.wrap)
        self.widths = [
            max(spare // soft, min(column.wrap, width)) if column.wrap else width for width, column in pairs
        ]

    def _fit_title(self) -> None:
        """Widen the columns where the title is wider, except for a table whose cells are wrapped."""
        title = display_width(self.title or "")
        if sum(self.widths) < title and not any(column.wrap for column in self.columns):
            more = (title + len(self.widths) - 1) // len(self.widths)
            self.widths = [width + more for width in self.widths]

    def drawn(self, below: Sequence[str]) -> str:
        """The table as text ending in a newline.

        A cell of several lines, or one wider than its column, takes several lines of its row.
        """
        return "".join(self._boxed(below) if self.has_box else self._plain(below))

    def _plain(self, below: Sequence[str]) -> Iterator[str]:
        gap = " " * self.gap
        if self.title is not None:
            width = sum(self.widths) + self.gap * (len(self.widths) - 1)
            yield _fit(self.title, width, "center").rstrip() + "\n"
        if self.headings:
            yield from (gap.join(cells).rstrip() + "\n" for cells in self._lines(self.headings))
        for number, row in enumerate(self.rows):
            yield from (gap.join(cells).rstrip() + "\n" for cells in self._lines(row))
            yield from below[number : number + 1]

    def _boxed(self, below: Sequence[str]) -> Iterator[str]:
        top = self._rule("├┬┤" if self.title else "┌┬┐")
        middle, bottom = self._rule("├┼┤"), self._rule("└┴┘")
        if self.title is not None:
            inner = sum(self.widths) + 3 * len(self.widths) - 1
            yield "┌" + "─" * inner + "┐\n" + "│" + _fit(self.title, inner, "center") + "│\n"
        yield top
        if self.headings:
            names = zip(self.headings, self.widths, strict=True)
            yield "│ " + " │ ".join(name.center(width) for name, width in names) + " │\n" + middle
        for number, row in enumerate(self.rows):
            if number and (below or self.has_rules):
                yield top if below else middle
            yield from ("│ " + " │ ".join(cells) + " │\n" for cells in self._lines(row))
            if below:
                yield bottom + below[number]
        if not below:
            yield bottom

    def _rule(self, corners: str) -> str:
        left, cross, right = tuple(corners)
        return left + cross.join("─" * (width + 2) for width in self.widths) + right + "\n"

    def _lines(self, row: Sequence[str]) -> list[list[str]]:
        """The lines that a row takes, each with a cell for every column."""
        stacks = [_broken(cell, width) for cell, width in zip(row, self.widths, strict=True)]
        places = list(zip(stacks, self.widths, self.columns, strict=True))
        return [
            [
                _fit(stack[line] if line < len(stack) else "", width, column.align)
                for stack, width, column in places
            ]
            for line in range(max(map(len, stacks)))
        ]


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
