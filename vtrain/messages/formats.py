"""Values that no field of the API can hold: durations, enum names, and numbers out of range.

A service is sent what a file says, and answers for itself; what runs on this machine is checked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from vtrain.errors import ConfigError
from vtrain.messages.codec import Field, fields

_DURATION = re.compile(r"-?\d+(\.\d{1,9})?s")
_ENUM_NAME = re.compile(r"[A-Z][A-Z0-9_]*|\d+|")
_LIMITS = {"int32": 2**31, "int64": 2**63}


def check_formats(message: msgspec.Struct, path: str = "") -> None:
    """Raise ConfigError, with the field's path, for the first value that its field cannot hold."""
    for field in fields(type(message)).values():
        value = getattr(message, field.attribute)
        if value == field.default:
            continue
        for item, place in _items(field, value, f"{path}.{field.name}" if path else field.name):
            if isinstance(item, msgspec.Struct):
                check_formats(item, place)
            elif expected := _mismatch(field.kind, item):
                raise ConfigError(f"{place}: expected {expected}, found {item!r}.")


def _items(field: Field, value: Any, path: str) -> Iterator[tuple[Any, str]]:
    if field.repeated:
        yield from ((item, f"{path}[{index}]") for index, item in enumerate(value))
    else:
        yield value, path


def _mismatch(kind: str, value: Any) -> str:
    """What the field holds instead; empty where the value fits."""
    if kind == "duration" and not _DURATION.fullmatch(value):
        return 'a duration in seconds such as "3600s"'
    if kind == "enum" and not _ENUM_NAME.fullmatch(value):
        return "a name in capitals, such as NVIDIA_TESLA_T4 or SPOT"
    if kind in _LIMITS and not -_LIMITS[kind] <= value < _LIMITS[kind]:
        return "a whole number of 32 bits" if kind == "int32" else "a whole number of 64 bits"
    return ""
