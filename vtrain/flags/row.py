"""Flags as rows: what a flag is called, what it says, and which field of a message it sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from typing import Any, ClassVar

import msgspec

from vtrain.core.job_layers import Document, Fold, Layer, at, named

REQUIRED = object()
"""The default of an argument that has to be given."""


class Empty(Enum):
    """The meaning of an empty value, which gcloud chooses flag by flag."""

    CLEARS = "the field becomes empty, whatever a file says"
    IGNORED = "the flag counts as not given; so does a count of 0"


CLEARS, IGNORED = Empty


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One flag or argument, the default of a field in a `FlagGroup`.

    The flag is called as the field.
    """

    help: str
    metavar: str = ""
    default: Any = None
    name: str = ""
    """The flag's name without `--`, where it is not the field's."""
    short: str = ""
    """Another name, such as `-q`."""
    panel: str = ""
    """The heading in the help, in place of the group's."""
    offer: Callable[..., Any] | None = None
    """The completion of its value in a shell."""
    hidden: bool = False
    is_argument: bool = False
    is_switch: bool = False
    has_opposite: bool = False
    """Whether the switch has a `--no-…`."""
    to: str = ""
    """The path of the message's field that the flag sets."""
    read: Callable[[Any, str], Any] | None = None
    """The reader of the value, for a message about which it is given the flag. None leaves the field out."""
    empty: Empty | None = None
    """What an empty value means, if not what the group says."""

    def __call__(self) -> Any:
        """The value of a flag that is not given: a group's field takes its default from here."""
        if self.default is REQUIRED:
            raise TypeError(f"{self.metavar} is not given.")
        return list(self.default) if isinstance(self.default, list) else self.default


def flag(metavar: str, help: str, **more: Any) -> Any:
    """A flag with a value, by default None; `more` are fields of its Row."""
    # The row makes the default of its field: so a group has its values, and `rows_of` finds the row there.
    return msgspec.field(default_factory=Row(metavar=metavar, help=help, **more))


def text(metavar: str, help: str, **more: Any) -> Any:
    """A flag with a value, by default empty."""
    return flag(metavar, help, default="", **more)


def items(metavar: str, help: str, **more: Any) -> Any:
    """A flag that may be repeated, whose value is the list of all."""
    return flag(metavar, help, default=[], **more)


def switch(help: str, *, default: bool | None = False, **more: Any) -> Any:
    """A flag without a value."""
    return flag("", help, is_switch=True, default=default, **more)


def argument(metavar: str, help: str, *, default: Any = REQUIRED, **more: Any) -> Any:
    """A word without a flag, which has to be given unless there is a default."""
    return flag(metavar, help, is_argument=True, default=default, **more)


class FlagGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group of flags; each field is one flag of the commands that take the group.

    `heading` is where the help lists them; one with a `panel` is listed there instead. `empty` is what an
    empty value of one means that sets a field.
    """

    heading: ClassVar[str] = "Flags"
    empty: ClassVar[Empty] = CLEARS


class FlagSet(msgspec.Struct, frozen=True, kw_only=True):
    """All that a command is given, as one value: each field is a group of flags, or another set."""


def groups_of(kind: type[FlagGroup | FlagSet]) -> tuple[type[FlagGroup], ...]:
    """The groups of a set, as its fields and those of its sets name them; of a group itself."""
    if issubclass(kind, FlagGroup):
        return (kind,)
    return tuple(group for below in kind.__annotations__.values() for group in groups_of(below))


@cache
def rows_of(group: type[FlagGroup]) -> dict[str, Row]:
    """The rows of a group by the names of its fields."""
    factories = (default.factory for default in group.__struct_defaults__)
    return dict(zip(group.__struct_fields__, factories, strict=True))


def flag_name(field: str, row: Row) -> str:
    """The flag as it is typed: `--service-account`."""
    return f"--{row.name or field.replace('_', '-')}"


def given_flags(flags: FlagGroup) -> list[str]:
    """The flags of a group that differ from their default, as they are typed."""
    rows = rows_of(type(flags)).items()
    return [flag_name(name, row) for name, row in rows if getattr(flags, name) != row.default]


def layers_of(flags: FlagGroup, *, below: str = "") -> Iterator[Layer]:
    """A layer for each flag that is given and sets a field; their paths begin `below` a field of the message.

    Raises UsageError for a value that its reader refuses.
    """
    for name, row in rows_of(type(flags)).items():
        value = getattr(flags, name)
        if not row.to or value == row.default:
            continue
        words = flag_name(name, row)
        value = row.read(value, words) if row.read is not None else value
        if value is not None and (value or (row.empty or flags.empty) is CLEARS):
            path = f"{below}.{row.to}" if below else row.to
            yield Layer(named(words, path), at(path, value))


def fields_of(flags: FlagGroup) -> Document:
    """The part of a message that the flags describe; what is not given is absent. Raises as `layers_of`."""
    return Fold(layers_of(flags)).document
