"""Printers: what each format makes of documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from vtrain.output.keys import Key, evaluate, snake_case

if TYPE_CHECKING:
    from vtrain.output.projection import Format


def print_one(document: object, fmt: Format) -> str:
    """One document, without the marks that separate the documents of a list."""
    if fmt.name in _TREES:
        return _TREES[fmt.name](_projected(document, fmt), fmt)
    return "".join(print_many([document], fmt))


def print_many(documents: Iterable[object], fmt: Format) -> Iterator[str]:
    """A list of documents, in chunks."""
    return _LISTS[fmt.name](documents, fmt)


def _projected(document: object, fmt: Format) -> object:
    if not fmt.keys:
        return document
    from vtrain.output.tree import project

    return project(document, fmt.keys)


# Trees


def _yaml(document: object, fmt: Format) -> str:
    del fmt
    from vtrain.output.yaml import dump_yaml

    return dump_yaml(document)


def _json(document: object, fmt: Format) -> str:
    del fmt
    import json

    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _flattened(document: object, fmt: Format) -> str:
    pairs = list(_leaves(document, ""))
    separator = _text_attribute(fmt, "separator", ": ")
    if fmt.attributes.get("pad") is False:
        return "".join(f"{name}{separator}{value}\n" for name, value in pairs)
    width = max((len(name) for name, _ in pairs), default=0) + len(separator)
    return "".join(f"{(name + separator.rstrip()).ljust(width)}{value}\n" for name, value in pairs)


def _leaves(value: object, name: str) -> Iterator[tuple[str, str]]:
    if value and isinstance(value, dict):
        for field in sorted(value):
            yield from _leaves(value[field], f"{name}.{field}" if name else field)
    elif value and isinstance(value, list):
        for place, item in enumerate(value):
            yield from _leaves(item, f"{name}[{place}]")
    elif value is not None:
        yield name, _one_line(str(value))


def _one_line(text: str) -> str:
    if "\n" not in text:
        return text
    import json

    return json.dumps(text, ensure_ascii=False)


def _marked(documents: Iterable[object], fmt: Format) -> Iterator[str]:
    for document in documents:
        yield "---\n" + _TREES[fmt.name](_projected(document, fmt), fmt)


def _json_array(documents: Iterable[object], fmt: Format) -> Iterator[str]:
    empty = True
    for document in documents:
        text = _json(_projected(document, fmt), fmt).rstrip("\n").replace("\n", "\n  ")
        yield ("[\n  " if empty else ",\n  ") + text
        empty = False
    yield "[]\n" if empty else "\n]\n"


# Lines


def _value_lines(documents: Iterable[object], fmt: Format) -> Iterator[str]:
    separator = _text_attribute(fmt, "separator", "\t")
    quote = '"' if fmt.attributes.get("quote") else ""
    for document in documents:
        yield _line(document, fmt, separator, quote)


def _csv_lines(documents: Iterable[object], fmt: Format) -> Iterator[str]:
    separator = _text_attribute(fmt, "separator", ",")
    heading = fmt.attributes.get("heading") is not False
    for document in documents:
        if heading:
            names = [_quoted(name.lower(), separator) for name in _headings(fmt.keys, distinct=False)]
            yield separator.join(names) + _text_attribute(fmt, "terminator", "\n")
            heading = False
        yield _line(document, fmt, separator, '"')


def _line(document: object, fmt: Format, separator: str, quote: str) -> str:
    delimiter = _text_attribute(fmt, "delimiter", ";")
    cells = [_joined(evaluate(key, document), delimiter) for key in fmt.keys]
    if quote:
        cells = [_quoted(cell, separator) for cell in cells]
    return separator.join(cells) + _text_attribute(fmt, "terminator", "\n")


def _quoted(text: str, separator: str) -> str:
    special = '"' in text or (separator and separator in text) or "\n" in text or "\r" in text
    return '"' + text.replace('"', '""') + '"' if special or text != text.strip() else text


def _joined(value: object, delimiter: str) -> str:
    if isinstance(value, list):
        return delimiter.join(cell_text(item) for item in value)
    if isinstance(value, dict):
        return delimiter.join(f"{name}={cell_text(value[name])}" for name in sorted(value))
    return cell_text(value)


def cell_text(value: object) -> str:
    """One value as the text of a cell: '' for none, Python's notation for lists and dictionaries."""
    if value is None:
        return ""
    return repr(_sorted(value)) if isinstance(value, (list, dict)) else str(value)


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _list_items(documents: Iterable[object], fmt: Format) -> Iterator[str]:
    if title := fmt.attributes.get("title"):
        yield f"{title}\n"
    for document in documents:
        lines = _item_lines(document, fmt)
        yield "".join(f"{'   ' if place else ' - '}{line}\n" for place, line in enumerate(lines))


def _item_lines(document: object, fmt: Format) -> list[str]:
    if fmt.keys:
        values = [evaluate(key, document) for key in fmt.keys]
        return [cell_text(value) for value in values if value is not None]
    if isinstance(document, dict):
        names = sorted(name for name, value in document.items() if value is not None)
        return [f"{name}: {cell_text(document[name])}" for name in names]
    return [cell_text(document)]


# Tables


def _table(documents: Iterable[object], fmt: Format) -> Iterator[str]:
    from vtrain.output.table import render_table

    rows = [[cell_text(evaluate(key, document)) for key in fmt.keys] for document in documents]
    shown = [place for place, key in enumerate(fmt.keys) if _is_shown(key, [row[place] for row in rows])]
    if not rows or not shown:
        return
    names = _headings(fmt.keys, distinct=True)
    headings = [names[place] for place in shown]
    attributes = fmt.attributes
    yield render_table(
        headings if any(headings) and attributes.get("heading") is not False else [],
        [[row[place] for place in shown] for row in rows],
        aligns=[str(fmt.keys[place].attributes.get("align", "left")) for place in shown],
        box="all-box" if attributes.get("all-box") else "box" if attributes.get("box") else "",
        pad=int(str(attributes["pad"])) if str(attributes.get("pad", "")).isdecimal() else None,
        title=str(attributes.get("title", "")),
    )


def _is_shown(key: Key, cells: Sequence[str]) -> bool:
    return not key.attributes.get("optional") or any(cells)


def _headings(keys: Sequence[Key], *, distinct: bool) -> list[str]:
    """Labels, or the last name of each key in UPPER_SNAKE, after as many parents as make it `distinct`."""
    headings: list[str] = []
    for key in keys:
        label = key.attributes.get("label")
        names = [snake_case(name).upper() for name in key.names] or [""]
        candidates = ["_".join(names[-size:]) for size in range(1, len(names) + 1)]
        free = [candidate for candidate in candidates if not distinct or candidate not in headings]
        headings.append(str(label) if label is not None else (free or candidates)[0])
    return headings


def _text_attribute(fmt: Format, name: str, default: str) -> str:
    value = fmt.attributes.get(name, default)
    return value.replace("\\n", "\n").replace("\\t", "\t") if isinstance(value, str) else default


def _consume(documents: Iterable[object], fmt: Format) -> Iterator[str]:
    del fmt
    for _ in documents:
        yield ""


def _ignore(documents: Iterable[object], fmt: Format) -> Iterator[str]:
    del documents, fmt
    return iter(())


_TREES: dict[str, Callable[[object, Format], str]] = {
    "default": _yaml,
    "flattened": _flattened,
    "json": _json,
    "text": _flattened,
    "yaml": _yaml,
}
_LISTS: dict[str, Callable[[Iterable[object], Format], Iterator[str]]] = {
    "csv": _csv_lines,
    "default": _marked,
    "disable": _ignore,
    "flattened": _marked,
    "get": _value_lines,
    "json": _json_array,
    "list": _list_items,
    "none": _consume,
    "table": _table,
    "text": _marked,
    "value": _value_lines,
    "yaml": _marked,
}
