"""Documents that a service wrote, or that name fields which vtrain does not know."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from vtrain.messages.codec import Field, fields

_INT32 = re.compile(r"-?[0-9]{1,10}")


def canonical_document(cls: type[msgspec.Struct], document: Mapping[str, Any]) -> dict[str, Any]:
    """A document of the service with its known fields in the form of proto3 JSON.

    Nulls and empty lists are absent, int64 is text, a double has a fraction; unknown fields stay unchanged.
    """
    known = fields(cls)
    return {
        name: _canonical(known[name], value) if name in known else value
        for name, value in document.items()
        if name not in known or not (value is None or (known[name].repeated and not value))
    }


def _canonical(field: Field, value: Any) -> Any:
    if isinstance(value, list) and field.repeated:
        return [_canonical_one(field, item) for item in value]
    return _canonical_one(field, value)


def _canonical_one(field: Field, value: Any) -> Any:
    if field.message and isinstance(value, Mapping):
        return canonical_document(field.message, value)
    if field.kind == "int64" and isinstance(value, int):
        return str(value)
    if field.kind == "int32" and isinstance(value, str) and _INT32.fullmatch(value):
        return int(value)
    if field.kind == "double" and isinstance(value, int) and value.bit_length() < 1024:
        return float(value)
    return value


ApiHas = Callable[[str, dict[str, Any]], bool]
"""Whether the API has all fields in a document of the message of that name, vtrain's own aside."""


def api_has_no_more(_message: str, _document: dict[str, Any]) -> bool:
    """The answer of a backend that knows no field beyond vtrain's own."""
    return False


def accepted_fields(
    cls: type[msgspec.Struct], document: Mapping[Any, Any], *, allowed: bool, api_has: ApiHas
) -> tuple[Any, dict[str, Any]]:
    """The same as `split_unknown`, where unknown fields are allowed or the API has them.

    Otherwise the whole document counts as known, for the reader to refuse.
    """
    known, unknown = split_unknown(cls, document)
    if allowed or (unknown and api_has(cls.__name__, unknown)):
        return known, unknown
    return document, {}


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
