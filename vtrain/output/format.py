"""A format as it is known once it was read: its name, its attributes, and its columns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from vtrain.output.keys import Key

if TYPE_CHECKING:
    from vtrain.output.tree import Node


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a projection, and how its column is shown.

    `order` is the column's place in the order of sorting, 0 for none; `width` the least width, and `wrap`
    the least width of a column that may be broken into several lines, 0 for none. `format` is a format of
    its own. A hidden column is there to sort by.
    """

    key: Key
    label: str = ""
    align: str = "left"
    order: int = 0
    width: int = 0
    wrap: int = 0
    format: str = ""
    is_reverse: bool = False
    is_optional: bool = False
    is_hidden: bool = False


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """A format as the user asked for it.

    Of an attribute and its opposite (``heading`` and ``no-heading``) only the last one is there; one without
    a value has an empty text. `tree` holds the keys by their paths. `aliases` are what the labels stand for.
    """

    name: str
    attributes: dict[str, str] = msgspec.field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    tree: Node | None = None
    aliases: dict[str, Key] = msgspec.field(default_factory=dict)

    @property
    def order(self) -> tuple[tuple[int, bool], ...]:
        """The numbers of the columns to sort by, most important first, and whether from the greatest down."""
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
