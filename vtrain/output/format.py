"""A parsed format: its name, its attributes, its columns and its tree of keys."""

from __future__ import annotations

import sys

import msgspec

from vtrain.output.keys import Call, Key, Step

PAGE = object()
"""The end of a page of ``--page-size`` among documents; only tables show it."""

EVERY = None
"""The step to every element of a list."""

UNKNOWN, INNER, KEPT = range(3)
"""Whether a node is kept: not mentioned, kept in part, kept whole."""


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a projection, and the layout of its column.

    `order` is the column's rank among the sort columns, 0 for none. `width` is the least width, and `wrap`
    the least width of a column whose cells may take several lines, 0 for none. `format` is a nested format.
    A hidden column only sorts.
    """

    key: Key
    label: str = ""
    align: str = "left"
    order: int = 0
    width: int = 0
    wrap: int = 0
    format: Format | None = None
    is_reverse: bool = False
    is_optional: bool = False
    is_hidden: bool = False


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A field or element of a document that a projection names; `is_active` turns its transforms on."""

    state: int = KEPT
    calls: tuple[Call, ...] = ()
    is_active: bool = False
    branches: dict[Step, Node] = msgspec.field(default_factory=dict)


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed value of ``--format``.

    An attribute removes its opposite (``heading`` and ``no-heading``); one without a value has an empty text.
    `tree` holds the keys by their paths, `aliases` the keys by their labels.
    """

    name: str
    attributes: dict[str, str] = msgspec.field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    tree: Node | None = None
    aliases: dict[str, Key] = msgspec.field(default_factory=dict)

    @property
    def order(self) -> tuple[tuple[int, bool], ...]:
        """The indices of the sort columns, most important first, each with true for descending order."""
        places = [
            (column.order or sys.maxsize, place, column.is_reverse)
            for place, column in enumerate(self.columns)
            if column.order or column.is_reverse
        ]
        return tuple((place, reverse) for _, place, reverse in sorted(places))

    def number(self, name: str, default: int) -> int:
        """An attribute that is a whole number."""
        return int(self.attributes[name]) if self.attributes.get(name) else default

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        return self.attributes.get(name, default)
