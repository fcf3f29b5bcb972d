"""The fields of messages, and the walk through a message or its document by them."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from vtrain.errors import FieldError
from vtrain.messages.structs import EnumNames

_DOCUMENTS = (msgspec.Struct, Mapping)
_NO_ENUM = EnumNames({}, is_open=True)
_BEFORE_A_WORD = re.compile(r"((?<=[a-z0-9])[A-Z]+(?=[A-Z][a-z]|$)|(?!^)[A-Z](?=[a-z]))")

Change = Callable[[str, "Field | None", Any], Any]
"""Gives the new value of a field, made of path, field (None for an unknown one) and value."""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a message."""

    owner: str
    """The name of the message."""
    attribute: str
    name: str
    kind: str
    """int32, int64, string, … or `message`."""
    enum: dict[int, str]
    """The names of an enum by their numbers."""
    names: tuple[str, ...]
    """The names of an enum whose names are all known; empty where every name is accepted."""
    message: type[msgspec.Struct] | None
    repeated: bool
    default: Any

    @property
    def always(self) -> bool:
        """Whether every document of the message has the field."""
        return self.message is not None and not self.repeated and self.default is not None


@cache
def fields(cls: type[msgspec.Struct]) -> dict[str, Field]:
    """The fields of a message by their JSON names."""
    hints = typing.get_type_hints(cls, include_extras=True)
    described = (_describe(cls.__name__, info, hints[info.name]) for info in msgspec.structs.fields(cls))
    return {field.name: field for field in described if field.kind != "answer"}


def _describe(owner: str, info: Any, hint: Any) -> Field:
    default = info.default if info.default is not msgspec.NODEFAULT else info.default_factory()
    kind, message, repeated = _kind(hint)
    annotations = [
        each for part in (hint, *typing.get_args(hint)) for each in getattr(part, "__metadata__", ())
    ]
    known = next((each for each in annotations if isinstance(each, EnumNames)), _NO_ENUM)
    return Field(
        owner=owner,
        attribute=info.name,
        name=info.encode_name,
        kind=kind,
        enum=known.by_number,
        names=() if known.is_open else tuple(known.by_number.values()),
        message=message,
        repeated=repeated,
        default=default,
    )


def _kind(hint: Any) -> tuple[str, type[msgspec.Struct] | None, bool]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hasattr(hint, "__metadata__"):
        (kind,) = hint.__metadata__
        return "enum" if isinstance(kind, EnumNames) else kind, None, False
    if origin is types.UnionType or origin is typing.Union:
        return _kind(next(a for a in arguments if a is not type(None)))
    if origin is tuple:
        kind, message, _ = _kind(arguments[0])
        return kind, message, True
    if origin is dict:
        return ("map" if arguments[1] is str else "document"), None, False
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return "message", hint, False
    return {str: "string", int: "int32", bool: "bool", float: "double"}[hint], None, False


def walk(message: msgspec.Struct, path: str = "") -> Iterator[tuple[str, Field, Any]]:
    """Each value in a message that is no default, with its path and field; a message comes before its own."""
    for field in fields(type(message)).values():
        value, place = getattr(message, field.attribute), joined(path, field.name)
        if value == field.default:
            continue
        for n, item in enumerate(value if field.repeated else (value,)):
            below = f"{place}[{n}]" if field.repeated else place
            yield below, field, item
            if field.message:
                yield from walk(item, below)


def mapped(cls: type[msgspec.Struct], document: Any, change: Change, path: str = "") -> Any:
    """The document of a message, with `change` made to each value that is not a message itself.

    `change` gets the elements of a list one by one; a value for which it answers `msgspec.UNSET` is left out.
    `document` is a message too, whose defaults are left out. Fields may be in snake_case, as Google's parsers
    accept it, and are in camelCase afterwards. Raises FieldError for one that is given in both spellings.
    """
    if not isinstance(document, _DOCUMENTS):
        return document
    known = fields(cls)
    found: dict[Any, Any] = {}
    for name, value in document.items() if isinstance(document, Mapping) else _own_values(document):
        key = name if name in known or not isinstance(name, str) else camel_case(name)
        field = known.get(key)
        key = key if field else name
        below = joined(path, str(key))
        if key in found:
            raise FieldError(below, "it is given twice, also in snake_case.", hint="Remove one of them.")
        if field is not None and field.repeated and isinstance(value, list | tuple) and value:
            items = (_changed(field, item, change, f"{below}[{n}]") for n, item in enumerate(value))
            found[key] = [item for item in items if item is not msgspec.UNSET]
        else:
            found[key] = _changed(field, value, change, below)
    return {key: value for key, value in found.items() if value is not msgspec.UNSET}


def _own_values(message: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    for field in fields(type(message)).values():
        value = getattr(message, field.attribute)
        if value != field.default or field.always:
            yield field.name, value


def _changed(field: Field | None, value: Any, change: Change, path: str) -> Any:
    if field is not None and field.message is not None and isinstance(value, _DOCUMENTS):
        return mapped(field.message, value, change, path)
    return change(path, field, value)


def joined(path: str, name: str) -> str:
    """The path of a field of the message at a path; that of the outermost message is empty."""
    return f"{path}.{name}" if path else name


def camel_case(name: str) -> str:
    """The name of a field as JSON has it: ``createTime`` for ``create_time``."""
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)


def snake_case(name: str) -> str:
    """A name, or a path of names, as the API's own definitions have it: ``create_time``."""
    return _BEFORE_A_WORD.sub(r"_\1", name).lower()
