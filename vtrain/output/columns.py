"""Rows: what the columns of a projection make of a document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vtrain.output.format import Column, Format
from vtrain.output.keys import get, transformed
from vtrain.output.text_transforms import float_
from vtrain.output.tree import Projector

Cut = Callable[[Any], list[Any]]


def row_cutter(fmt: Format) -> Cut:
    """The function that gives a document's value for each column."""
    attributes = fmt.attributes
    on = "transforms" in attributes or (fmt.name != "get" and "no-transforms" not in attributes)
    whole = Projector(
        None, is_whole=True, keeps_null=True, transforms=False, decodes="json-decode" in attributes
    )
    columns = fmt.columns

    def cut(document: Any) -> list[Any]:
        if whole.decodes:
            document = whole.project(document)
        return [_cell(column, document, on=on) for column in columns]

    return cut


def _cell(column: Column, document: Any, *, on: bool) -> Any:
    value = get(document, column.key.path)
    if isinstance(value, (dict, list)):
        value = in_order(value)
    if not on or not column.key.calls:
        return value
    wants_all = any(call.name == "uri" for call in column.key.calls)
    return transformed(column.key.calls, document if wants_all else value)


def in_order(value: Any) -> Any:
    """The same with the fields of every object in alphabetical order, as they are to be shown."""
    if isinstance(value, dict):
        return {name: in_order(value[name]) for name in sorted(value, key=str)}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def cell_text(value: Any) -> str:
    """A value as the text of one cell: '' for none, lists and objects as Python writes them."""
    if value is None:
        return ""
    if isinstance(value, float):
        return float_(value)
    return str(value)
