"""The transforms of lists and dictionaries. A text counts as the list of its characters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vtrain.output.keys import get, parse_key


def items_below(value: list[Any], levels: int) -> list[Any]:
    """The elements of lists in lists, `levels` further down."""
    for _ in range(levels):
        if not all(isinstance(item, (list, str, dict)) for item in value):
            return value
        value = [inner for item in value for inner in item]
    return value


def length(value: Any) -> int:
    """How many elements, fields or characters; 0 if there is no value."""
    return len(value) if isinstance(value, (str, list, dict)) else 0


def list_(value: Any, show: str = "", undefined: str = "", separator: str = ",") -> Any:
    """The elements of a list, or the sorted ``key=value`` pairs of a dictionary, joined."""
    if isinstance(value, dict):
        return separator.join(_pairs(value, show))
    if isinstance(value, list):
        return separator.join(map(str, value))
    return value or undefined


def _pairs(value: dict[str, Any], show: str) -> Iterator[str]:
    for name in sorted(value):
        item = str(value[name])
        yield name if show == "keys" else item if show == "values" else f"{name}={item}"


def flatten(value: Any, show: str = "", undefined: str = "", separator: str = ",") -> Any:
    """Lists and dictionaries in one another as one list, like `list` on every level."""

    def inner(item: Any) -> Any:
        return flatten(item, show, undefined, separator)

    if isinstance(value, dict):
        return list_({name: inner(item) for name, item in value.items()}, show, "", separator) or undefined
    if isinstance(value, list) and value:
        nested = isinstance(value[0], (dict, list))
        return separator.join(str(inner(item) if nested else item) for item in value)
    return value or undefined


def join(value: Any, sep: str = "/", undefined: str = "") -> str:
    """The elements of a list joined."""
    return sep.join(map(str, value)) or undefined if isinstance(value, (list, dict, str)) else undefined


def split(value: Any, sep: str = "/", undefined: str = "") -> Any:
    """The pieces of a text between separators, as a list."""
    return value.split(sep) if isinstance(value, str) and value and sep else undefined


def sort(value: Any, attr: str = "") -> list[Any]:
    """The elements of a list in order, or in that of their field `attr`; what cannot be compared as text."""
    items = list(value) if isinstance(value, (list, dict, str)) else []
    keys = [get(item, parse_key(attr).path) if attr else item for item in items]
    try:
        return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__)]
    except TypeError:
        return [items[place] for place in sorted(range(len(items)), key=lambda place: str(keys[place]))]


def slice_(value: Any, op: str = ":", undefined: str = "") -> Any:
    """Elements ``M:N`` or ``M:N:STEP`` of a list; a single number gives that element."""
    try:
        bounds = [int(bound) if bound.strip() else None for bound in op.split(":")]
        if len(bounds) == 1:
            bounds.append((bounds[0] or 0) + 1 or None)
        return list(value[slice(*bounds)]) or undefined
    except (TypeError, ValueError, KeyError):
        return undefined


def count(value: Any) -> dict[Any, int]:
    """How often each element of a list occurs."""
    items = value if isinstance(value, (list, dict, str)) else []
    if any(isinstance(item, (list, dict)) for item in items):
        return {}
    totals: dict[Any, int] = {}
    for item in items:
        totals[item] = totals.get(item, 0) + 1
    return totals


def notnull(value: Any) -> list[Any]:
    """The elements of a list that are there."""
    return [item for item in value if item is not None] if isinstance(value, (list, dict, str)) else []
