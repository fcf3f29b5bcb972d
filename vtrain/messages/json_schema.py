"""JSON schemas of the files that people write, made of the messages that read them.

Editors complete and check by them. The keywords are those that JSON Schema has had since draft 4, since some
editors know no later ones. A schema is stricter than the reader: it wants camelCase, and lists where several
values may be.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import msgspec

from vtrain.messages.codec import Field, fields, mapped

DRAFT = "http://json-schema.org/draft-07/schema#"
_REFERENCE = "#/definitions/{name}"
_TYPES: Mapping[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "enum": {"type": "string"},
    "duration": {
        "type": "string",
        "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$",
        "description": 'A duration in seconds, such as "3600s".',
    },
    "bool": {"type": "boolean"},
    "int32": {"type": "integer"},
    "int64": {"type": ["integer", "string"], "pattern": "^-?[0-9]+$"},
    "double": {"type": "number"},
    "map": {"type": "object", "additionalProperties": {"type": "string"}},
    "value": {},
    "document": {"type": "object"},
}
"""The schema of each kind of field (`codec.Field`) that is no message."""


def messages_schema(title: str, *classes: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a document that is one of these messages."""
    definitions: dict[str, Any] = {}
    for cls in classes:
        _define(cls, definitions)
    choices = [_reference(cls) for cls in classes]
    one = choices[0] if len(choices) == 1 else {"anyOf": choices}
    return {"$schema": DRAFT, "title": title, **one, "definitions": definitions}


def _define(cls: type[msgspec.Struct], definitions: dict[str, Any]) -> None:
    """Add the schema of a message, and of those in it."""
    if cls.__name__ in definitions:
        return
    described = fields(cls)
    output: frozenset[str] = getattr(cls, "output_fields", frozenset())
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
    if cls.__doc__ and inspect.getdoc(cls):
        schema["description"] = str(inspect.getdoc(cls)).partition("\n\n")[0].replace("\n", " ")
    definitions[cls.__name__] = schema
    schema["properties"] = {
        name: _field_schema(field) | ({"readOnly": True} if name in output else {})
        for name, field in described.items()
    }
    for field in described.values():
        if field.message is not None:
            _define(field.message, definitions)


def _field_schema(field: Field) -> dict[str, Any]:
    one = _reference(field.message) if field.message is not None else dict(_TYPES[field.kind])
    if field.enum:
        one["enum"] = [*field.enum.values()]
    return {"type": "array", "items": one} if field.repeated else one


def _reference(cls: type[msgspec.Struct]) -> dict[str, Any]:
    return {"$ref": _REFERENCE.format(name=cls.__name__)}


def table_schema(title: str, cls: type[msgspec.Struct], path: tuple[str, ...]) -> dict[str, Any]:
    """The schema of a file with a table at a path; what else is in the file may be anything."""
    (schema,), definitions = msgspec.json.schema_components([cls], ref_template=_REFERENCE)
    for name in reversed(path):
        schema = {"type": "object", "properties": {name: schema}}
    return {"$schema": DRAFT, "title": title, **schema, "definitions": mapped(definitions, _plain)}


def _plain(schema: Any) -> Any:
    """A schema without the choice of null, which TOML does not have, and without empty defaults and lists."""
    if isinstance(schema, list):
        return [item for item in schema if item != {"type": "null"}]
    if isinstance(schema, dict):
        return {key: value for key, value in schema.items() if value or key not in ("default", "required")}
    return schema
