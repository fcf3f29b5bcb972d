"""Documents of requests and answers: reads each spelling that clients use, and answers a client in its own.

The service takes camelCase and snake_case, enums by name and by number, and 1.0 for 1. It refuses fields
that it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from vtrain.emulator.vertex.vertex_refusals import VertexRefusal, invalid
from vtrain.messages.codec import read_message
from vtrain.messages.resources import RESOURCES
from vtrain.messages.structs import Resource
from vtrain.messages.walk import Field, camel_case, joined, mapped, snake_case

M = TypeVar("M", bound=msgspec.Struct)
_NAME = re.compile(rf"projects/([^/]{{1,100}})/locations/[^/]{{1,100}}/(?:{'|'.join(RESOURCES)})/")
_VERBATIM = frozenset(("args", "command", "env", "labels"))
"""Fields whose texts are the user's own, whatever they look like."""
DEEPEST = 60
"""Levels of a document: the service's own limit is 100, and none of its messages has a third of them."""
MOST_BITS = 1023
"""Bits of a whole number: a double takes no more."""


def read_body(cls: type[M], document: Any, path: str) -> M:
    """The message in a body, without the fields that the service alone writes.

    Raises VertexRefusal for an unknown field, FieldError for a value that does not fit.
    """
    check_shape(document, path)
    if not isinstance(document, Mapping):
        raise invalid(f"Invalid value at '{path}': expected an object.")
    written = cls.output_fields if issubclass(cls, Resource) else frozenset()
    kept = {name: value for name, value in document.items() if camel_case(str(name)) not in written}
    return read_message(cls, mapped(cls, kept, partial(_cleaned, path)))


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


def _cleaned(root: str, path: str, field: Field | None, value: Any) -> Any:
    """A value with the name of an enum for its number, and with 1 for 1.0 where a field is whole."""
    if field is None:
        message, _, unknown = path.rpartition(".")
        place = joined(root, snake_case(message)) if message else root
        raise unknown_name(unknown, "Cannot find field.", place)
    if field.kind in ("int32", "int64") and isinstance(value, float) and value.is_integer():
        return int(value)
    if field.kind != "enum":
        return value
    name: Any = field.enum.get(value, value) if type(value) is int else value
    if name not in field.enum.values():
        place = joined(root, snake_case(path))
        raise invalid(f"Invalid value at '{place}' ({field.owner}.{field.name}), {value!r}")
    # The one that is not specified is no value of the field.
    return None if str(name).endswith("_UNSPECIFIED") and not field.repeated else name


def with_enum_numbers(cls: type[msgspec.Struct], document: Mapping[str, Any]) -> dict[str, Any]:
    """A document of the message with its enums as numbers.

    Google's Python library asks for them by `$alt=json;enum-encoding=int`.
    """
    found: dict[str, Any] = mapped(cls, document, _numbered)
    return found


def _numbered(_path: str, field: Field | None, value: Any) -> Any:
    names: dict[int, str] = field.enum if field is not None else {}
    return next((number for number, name in names.items() if name == value), value)


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
        _take(document, [camel_case(step) for step in path.split(".")], found)
    return found


def _take(document: Mapping[str, Any], steps: list[str], into: dict[str, Any]) -> None:
    """Copy the value at the end of the steps, if there is one."""
    step, *rest = steps
    if step not in document:
        return
    value = document[step]
    if rest and isinstance(value, Mapping):
        kept = into.setdefault(step, {})
        if isinstance(kept, dict):
            _take(value, rest, kept)
    else:
        into[step] = value
