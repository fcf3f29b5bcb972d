"""The table format: which rows and columns there are, in which order, and what is nested below them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

from vtrain.output.columns import cell_text, row_cutter
from vtrain.output.format import Column, Format
from vtrain.output.printers import PAGE, print_any
from vtrain.output.projection import parse_format
from vtrain.output.table import Layout, Place, draw_table, text_width

Row = list[Any]


def print_table(documents: Iterable[Any], fmt: Format, is_list: bool) -> Iterator[str]:
    """The table, or one for each page, whose widths are its own."""
    del is_list
    cut = row_cutter(fmt)
    rows: list[Row] = []
    pages = 0
    for document in documents:
        if document is not PAGE:
            rows.append(cut(document))
            continue
        pages += 1
        yield _page(rows, fmt, has_title=pages == 1) + "\n"
        rows = []
    yield _page(rows, fmt, has_title=pages <= 1)


def _page(rows: list[Row], fmt: Format, *, has_title: bool) -> str:
    if not rows:
        return ""
    if all(column.format or column.is_hidden for column in fmt.columns):
        return "".join(_joined(rows, fmt))
    rows = sort_rows(rows, fmt)
    shown = [place for place, column in enumerate(fmt.columns) if not column.is_hidden and not column.format]
    texts = [[cell_text(row[place]) for place in shown] for row in rows]
    kept = [at for at, place in enumerate(shown)
            if not fmt.columns[place].is_optional or any(row[at] for row in texts)]  # fmt: skip
    if not kept:
        return ""
    columns = [fmt.columns[shown[at]] for at in kept]
    texts = [[row[at] for at in kept] for row in texts]
    below = [_nested(row, fmt) for row in rows] if any(column.format for column in fmt.columns) else []
    title = fmt.attributes.get("title") if has_title else None
    return draw_table(_headings(columns, fmt), texts, _layout(columns, texts, fmt, title), below)


def _headings(columns: list[Column], fmt: Format) -> list[str]:
    labels = [column.label for column in columns]
    return (
        labels if any(column.label for column in fmt.columns) and "no-heading" not in fmt.attributes else []
    )


def sort_rows(rows: list[Row], fmt: Format) -> list[Row]:
    """The rows by the columns that are to be sorted by: numbers first, then texts, case-sensitive."""
    for place, reverse in reversed(fmt.order):
        rows = sorted(rows, key=lambda row: _rank(row[place]), reverse=reverse)
    return rows


def _rank(value: Any) -> tuple[float, str]:
    return (value if isinstance(value, (int, float)) else float("inf"), cell_text(value))


def _joined(rows: list[Row], fmt: Format) -> Iterator[str]:
    """Each nested format over all the rows, where there is no column beside them."""
    for place, column in enumerate(fmt.columns):
        if column.format:
            values = [row[place] for row in rows if row[place]]
            items = [item for value in values for item in (value if isinstance(value, list) else [value])]
            yield print_any(items, parse_format(column.format))


def _nested(row: Row, fmt: Format) -> str:
    texts = (
        print_any(row[place], parse_format(column.format))
        for place, column in enumerate(fmt.columns)
        if column.format
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
    room = fmt.number("width", _terminal_width()) - borders - fmt.number("margin", 0)
    places = [Place(width=width, align=column.align) for width, column in
              zip(_wrapped(widths, columns, room), columns, strict=True)]  # fmt: skip
    return Layout(
        places=places, box=box, gap=gap, title=title, is_wrapped=any(column.wrap for column in columns)
    )


def _wrapped(widths: list[int], columns: list[Column], room: int) -> list[int]:
    """The widths, those of columns that may be broken cut so that the table is as wide as `room`."""
    soft = [place for place, column in enumerate(columns) if column.wrap]
    if not soft or room >= sum(widths):
        return widths
    spare = room - sum(width for place, width in enumerate(widths) if place not in soft)
    return [
        max(spare // len(soft), min(column.wrap, width)) if column.wrap else width
        for width, column in zip(widths, columns, strict=True)
    ]


def _terminal_width() -> int:
    try:
        return int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        return shutil.get_terminal_size((80, 24)).columns
