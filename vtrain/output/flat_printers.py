"""The formats with a line for each value in a document: flattened (or text) and config."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from vtrain.output.columns import cell_text
from vtrain.output.format import Format
from vtrain.output.printers import projector

_ESCAPES = {"\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}
_TO_ESCAPE = re.compile(r'[\f\n\r\t\\"]')


def print_flattened(documents: Iterable[Any], fmt: Format, is_list: bool) -> Iterator[str]:
    """``path: value`` for every value, the values below one another."""
    project = projector(fmt, keeps_null=False)
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


def print_config(documents: Iterable[Any], fmt: Format, is_list: bool) -> Iterator[str]:
    """``name = value`` below ``[section]``; with ``export`` and ``unset`` the commands of a shell."""
    del is_list
    project = projector(fmt, keeps_null=True)
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
