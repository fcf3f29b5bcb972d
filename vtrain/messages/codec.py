"""The codec between documents, as JSON and YAML hold them, and messages.

One description of a message's fields serves both directions: int64 as string, int32 as number, durations as
`"3.5s"`, enums by name. A document from the store is trusted. A bad field in a user's document is refused
with its path and the nearest name. Text that is no duration and numbers out of range are accepted, as by
gcloud; `rules.check_formats` refuses them.
"""

from __future__ import annotations

import math
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec

from vtrain.errors import ConfigError, FieldError
from vtrain.messages.nearest import did_you_mean
from vtrain.messages.structs import EnumNames

M = TypeVar("M", bound=msgspec.Struct)

# Compiled at their first use: every command imports them and few need one.
_NUMBER = r"(?a)[-+]?(\d+(?:\.\d*)?|\.\d+)([eE][-+]?\d+)?"
_ENUM_NUMBER = r"[0-9]{1,10}"
_YAML_11_BOOLEANS = {"y": True, "yes": True, "on": True, "n": False, "no": False, "off": False}


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """The description of one field of a message. `kind` is int32, int64, string, … or `message`.

    `enum` has the names of an enum by their numbers. `names` are those of one whose names are all known;
    empty where every name is accepted.
    """

    attribute: str
    name: str
    kind: str
    enum: dict[int, str]
    names: tuple[str, ...]
    message: type[msgspec.Struct] | None
    repeated: bool
    default: Any

    @property
    def always(self) -> bool:
        """Whether every document of the message has the field."""
        return self.message is not None and not self.repeated and self.default is not None


def from_document(cls: type[M], document: Any) -> M:
    """The message in a document that vtrain itself, or the service, wrote.

    Raises msgspec.ValidationError for a document of another shape.
    """
    try:
        return msgspec.convert(document, cls, strict=False)
    except msgspec.ValidationError:  # JSON may say null for a default
        return msgspec.convert(mapped(document, _without_nulls), cls, strict=False)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: item for name, item in value.items() if item is not None}
    return value


def mapped(document: Any, change: Callable[[Any], Any]) -> Any:
    """What `change` makes of a document, after it has changed each value in it, from the inside out."""
    if isinstance(document, dict):
        document = {name: mapped(item, change) for name, item in document.items()}
    elif isinstance(document, list):
        document = [mapped(item, change) for item in document]
    return change(document)


def to_document(message: msgspec.Struct) -> dict[str, Any]:
    """The message as JSON holds it: camelCase, int64 as string; defaults are absent, unless required."""
    document: dict[str, Any] = {}
    for field in fields(type(message)).values():
        value = getattr(message, field.attribute)
        if value != field.default or field.always:
            items = [_to_json(field, item) for item in (value if field.repeated else (value,))]
            document[field.name] = items if field.repeated else items[0]
    return document


def _to_json(field: Field, value: Any) -> Any:
    if field.message:
        return to_document(value)
    if field.kind == "enum" and re.fullmatch(_ENUM_NUMBER, value):
        return int(value)
    return str(value) if field.kind == "int64" else value


@cache
def fields(cls: type[msgspec.Struct]) -> dict[str, Field]:
    """The fields of a message by their JSON names."""
    hints = typing.get_type_hints(cls, include_extras=True)
    described = (_describe(info, hints[info.name]) for info in msgspec.structs.fields(cls))
    return {field.name: field for field in described if field.kind != "answer"}


def walk(message: msgspec.Struct, path: str = "") -> Iterator[tuple[str, Field, Any]]:
    """The values of a message and of those in it that are no default, each with its path and its field."""
    for field in fields(type(message)).values():
        value, place = getattr(message, field.attribute), _join(path, field.name)
        if value == field.default:
            continue
        items = (
            [(f"{place}[{n}]", item) for n, item in enumerate(value)] if field.repeated else [(place, value)]
        )
        for below, item in items:
            if isinstance(item, msgspec.Struct):
                yield from walk(item, below)
            else:
                yield below, field, item


def _describe(info: Any, hint: Any) -> Field:
    default = info.default if info.default is not msgspec.NODEFAULT else info.default_factory()
    kind, message, repeated = _kind(hint)
    names, is_open = kind if isinstance(kind, EnumNames) else ({}, True)
    return Field(
        attribute=info.name,
        name=info.encode_name,
        kind="enum" if isinstance(kind, EnumNames) else kind,
        enum=names,
        names=() if is_open else tuple(names.values()),
        message=message,
        repeated=repeated,
        default=default,
    )


def _kind(hint: Any) -> tuple[str | EnumNames, type[msgspec.Struct] | None, bool]:
    """The kind of a field, or the names of its enum; its message; and whether it is a list."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hasattr(hint, "__metadata__"):
        return hint.__metadata__[0], None, False
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


def read_message(cls: type[M], document: Any, path: str = "") -> M:
    """The message in a document that a user wrote.

    Raises ConfigError with the path of the field for an unknown name (and the nearest one there is)
    and for a value of the wrong type. One value where a list belongs is a list of one, as in gcloud.
    """
    if not isinstance(document, Mapping):
        raise _wrong_type(path, f"a mapping of {cls.__name__} fields", document)
    known = fields(cls)
    values = {}
    for name, value in document.items():
        if name not in known:
            raise _unknown_field(cls, str(name), path, known)
        if value is not None:
            values[known[name].attribute] = _read(known[name], value, _join(path, name))
    return cls(**values)


def check_json_types(cls: type[msgspec.Struct], document: Any, path: str) -> None:
    """Raise ConfigError for what `read_message` takes, and the JSON of protobuf does not.

    That is one value where a list belongs, text for true or false, and null in a list.
    """
    known = fields(cls)
    for name, value in document.items() if isinstance(document, Mapping) else ():
        field, below = known.get(name), _join(path, str(name))
        if field is None or value is None:
            continue
        if field.repeated and not isinstance(value, list):
            raise _wrong_type(below, "a list", value)
        if field.repeated and None in value:
            raise _wrong_type(below, "a list without null", value)
        if field.kind == "bool" and not isinstance(value, bool):
            raise _wrong_type(below, "true or false", value)
        if field.message is not None and field.repeated:
            for index, item in enumerate(value):
                check_json_types(field.message, item, f"{below}[{index}]")
        elif field.message is not None:
            check_json_types(field.message, value, below)


def with_json_names(cls: type[msgspec.Struct], document: Any, path: str = "") -> Any:
    """A user's document with its fields in camelCase; Google's JSON parsers accept snake_case, too.

    Raises ConfigError for a field that is given in both spellings.
    """
    if not isinstance(document, Mapping):
        return document
    known = fields(cls)
    renamed: dict[Any, Any] = {}
    for name, value in document.items():
        key = _json_name(name, known)
        if key in renamed:
            raise FieldError(
                _join(path, key), "it is given twice, also in snake_case.", hint="Remove one of them."
            )
        field = known.get(key)
        renamed[key] = _with_json_names_below(field, value, _join(path, str(key))) if field else value
    return renamed


def _with_json_names_below(field: Field, value: Any, path: str) -> Any:
    if field.message is None:
        return value
    if isinstance(value, list):
        cls = field.message
        return [with_json_names(cls, item, f"{path}[{index}]") for index, item in enumerate(value)]
    return with_json_names(field.message, value, path)


def _json_name(name: Any, known: Mapping[str, Field]) -> Any:
    if name in known or not isinstance(name, str):
        return name
    camel = camel_case(name)
    return camel if camel in known else name


def camel_case(name: str) -> str:
    """The name of a field as JSON has it."""
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)


def snake_case(name: str) -> str:
    """The name of a field, or a path of such names, as the API's own definitions have it."""
    return re.sub(r"[A-Z]", lambda found: ("_" if found.start() else "") + found[0].lower(), name)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _read(field: Field, value: Any, path: str) -> Any:
    if not field.repeated:
        return _read_one(field, value, path)
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(_read_one(field, item, f"{path}[{i}]") for i, item in enumerate(items))


def _read_one(field: Field, value: Any, path: str) -> Any:
    if field.message:
        return read_message(field.message, value, path)
    if field.kind == "enum" and type(value) is int:
        value = field.enum.get(value, value)
    if field.names and value not in field.names:
        hint = did_you_mean(str(value).upper().replace("-", "_"), field.names, otherwise="")
        raise _wrong_type(path, f"one of {', '.join(field.names)}", value, hint)
    return _READERS[field.kind](value, path)


def _one_of_type(kind: type, expected: str, hint: str = "") -> Callable[[Any, str], Any]:
    """The reader of values that have this type already."""

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, kind):
            raise _wrong_type(path, expected, value, hint)
        return value

    return read


_read_string = _one_of_type(str, "a string", hint="Write it in quotes.")


def _read_enum(value: Any, path: str) -> Any:
    """A name, or a number that vtrain has no name for."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _read_string(value, path)


def _read_bool(value: Any, path: str) -> bool:
    word = value.lower() if isinstance(value, str) else None
    if word in _YAML_11_BOOLEANS:
        return _YAML_11_BOOLEANS[word]
    if not isinstance(value, bool):
        raise _wrong_type(path, "true or false", value)
    return value


def _read_int(value: Any, path: str) -> int:
    number = int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,30}", value) else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise _wrong_type(path, "a whole number", value)
    return number


def _read_double(value: Any, path: str) -> float:
    quoted = isinstance(value, str) and re.fullmatch(_NUMBER, value)
    if isinstance(value, bool) or not (quoted or isinstance(value, int | float)):
        raise _wrong_type(path, "a number", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _wrong_type(path, "a finite number", value)
    return number


def _read_map(value: Any, path: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise _wrong_type(path, "a mapping of strings", value)
    return {_read_string(k, path): _read_string(v, _join(path, str(k))) for k, v in value.items()}


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "string": _read_string,
    "enum": _read_enum,
    "duration": _one_of_type(str, 'a duration in seconds such as "3600s"'),
    "bool": _read_bool,
    "int32": _read_int,
    "int64": _read_int,
    "double": _read_double,
    "map": _read_map,
    "value": lambda value, _path: value,
    "document": _one_of_type(Mapping, "a mapping"),
}


def _wrong_type(path: str, expected: str, value: Any, hint: str = "") -> ConfigError:
    found = {dict: "a mapping", list: "a list", type(None): "nothing"}.get(type(value), repr(value))
    return FieldError(path, f"expected {expected}, found {found}.", hint=hint)


def _unknown_field(cls: type, name: str, path: str, known: Mapping[str, Field]) -> ConfigError:
    camel = camel_case(name.replace("-", "_"))
    given = known.keys() - getattr(cls, "output_fields", frozenset())
    hint = did_you_mean(camel, given, otherwise=f"It has: {', '.join(sorted(given))}.", cutoff=0.5)
    return FieldError(_join(path, name), f"{cls.__name__} has no field {name!r}.", hint=hint)
