"""Transforms: the functions a key may apply to its value, such as ``name.basename()``.

A transform gets the value first, then its arguments as text. A value that a transform cannot use gives
`undefined`, never an error: documents differ. Here are those that read keys or choose; the others are in
`value_transforms` and `time_transforms`. As in gcloud, a key among their arguments is a path: transforms of
it are ignored. ``filter()`` and ``format()`` are in `expressions`, since they take whole expressions.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from vtrain.errors import ConfigError
from vtrain.output.language import time_transforms, value_transforms
from vtrain.output.language.keys import Call, get, parse_path
from vtrain.output.language.scan import MOST, Scanner, is_count
from vtrain.output.language.value_transforms import to_boolean

Transform = Callable[..., Any]


def always(value: Any) -> Any:
    """The value as it is; its other transforms apply although the format turns them off."""
    return value


def map_(value: Any, depth: str = "1") -> Any:
    """The value as it is; the next transform applies to the elements `depth` levels down."""
    del depth
    return value


def yesno(value: Any, yes: str | None = None, no: str = "No") -> Any:
    """`yes` (default: the value) for a value, `no` for an empty one."""
    if not value:
        return no
    return value if yes is None else yes


def firstof(value: Any, *keys: str) -> Any:
    """The first of the keys that has a value."""
    found = (get(value, parse_path(key)) for key in keys)
    return next((item for item in found if item is not None), "")


def extract(value: Any, *keys: str) -> list[Any]:
    """The values of several fields as a list, empty ones left out."""
    found = [get(value, parse_path(key)) for key in keys]
    return [item for item in found if item]


def group(value: Any, *keys: str) -> str:
    """Each element in brackets, or its fields: ``[first: second, third]``."""
    if not value:
        return "[]"
    return " ".join(
        f"[{_grouped(item, keys)}]" for item in (value if isinstance(value, (list, dict, str)) else [])
    )


def _grouped(item: Any, keys: tuple[str, ...]) -> str:
    if not keys:
        return str(item)
    found = (get(item, parse_path(key)) for key in keys)
    first, *rest = ("" if value is None else str(value) for value in found)
    return first + ": " * bool(rest) + ", ".join(rest)


def resolution(value: Any, undefined: str = "", transpose: str = "") -> str:
    """Width and height of something that has both."""
    fields = {name.lower(): name for name in value} if isinstance(value, dict) else {}
    pairs = (("width", "height"), ("screenx", "screeny"), ("col", "row"), ("col", "line"), ("x", "y"))
    for pair in pairs:
        found = [next((value[fields[name]] for name in fields if part in name), None) for part in pair]
        if None not in found:
            return " x ".join(str(item) for item in (reversed(found) if to_boolean(transpose) else found))
    return undefined


def sort(value: Any, attr: str = "") -> list[Any]:
    """The elements of a list in order, or in that of their field `attr`; by text if they do not compare."""
    items = list(value) if isinstance(value, (list, dict, str)) else []
    keys = [get(item, parse_path(attr)) if attr else item for item in items]
    try:
        return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__)]
    except TypeError:
        return [items[place] for place in sorted(range(len(items)), key=lambda place: str(keys[place]))]


def synthesize(value: Any, *schemas: str) -> list[dict[str, Any]]:
    """New records: ``(name:literal, name=key, key)`` each makes one, the last form taking all its fields."""
    return [_record(value, schema) for schema in schemas]


def _record(value: Any, schema: str) -> dict[str, Any]:
    scanner = Scanner(schema, kind="--format")
    if not scanner.accept("("):
        raise scanner.error("synthesize() takes arguments in parentheses of their own")
    record: dict[str, Any] = {}
    for part in scanner.arguments():
        name, colon, literal = part.partition(":")
        if colon:
            record[name] = literal
            continue
        name, equals, key = part.partition("=")
        found = get(value, parse_path(key if equals else part))
        if equals:
            record[name] = found
        elif isinstance(found, dict):
            record.update(found)
    return record


PLAIN_TRANSFORMS: dict[str, Transform] = {
    transform.__name__.rstrip("_"): transform
    for transform in (
        always, extract, firstof, group, map_, resolution, sort, synthesize, yesno,
        *time_transforms.TRANSFORMS, *value_transforms.TRANSFORMS,
    )
}  # fmt: skip
"""The transforms by the names that users type, which are those of the functions."""
_WHOLE_NUMBERS = {"map": "depth", "float": "precision"}
_WITH_KEYS = ("duration", "extract", "firstof", "group", "sort", "synthesize")
_PATTERNS = {"sub": "pattern", "regex": "expression"}


@lru_cache(maxsize=64)
def _parameters(transform: Transform) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(transform).parameters.values())[1:]


def option_names(transform: Transform) -> tuple[str, ...]:
    """The arguments that may be given by name; empty for a transform whose arguments are all required."""
    parameters = _parameters(transform)
    if all(parameter.default is parameter.empty for parameter in parameters):
        return ()
    return tuple(parameter.name for parameter in parameters)


def problem_with(transform: Transform, call: Call) -> str:
    """The problem of a call's arguments; '' for none."""
    parameters = _parameters(transform)
    names = [parameter.name for parameter in parameters if parameter.kind != parameter.VAR_POSITIONAL]
    for option in call.options:
        if option not in names:
            return f"Transform {call.name}() has no option {option}"
        if option in names[: len(call.arguments)]:
            return f"Transform {call.name}() has {option} twice"
    if len(call.arguments) > len(names) == len(parameters):
        return f"Transform {call.name}() takes at most {len(names)} arguments"
    given = dict(zip(names, call.arguments, strict=False)) | call.options
    needed = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    missing = [name for name in needed if name in names and name not in given]
    return (
        f"Transform {call.name}() needs {missing[0]}"
        if missing
        else _bad_argument(call.name, given, call.arguments[len(names) :])
    )


def _bad_argument(name: str, given: dict[str, str], arguments: tuple[str, ...]) -> str:
    number = _WHOLE_NUMBERS.get(name, "")
    if number in given and not is_count(given[number]):
        return f"Option {number} of {name}() must be a whole number up to {MOST}, not {given[number]}"
    try:
        re.compile(given.get(_PATTERNS.get(name, ""), ""))
    except re.error as error:
        return f"The pattern of {name}() is no regular expression: {error}"
    if name not in _WITH_KEYS:
        return ""
    try:
        if name == "synthesize":
            for schema in arguments:
                _record({}, schema)
        else:
            keys = [given[option] for option in ("attr", "start", "end") if option in given]
            for key in (*arguments, *keys):
                parse_path(key)
    except ConfigError as error:
        return f"An argument of {name}() does not parse: {error}"
    return ""


def apply(transform: Transform, call: Call, value: Any) -> Any:
    """The value after one transform."""
    if call.depth and isinstance(value, list):
        items = value_transforms.items_below(value, call.depth - 1)
        return [transform(item, *call.arguments, **call.options) for item in items]
    if value or not call.depth:
        return transform(value, *call.arguments, **call.options)
    return value
