"""Fields of a document that the API is not known to have, apart from those that it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vtrain.messages.codec import Field, fields


def split_unknown(cls: type[msgspec.Struct], document: Mapping[Any, Any]) -> tuple[Any, dict[str, Any]]:
    """The document of a message without its unknown fields, and a document of these alone.

    The second has an unknown field where the first had it: `{"a": [{}, {"new": 1}]}` is one in the second
    element of `a`.
    """
    known: dict[Any, Any] = {}
    unknown: dict[str, Any] = {}
    described = fields(cls)
    for name, value in document.items():
        if name not in described:
            unknown[str(name)] = value
            continue
        known[name], rest = _split_value(described[name], value)
        if rest:
            unknown[name] = rest
    return known, unknown


def _split_value(field: Field, value: Any) -> tuple[Any, Any]:
    if field.message is None:
        return value, None
    if isinstance(value, Mapping):
        known, unknown = split_unknown(field.message, value)
        return known, [unknown] if field.repeated and unknown else unknown
    if not (field.repeated and isinstance(value, list)):
        return value, None
    pairs = [split_unknown(field.message, i) if isinstance(i, Mapping) else (i, {}) for i in value]
    rest = [unknown for _, unknown in pairs]
    return [known for known, _ in pairs], rest if any(rest) else None
