"""The codec between documents, as JSON and YAML hold them, and messages.

One description of a message's fields serves both directions: int64 as string, int32 as number, durations as
`"3.5s"`, enums by name. A document from the store is trusted. A bad field in a user's document is refused
with its path and the nearest name. Text that is no duration and numbers out of range are accepted, as by
gcloud; `rules.check_formats` refuses them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from vtrain.errors import ConfigError, FieldError
from vtrain.messages.nearest import did_you_mean
from vtrain.messages.walk import Field, camel_case, fields, joined, mapped

M = TypeVar("M", bound=msgspec.Struct)

_NUMBER = re.compile(r"[-+]?(\d+(?:\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_ENUM_NUMBER = re.compile(r"[0-9]{1,10}")
_YAML_11_BOOLEANS = {"y": True, "yes": True, "on": True, "n": False, "no": False, "off": False}


def from_document(cls: type[M], document: Any) -> M:
    """The message in a document that vtrain itself, or the service, wrote.

    Raises msgspec.ValidationError for a document of another shape.
    """
    try:
        return msgspec.convert(document, cls, strict=False)
    except msgspec.ValidationError:  # JSON may say null for a default
        return msgspec.convert(_without_nulls(document), cls, strict=False)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def to_document(message: msgspec.Struct) -> dict[str, Any]:
    """The message as JSON holds it: camelCase, int64 as string; defaults are absent, unless required."""
    document: dict[str, Any] = mapped(type(message), message, _to_json)
    return document


def _to_json(_path: str, field: Field | None, value: Any) -> Any:
    if field is not None and field.kind == "int64":
        return str(value)
    is_number = field is not None and field.kind == "enum" and _ENUM_NUMBER.fullmatch(value)
    return int(value) if is_number else value


def read_message(cls: type[M], document: Any, path: str = "", *, strict: bool = False) -> M:
    """The message in a document that a user wrote.

    Raises ConfigError with the path of the field for an unknown name (and the nearest one there is)
    and for a value of the wrong type. One value where a list belongs is a list of one, as in gcloud.
    With `strict`, that, text for true or false, and null in a list are refused, as protobuf's JSON does.
    """
    if not isinstance(document, Mapping):
        raise _wrong_type(path, f"a mapping of {cls.__name__} fields", document)
    known = fields(cls)
    values = {}
    for name, value in document.items():
        if name not in known:
            raise _unknown_field(cls, str(name), path, known)
        if value is not None:
            values[known[name].attribute] = _read(known[name], value, joined(path, name), strict)
    return cls(**values)


def with_json_names(cls: type[msgspec.Struct], document: Any, path: str = "") -> Any:
    """A user's document with its fields in camelCase; Google's JSON parsers accept snake_case, too.

    Raises ConfigError for a field that is given in both spellings.
    """
    return mapped(cls, document, lambda _path, _field, value: value, path)


def _read(field: Field, value: Any, path: str, strict: bool) -> Any:
    if not field.repeated:
        return _read_one(field, value, path, strict)
    if strict and (not isinstance(value, list) or None in value):
        raise _wrong_type(path, "a list without null" if isinstance(value, list) else "a list", value)
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(_read_one(field, item, f"{path}[{i}]", strict) for i, item in enumerate(items))


def _read_one(field: Field, value: Any, path: str, strict: bool) -> Any:
    if field.message:
        return read_message(field.message, value, path, strict=strict)
    if strict and field.kind == "bool" and not isinstance(value, bool):
        raise _wrong_type(path, "true or false", value)
    if field.kind == "enum" and type(value) is int:
        value = field.enum.get(value, value)
    if field.names and value not in field.names:
        hint = did_you_mean(str(value).upper().replace("-", "_"), field.names, otherwise="")
        raise _wrong_type(path, f"one of {', '.join(field.names)}", value, hint)
    return _READERS[field.kind](value, path)


def _read_string(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _wrong_type(path, "a string", value, hint="Write it in quotes.")
    return value


def _read_enum(value: Any, path: str) -> str:
    """A name, or a number that vtrain has no name for."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _read_string(value, path)


def _read_duration(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _wrong_type(path, 'a duration in seconds such as "3600s"', value)
    return value


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
    quoted = isinstance(value, str) and _NUMBER.fullmatch(value)
    if isinstance(value, bool) or not (quoted or isinstance(value, int | float)):
        raise _wrong_type(path, "a number", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _wrong_type(path, "a finite number", value)
    return number


def _read_value(value: Any, path: str) -> Any:  # noqa: ARG001 - the signature of all readers
    return value


def _read_map(value: Any, path: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise _wrong_type(path, "a mapping of strings", value)
    return {_read_string(k, path): _read_string(v, joined(path, str(k))) for k, v in value.items()}


def _read_document(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong_type(path, "a mapping", value)
    return dict(value)


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "string": _read_string,
    "enum": _read_enum,
    "duration": _read_duration,
    "bool": _read_bool,
    "int32": _read_int,
    "int64": _read_int,
    "double": _read_double,
    "map": _read_map,
    "value": _read_value,
    "document": _read_document,
}


def _wrong_type(path: str, expected: str, value: Any, hint: str = "") -> ConfigError:
    found = {dict: "a mapping", list: "a list", type(None): "nothing"}.get(type(value), repr(value))
    return FieldError(path, f"expected {expected}, found {found}.", hint=hint)


def _unknown_field(cls: type, name: str, path: str, known: Mapping[str, Field]) -> ConfigError:
    given = known.keys() - getattr(cls, "output_fields", frozenset())
    hint = did_you_mean(
        camel_case(name.replace("-", "_")),
        given,
        otherwise=f"It has: {', '.join(sorted(given))}.",
        cutoff=0.5,
    )
    return FieldError(joined(path, name), f"{cls.__name__} has no field {name!r}.", hint=hint)
