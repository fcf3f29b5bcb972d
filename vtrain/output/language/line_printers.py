"""The formats that write lines: one per document (value, get, csv), per field (list) or per value."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from vtrain.output.language.format import Format
from vtrain.output.language.projection import Projector, cell_text, in_order, row_projector

Quote = Callable[[str], str]

_ESCAPES = {"\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}
_TO_ESCAPE = re.compile(r'[\f\n\r\t\\"]')


def _values(documents: Iterable[Any], fmt: Format, _is_list: bool) -> Iterator[str]:
    """Cells with a tab between them."""
    return _lines(documents, fmt, separator="\t", quotes="quote" in fmt.attributes, heading=False)


def _csv(documents: Iterable[Any], fmt: Format, _is_list: bool) -> Iterator[str]:
    """Cells with a comma between them, quoted where that is needed, under a line of labels."""
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
    cut = row_projector(fmt)
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


def _items(documents: Iterable[Any], fmt: Format, _is_list: bool) -> Iterator[str]:
    """Each document as an item of a list, with a line for each of its values."""
    title = f"{fmt.attributes['title']}\n" if fmt.attributes.get("title") else ""
    if "always-display-title" in fmt.attributes:
        yield title
        title = ""
    between = " " if "compact" in fmt.attributes else "\n   "
    cut = row_projector(fmt)
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


def _flattened(documents: Iterable[Any], fmt: Format, is_list: bool) -> Iterator[str]:
    """``path: value`` for every value, the values below one another."""
    project = Projector(fmt, keeps_null=False).project
    labels = {column.key.text: column.label.lower() for column in fmt.columns}
    separator = fmt.text("separator", ": ")
    for document in documents:
        pairs = [(labels.get(name, name), text) for name, text in _leaves(project(document), "")]
        width = 0 if "no-pad" in fmt.attributes else max((len(name) for name, _ in pairs), default=0)
        lines = [f"{name}{separator}{' ' * (width - len(name))}{_one_line(text)}\n" for name, text in pairs]
        yield "---\n" * is_list + "".join(lines)


def _leaves(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if value and isinstance(value, dict):
        for field in sorted(value):
            yield from _leaves(value[field], f"{name}.{field}" if name else field)
    elif value and isinstance(value, list):
        for place, item in enumerate(value):
            yield from _leaves(item, f"{name}[{place}]")
    else:
        yield name, "None" if value is None else cell_text(value)


def _one_line(text: str) -> str:
    if "\n" not in text and text == text.strip():
        return text
    return '"' + _TO_ESCAPE.sub(lambda found: _ESCAPES[found[0]], text) + '"'


def _config(documents: Iterable[Any], fmt: Format, _is_list: bool) -> Iterator[str]:
    """``name = value`` below ``[section]``; with ``export`` and ``unset`` the commands of a shell."""
    project = Projector(fmt, keeps_null=True).project
    if "title" in fmt.attributes:
        yield f"{fmt.attributes['title']}\n"
    for document in documents:
        record = project(document)
        if not isinstance(record, dict):
            continue
        if "export" in fmt.attributes or "unset" in fmt.attributes:
            yield "".join(_variables(record, "", exports="export" in fmt.attributes))
        else:
            yield _section([], record.items())


def _section(names: list[str], items: Iterable[tuple[Any, Any]]) -> str:
    own, below = "", ""
    for key, value in sorted(items):
        if isinstance(value, (dict, list)):
            inner = value.items() if isinstance(value, dict) else enumerate(value)
            below += _section([*names, str(key)], inner)
        else:
            own += f"{key} (unset)\n" if value is None else f"{key} = {value}\n"
    headed = names and (own or (below and not below.startswith("[")))
    return (f"[{'.'.join(names)}]\n" if headed else "") + own + below


def _variables(record: dict[str, Any], prefix: str, *, exports: bool) -> Iterator[str]:
    for name, value in sorted(record.items()):
        if isinstance(value, dict):
            yield from _variables(value, f"{prefix}{name}_", exports=exports)
        elif isinstance(value, list):
            for place, item in enumerate(value):
                inner = item if isinstance(item, dict) else {f"I{place}": item}
                yield from _variables(inner, f"{prefix}{name}_", exports=exports)
        elif not exports:
            yield f"unset {prefix}{name}\n"
        else:
            yield (
                f"{prefix}{name} (unset)\n"
                if value is None
                else f"export {prefix}{name}={shlex.quote(str(value))}\n"
            )


LINE_PRINTERS = {
    "config": _config,
    "csv": _csv,
    "flattened": _flattened,
    "get": _values,
    "list": _items,
    "text": _flattened,
    "value": _values,
}
