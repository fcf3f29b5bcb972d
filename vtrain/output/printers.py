"""Printers: what each format makes of documents, as chunks of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

from vtrain.output.format import Format
from vtrain.output.projection import parse_format

PAGE = object()
"""Stands among the documents where a page of ``--page-size`` ends; only tables show it."""

Printer = Callable[[Iterable[Any], Format, bool], Iterator[str]]
"""Prints documents; the last argument is whether they are a list, whose elements are marked."""


def render(document: Any, fmt: Format) -> str:
    """One document as text, each line ended, without the marks that separate the documents of a list."""
    return "".join(_printer(fmt)([document], fmt, False))


def render_list(documents: Iterable[Any], fmt: Format) -> Iterator[str]:
    """A list of documents as chunks of text, each as soon as it is known.

    A table needs all the documents of a page first; ``disable`` asks for none.
    """
    if fmt.name != "table":
        documents = (document for document in documents if document is not PAGE)
    return _printer(fmt)(documents, fmt, True)


def print_any(value: Any, fmt: Format) -> str:
    """A value inside a document with a format of its own."""
    if isinstance(value, list):
        return "".join(render_list(value, fmt))
    return render(value, fmt) if value else ""


def projector(fmt: Format, *, keeps_null: bool) -> Callable[[Any], Any]:
    """What a format with a tree of keys makes of a document before it is printed."""
    attributes = fmt.attributes
    keeps_null = keeps_null and "no-undefined" not in attributes
    if not fmt.columns and keeps_null and not attributes:
        return lambda document: document
    from vtrain.output.tree import Projector

    return Projector(
        fmt.tree if fmt.columns or "transforms" in attributes else None,
        is_whole=not fmt.columns,
        keeps_null=keeps_null,
        transforms=True if "transforms" in attributes else False if "no-transforms" in attributes else None,
        decodes="json-decode" in attributes,
    ).project


def _printer(fmt: Format) -> Printer:
    if "disable" in fmt.attributes:
        return _ignore
    if fmt.name in _ELSEWHERE:
        room, name = _ELSEWHERE[fmt.name]
        found: Printer = getattr(import_module(f"vtrain.output.{room}"), name)
        return found
    return _HERE[fmt.name]


def _yaml(documents: Iterable[Any], fmt: Format, is_list: bool) -> Iterator[str]:
    from vtrain.output.yaml import dump_yaml

    project = projector(fmt, keeps_null=True)
    mark = "---\n" if is_list else ""
    null = fmt.attributes.get("null")
    for document in documents:
        record = project(document)
        text = dump_yaml(record if null is None else _with_null(record, null))
        if isinstance(record, (dict, list)):
            yield (mark if record else mark.replace("\n", " ")) + text
        else:
            yield mark + f"{'' if is_list else chr(10)}  {text}"


def _with_null(value: Any, null: str) -> Any:
    """The same with a text in place of every null."""
    if isinstance(value, dict):
        return {name: _with_null(item, null) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_null(item, null) for item in value]
    return null if value is None and null != "null" else value


def _json(documents: Iterable[Any], fmt: Format, is_list: bool) -> Iterator[str]:
    import json

    project = projector(fmt, keeps_null=True)
    empty = True
    for document in documents:
        text = json.dumps(project(document), indent=2, sort_keys=True, ensure_ascii=False)
        if not is_list:
            yield text + "\n"
        else:
            yield ("[\n  " if empty else ",\n  ") + text.replace("\n", "\n  ")
        empty = False
    if is_list:
        yield "[]\n" if empty else "\n]\n"


def _multi(documents: Iterable[Any], fmt: Format, is_list: bool) -> Iterator[str]:
    from vtrain.output.keys import get

    project = projector(fmt, keeps_null=False)
    formats = [parse_format(column.format) for column in fmt.columns]
    for document in documents:
        record = project(document)
        for place, column in enumerate(fmt.columns):
            if place or is_list:
                yield fmt.text("separator", "")
            yield print_any(get(record, column.key.path), formats[place])
        yield fmt.text("terminator", "")


def _consume(documents: Iterable[Any], fmt: Format, is_list: bool) -> Iterator[str]:
    del fmt, is_list
    for _ in documents:
        yield ""


def _ignore(documents: Iterable[Any], fmt: Format, is_list: bool) -> Iterator[str]:
    del documents, fmt, is_list
    return iter(())


_HERE: dict[str, Printer] = {
    "default": _yaml,
    "disable": _ignore,
    "json": _json,
    "multi": _multi,
    "none": _consume,
    "yaml": _yaml,
}
_ELSEWHERE = {
    "config": ("flat_printers", "print_config"),
    "csv": ("line_printers", "print_csv"),
    "flattened": ("flat_printers", "print_flattened"),
    "get": ("line_printers", "print_values"),
    "list": ("line_printers", "print_items"),
    "table": ("table_printer", "print_table"),
    "text": ("flat_printers", "print_flattened"),
    "value": ("line_printers", "print_values"),
}
