"""Between documents (what JSON and YAML hold) and messages.

One walk over the message's own fields serves both ways: int64 as string, int32 as number,
durations as `"3.5s"`, enums by name. A document from the store is trusted; one from a user is
refused with the path of the bad field and the nearest name.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec

from vtrain.errors import ConfigError

M = TypeVar("M", bound=msgspec.Struct)

_DURATION = re.compile(r"-?\d+(\.\d{1,9})?s")
_YAML_11_BOOLEANS = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
_INT_RANGES = {"int32": 2**31, "int64": 2**63}


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a message, as the walk sees it. `kind` is int32, int64, string, … or `message`.

    `names` are those of an enum whose names are all known; empty where any name passes.
    """

    attribute: str
    name: str
    kind: str
    names: tuple[str, ...]
    message: type[msgspec.Struct] | None
    repeated: bool
    default: Any


def from_document(cls: type[M], document: Any) -> M:
    """The message in a document that vtrain itself, or the service, wrote."""
    return msgspec.convert(document, cls, strict=False)


def to_document(message: msgspec.Struct) -> dict[str, Any]:
    """The message as JSON holds it: camelCase, defaults absent, int64 as string."""
    document: dict[str, Any] = {}
    for field in fields(type(message)).values():
        value = getattr(message, field.attribute)
        if value != field.default:
            document[field.name] = _to_json(field, value)
    return document


def _to_json(field: Field, value: Any) -> Any:
    if field.repeated:
        return [_to_json_one(field, item) for item in value]
    return _to_json_one(field, value)


def _to_json_one(field: Field, value: Any) -> Any:
    if field.message:
        return to_document(value)
    return str(value) if field.kind == "int64" else value


@cache
def fields(cls: type[msgspec.Struct]) -> dict[str, Field]:
    """The fields of a message by their JSON names."""
    hints = typing.get_type_hints(cls, include_extras=True)
    described = (_describe(info, hints[info.name]) for info in msgspec.structs.fields(cls))
    return {field.name: field for field in described if field.kind != "answer"}


def _describe(info: Any, hint: Any) -> Field:
    default = info.default if info.default is not msgspec.NODEFAULT else info.default_factory()
    kind, message, repeated = _kind(hint)
    return Field(
        attribute=info.name,
        name=info.encode_name,
        kind=kind,
        names=_names(hint),
        message=message,
        repeated=repeated,
        default=default,
    )


def _names(hint: Any) -> tuple[str, ...]:
    _, *names = getattr(hint, "__metadata__", ("",))
    return tuple(names[0]) if names else ()


def _kind(hint: Any) -> tuple[str, type[msgspec.Struct] | None, bool]:
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


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _read(field: Field, value: Any, path: str) -> Any:
    if not field.repeated:
        return _read_one(field, value, path)
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(_read_one(field, item, f"{path}[{i}]") for i, item in enumerate(items))


def _read_one(field: Field, value: Any, path: str) -> Any:
    if field.message:
        return read_message(field.message, value if value is not None else {}, path)
    if field.names and value not in field.names:
        raise _unknown_name(field, value, path)
    return _READERS[field.kind](value, path)


def _read_string(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _wrong_type(path, "a string", value, hint="Write it in quotes.")
    return value


def _read_enum(value: Any, path: str) -> str:
    text = _read_string(value, path)
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", text):
        raise _wrong_type(path, "a name in capitals, such as NVIDIA_TESLA_T4 or SPOT", value)
    return text


def _read_duration(value: Any, path: str) -> str:
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        raise _wrong_type(path, 'a duration in seconds such as "3600s"', value)
    return value


def _read_bool(value: Any, path: str) -> bool:
    word = value.lower() if isinstance(value, str) else None
    if word in _YAML_11_BOOLEANS:
        return _YAML_11_BOOLEANS[word]
    if not isinstance(value, bool):
        raise _wrong_type(path, "true or false", value)
    return value


def _read_int(kind: str) -> Callable[[Any, str], int]:
    limit = _INT_RANGES[kind]

    def read(value: Any, path: str) -> int:
        number = value
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value):
            number = int(value)
        if isinstance(number, bool) or not isinstance(number, int) or not -limit <= number < limit:
            raise _wrong_type(path, "a whole number" if kind == "int64" else "a 32-bit whole number", value)
        return number

    return read


def _read_double(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong_type(path, "a number", value)
    return float(value)


def _read_value(value: Any, path: str) -> Any:  # noqa: ARG001 - as every reader
    return value


def _read_map(value: Any, path: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise _wrong_type(path, "a mapping of strings", value)
    return {_read_string(k, path): _read_string(v, _join(path, str(k))) for k, v in value.items()}


def _read_document(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong_type(path, "a mapping", value)
    return dict(value)


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "string": _read_string,
    "enum": _read_enum,
    "duration": _read_duration,
    "bool": _read_bool,
    "int32": _read_int("int32"),
    "int64": _read_int("int64"),
    "double": _read_double,
    "map": _read_map,
    "value": _read_value,
    "document": _read_document,
}


def _wrong_type(path: str, expected: str, value: Any, hint: str = "") -> ConfigError:
    found = {dict: "a mapping", list: "a list", type(None): "nothing"}.get(type(value), repr(value))
    return ConfigError(f"{path or 'The document'}: expected {expected}, found {found}.", hint=hint)


def _unknown_name(field: Field, value: Any, path: str) -> ConfigError:
    import difflib

    near = difflib.get_close_matches(str(value).upper().replace("-", "_"), field.names, n=1)
    hint = f"Did you mean {near[0]}?" if near else ""
    return _wrong_type(path, f"one of {', '.join(field.names)}", value, hint)


def _unknown_field(cls: type, name: str, path: str, known: Mapping[str, Field]) -> ConfigError:
    import difflib

    camel = re.sub(r"[_-](\w)", lambda m: m.group(1).upper(), name)
    near = [camel] if camel in known else difflib.get_close_matches(camel, known, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]}?" if near else f"It has: {', '.join(sorted(known))}."
    return ConfigError(f"{_join(path, name)}: {cls.__name__} has no field {name!r}.", hint=hint)
