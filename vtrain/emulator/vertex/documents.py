"""Documents of requests and answers: reads each spelling that clients use, and answers a client in its own.

The service takes camelCase and snake_case, enums by name and by number, and 1.0 for 1. It refuses fields
that it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import msgspec

from vtrain.emulator.vertex.vertex_call import field_of
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal, invalid, refusal_of
from vtrain.errors import VtrainError
from vtrain.messages.codec import (
    Field,
    camel_case,
    fields,
    from_document,
    read_message,
    snake_case,
    to_document,
    with_json_names,
)
from vtrain.messages.names import (
    BATCH_PREDICTION_JOBS,
    DATASETS,
    ENDPOINTS,
    LOCAL_PROJECT,
    METADATA_STORES,
    TENSORBOARDS,
)
from vtrain.messages.resources import RESOURCES
from vtrain.messages.structs import Resource

M = TypeVar("M", bound=msgspec.Struct)
_ROOTS = "|".join((*RESOURCES, ENDPOINTS, BATCH_PREDICTION_JOBS, TENSORBOARDS, DATASETS, METADATA_STORES))
_NAME = re.compile(rf"projects/([^/]{{1,100}})/locations/[^/]{{1,100}}/(?:{_ROOTS})/")
_VERBATIM = frozenset(("args", "command", "env", "labels"))
"""Fields whose texts are the user's own, whatever they look like."""
DEEPEST = 60
"""Levels of a document: the service's own limit is 100, and none of its messages has a third of them."""
MOST_BITS = 1023
"""Bits of a whole number: a double takes no more."""


def listed_as(cls: type[msgspec.Struct]) -> str:
    """The field of a list's answer that holds resources of this kind."""
    name = field_of(cls.__name__)
    return name if name.endswith("s") else f"{name}s"


def read_body(cls: type[M], document: Any, path: str) -> M:
    """The message in a body, without the fields that the service alone writes.

    Raises VertexRefusal for an unknown field, FieldError for a value that does not fit.
    """
    check_shape(document, path)
    if not isinstance(document, Mapping):
        raise invalid(f"Invalid value at '{path}': expected an object.")
    written = cls.output_fields if issubclass(cls, Resource) else frozenset()
    named = with_json_names(cls, document)
    kept = {name: value for name, value in named.items() if name not in written}
    return read_message(cls, _cleaned(cls, kept, path))


def read_request(cls: type[M], document: Any, field: str) -> M:
    """The message in a field of a request, in this machine's project. Raises VertexRefusal."""
    try:
        return read_body(cls, with_project(document, LOCAL_PROJECT), field)
    except VtrainError as error:
        raise refusal_of(error, field) from None


def in_camel_case(document: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The fields of a request, each with one of the names `known`. Raises VertexRefusal for any other."""
    for name in document:
        if camel_case(name) not in known:
            raise unknown_name(name, "Cannot find field.")
    return {camel_case(name): value for name, value in document.items()}


def unknown_name(name: str, problem: str, path: str = "") -> VertexRefusal:
    """The error for an unknown field, in the service's words."""
    place = f" at '{path}'" if path else ""
    return invalid(f'Invalid JSON payload received. Unknown name "{name[:300]}"{place}: {problem}')


def check_shape(document: Any, path: str) -> None:
    """Raise VertexRefusal for a document that is too deep, or has a number that no field can hold."""
    level = [document]
    for _ in range(DEEPEST):
        level = [item for value in level for item in _items(value)]
        if any(type(value) is int and value.bit_length() > MOST_BITS for value in level):
            raise invalid(f"'{path}' has a number that is out of range.")
        if not level:
            return
    raise invalid(f"'{path}' has more than {DEEPEST} levels.")


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _cleaned(cls: type[msgspec.Struct], document: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The document with the names of enums for their numbers, and with 1 for 1.0 where a field is whole."""
    known = fields(cls)
    for name in document:
        if name not in known:
            raise unknown_name(name, "Cannot find field.", path)
    return {name: _cleaned_field(cls, known[name], value, path) for name, value in document.items()}


def _cleaned_field(cls: type[msgspec.Struct], field: Field, value: Any, path: str) -> Any:
    below = f"{path}.{snake_case(field.name)}"
    if isinstance(value, list) and field.repeated:
        return [_cleaned_one(cls, field, item, f"{below}[{index}]") for index, item in enumerate(value)]
    return _cleaned_one(cls, field, value, below)


def _cleaned_one(cls: type[msgspec.Struct], field: Field, value: Any, path: str) -> Any:
    if field.message is not None and isinstance(value, Mapping):
        return _cleaned(field.message, value, path)
    if field.kind in ("int32", "int64", "enum") and isinstance(value, float) and value.is_integer():
        value = int(value)
    if field.kind == "enum" and value is not None:
        return _enum_name(cls, field, value, path)
    return value


def _enum_name(cls: type[msgspec.Struct], field: Field, value: Any, path: str) -> Any:
    """The name of a value; None for the one that is not specified, which is no value of the field."""
    name = field.enum.get(value, value) if type(value) is int else value
    if name not in field.enum.values():
        raise invalid(f"Invalid value at '{path}' ({cls.__name__}.{field.name}), {value!r}")
    return None if str(name).endswith("_UNSPECIFIED") and not field.repeated else name


def with_enum_numbers(cls: type[msgspec.Struct], document: Mapping[str, Any]) -> dict[str, Any]:
    """A document of the message with its enums as numbers.

    Google's Python library asks for them by `$alt=json;enum-encoding=int`.
    """
    known = fields(cls)
    return {
        name: _numbered(known[name], value) if name in known else value for name, value in document.items()
    }


def _numbered(field: Field, value: Any) -> Any:
    if isinstance(value, list):
        return [_numbered(field, item) for item in value] if field.repeated else value
    if field.message is not None and isinstance(value, Mapping):
        return with_enum_numbers(field.message, value)
    return next((number for number, name in field.enum.items() if name == value), value)


def with_project(document: Any, project: str, *, only: str = "") -> Any:
    """The document with the resources that it names in another project; with `only` those of that one.

    All projects are one here: the project `local` of this machine.
    """

    def renamed(text: str) -> str:
        found = _NAME.match(text)
        if found is None or (only and found[1] != only):
            return text
        return f"projects/{project}/{text[found.end(1) + 1 :]}"

    return _mapped(document, renamed)


def _mapped(value: Any, rename: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return rename(value)
    if isinstance(value, dict):
        return {key: item if key in _VERBATIM else _mapped(item, rename) for key, item in value.items()}
    return [_mapped(item, rename) for item in value] if isinstance(value, list) else value


def masked(document: Mapping[str, Any], mask: str) -> dict[str, Any]:
    """The fields of a document that a field mask names, by paths in camelCase or snake_case; `*` is all."""
    paths = [part.strip() for part in mask.split(",") if part.strip()]
    if not paths or "*" in paths:
        return dict(document)
    found: dict[str, Any] = {}
    for path in paths:
        _take(document, path.split("."), found)
    return found


def _take(document: Mapping[str, Any], steps: list[str], into: dict[str, Any]) -> None:
    """Copy the value at the end of the steps, if there is one. A step is a key as it is, or a field."""
    step, *rest = steps
    step = step if step in document else camel_case(step)
    if step not in document:
        return
    value = document[step]
    if rest and isinstance(value, Mapping):
        kept = into.setdefault(step, {})
        if isinstance(kept, dict):
            _take(value, rest, kept)
    else:
        into[step] = value


def updated(
    current: M, wanted: msgspec.Struct, mask: str, changeable: Collection[str], *, needs_name: bool = True
) -> M:
    """`current` with what `wanted` has at the paths of a field mask, which begin with `changeable` fields.

    Raises VertexRefusal, with `needs_name` also where no display name would be left.
    """
    if not mask:
        raise invalid("update_mask is required.")
    changed, source = to_document(current), to_document(wanted)
    for path in mask.split(","):
        field, *below = path.strip().split(".")
        steps = [camel_case(field), *below]
        if steps[0] not in changeable or len(steps) > DEEPEST:
            raise invalid(f"update_mask: {path[:300]!r} is no field that an update changes.")
        _put(changed, source, steps)
    if needs_name and not changed.get("displayName", "displayName" not in changeable):
        raise invalid("display_name: Required field is not set.")
    try:
        return from_document(type(current), changed)
    except msgspec.ValidationError:
        raise invalid(f"update_mask: {mask[:300]!r} names no fields.") from None


def _put(target: dict[str, Any], source: Mapping[str, Any], steps: list[str]) -> None:
    """Copy the value at the end of the steps, or its absence. A step is a key as it is, or a field."""
    step, *rest = steps
    step = step if step in source or step in target else camel_case(step)
    value = source.get(step)
    if rest:
        below = target.setdefault(step, {})
        if isinstance(below, dict):
            _put(below, value if isinstance(value, Mapping) else {}, rest)
    elif value is None:
        target.pop(step, None)
    else:
        target[step] = value
