"""The printers of all formats; each turns documents into chunks of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from vtrain.messages.codec import mapped
from vtrain.output.language.format import PAGE, Format
from vtrain.output.language.keys import get

Printer = Callable[[Iterable[Any], Format, bool], Iterator[str]]
"""Prints documents. The last argument is true for a list, whose elements are separated by marks."""


def render(document: Any, fmt: Format) -> str:
    """One document as whole lines, without the marks between the documents of a list."""
    return "".join(_printer(fmt)([document], fmt, False))


def render_list(documents: Iterable[Any], fmt: Format) -> Iterator[str]:
    """A list of documents as chunks of text, each as early as possible.

    A table needs all the documents of a page first; ``disable`` asks for none.
    """
    if fmt.name != "table":
        documents = (document for document in documents if document is not PAGE)
    return _printer(fmt)(documents, fmt, True)


def _printer(fmt: Format) -> Printer:
    name = "disable" if "disable" in fmt.attributes else fmt.name
    if name in _PRINTERS:
        return _PRINTERS[name]
    from vtrain.output.language.line_printers import LINE_PRINTERS

    return LINE_PRINTERS[name]


def _projector(fmt: Format, *, keeps_null: bool) -> Callable[[Any], Any]:
    """The function that reduces documents to the keys of a format; most formats keep all of them."""
    if keeps_null and not fmt.columns and not fmt.attributes:
        return lambda document: document
    from vtrain.output.language.projection import Projector

    return Projector(fmt, keeps_null=keeps_null).project


def _yaml(documents: Iterable[Any], fmt: Format, is_list: bool) -> Iterator[str]:
    from vtrain.output.language.yaml_writer import dump_yaml

    project = _projector(fmt, keeps_null=True)
    mark = "---\n" if is_list else ""
    null = fmt.attributes.get("null")
    for document in documents:
        record = project(document)
        if null is not None:
            record = mapped(record, lambda value: null if value is None and null != "null" else value)
        text = dump_yaml(record)
        if isinstance(record, (dict, list)):
            yield (mark if record else mark.replace("\n", " ")) + text
        else:
            yield mark + f"{'' if is_list else chr(10)}  {text}"


def _json(documents: Iterable[Any], fmt: Format, is_list: bool) -> Iterator[str]:
    project = _projector(fmt, keeps_null=True)
    empty = True
    for document in documents:
        text = _indented_json(project(document))
        if not is_list:
            yield text + "\n"
        else:
            yield ("[\n  " if empty else ",\n  ") + text.replace("\n", "\n  ")
        empty = False
    if is_list:
        yield "[]\n" if empty else "\n]\n"


def _indented_json(value: Any) -> str:
    import json

    # Python's json indents without its C code; msgspec does it in a third of the time.
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, UnicodeEncodeError):  # NaN, or half of a surrogate pair
        return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)


def _multi(documents: Iterable[Any], fmt: Format, is_list: bool) -> Iterator[str]:
    project = _projector(fmt, keeps_null=False)
    for document in documents:
        record = project(document)
        for place, column in enumerate(fmt.columns):
            if place or is_list:
                yield fmt.text("separator", "")
            assert column.format is not None  # `multi` demands one
            yield _print_nested(get(record, column.key.path), column.format)
        yield fmt.text("terminator", "")


def _table(documents: Iterable[Any], fmt: Format, _is_list: bool) -> Iterator[str]:
    from vtrain.output.language.table import print_table

    return print_table(documents, fmt, _print_nested)


def _print_nested(value: Any, fmt: Format) -> str:
    if isinstance(value, list):
        return "".join(render_list(value, fmt))
    return render(value, fmt) if value else ""


_PRINTERS: dict[str, Printer] = {
    "default": _yaml,
    "disable": lambda _documents, _fmt, _is_list: iter(()),
    "json": _json,
    "multi": _multi,
    "none": lambda documents, _fmt, _is_list: ("" for _ in documents),
    "table": _table,
    "yaml": _yaml,
}
