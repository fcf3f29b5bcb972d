"""The formats with a line for each document: value, get, csv and list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from vtrain.output.columns import cell_text, in_order, row_cutter
from vtrain.output.format import Format

Quote = Callable[[str], str]


def print_values(documents: Iterable[Any], fmt: Format, is_list: bool) -> Iterator[str]:
    """Cells with a tab between them."""
    del is_list
    return _lines(documents, fmt, separator="\t", quotes="quote" in fmt.attributes, heading=False)


def print_csv(documents: Iterable[Any], fmt: Format, is_list: bool) -> Iterator[str]:
    """Cells with a comma between them, quoted where that is needed, under a line of labels."""
    del is_list
    attributes = fmt.attributes
    return _lines(
        documents,
        fmt,
        separator=",",
        quotes="no-quote" not in attributes,
        heading="no-heading" not in attributes,
    )


def _lines(
    documents: Iterable[Any], fmt: Format, *, separator: str, quotes: bool, heading: bool
) -> Iterator[str]:
    separator = fmt.text("separator", separator)
    delimiter, terminator = fmt.text("delimiter", ";"), fmt.text("terminator", "\n")
    quote = _quoting(separator, delimiter, terminator) if quotes else str
    shown = [place for place, column in enumerate(fmt.columns) if not column.is_hidden]
    labels = [fmt.columns[place].label.lower() for place in shown]
    has_labels = any(column.label for column in fmt.columns)
    cut = row_cutter(fmt)
    for document in documents:
        row = cut(document)
        line = separator.join([_cell(row[place], delimiter, quote) for place in shown]) + terminator
        if heading and has_labels:
            line = separator.join(map(quote, labels)) + terminator + line
        heading = False
        yield line


def _quoting(*special: str) -> Quote:
    def quote(text: str) -> str:
        needed = '"' in text or any(mark in text for mark in special) or text != text.strip()
        return '"' + text.replace('"', '""') + '"' if text and needed else text

    return quote


def _cell(value: Any, delimiter: str, quote: Quote) -> str:
    if isinstance(value, dict):
        return delimiter.join([quote(f"{name}={value[name]}") for name in sorted(value, key=str)])
    if isinstance(value, list):
        return delimiter.join([quote(str(item)) if item else "" for item in value])
    return quote(cell_text(value))


def print_items(documents: Iterable[Any], fmt: Format, is_list: bool) -> Iterator[str]:
    """Each document as an item of a list, with a line for each of its values."""
    del is_list
    title = f"{fmt.attributes['title']}\n" if fmt.attributes.get("title") else ""
    if "always-display-title" in fmt.attributes:
        yield title
        title = ""
    between = " " if "compact" in fmt.attributes else "\n   "
    cut = row_cutter(fmt)
    for document in documents:
        yield f"{title} - {between.join(_item(document, fmt, cut))}\n"
        title = ""


def _item(document: Any, fmt: Format, cut: Callable[[Any], list[Any]]) -> list[str]:
    if fmt.columns and isinstance(document, (dict, list)):
        cells = [cell for cell in cut(document) if cell is not None]
        return [str(cell) for cell, column in zip(cells, fmt.columns, strict=False) if not column.is_hidden]
    if isinstance(document, dict):
        return [f"{name}: {value}" for name, value in in_order(document).items() if value is not None]
    if isinstance(document, list):
        return [str(item) for item in in_order(document) if item is not None]
    return [str(document or "")]
