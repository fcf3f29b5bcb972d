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


def laid_over(document: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """The document with the fields of `more` added, at every depth; lists are matched by position."""
    merged = dict(document)
    for key, value in more.items():
        merged[key] = _merged(merged.get(key), value)
    return merged


def _merged(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return laid_over(below, above)
    if isinstance(below, list) and isinstance(above, list):
        longest = max(len(below), len(above))
        padded = [*below, *[None] * (longest - len(below))], [*above, *[None] * (longest - len(above))]
        return [_merged(*pair) for pair in zip(*padded, strict=True)]
    return below if above is None else above
