"""The transforms that look at several fields, or that choose."""

from __future__ import annotations

import re
import string
from typing import Any

from vtrain.errors import ConfigError
from vtrain.output.keys import evaluate, get, parse_key
from vtrain.output.scanner import Scanner


def same(value: Any) -> Any:
    """The value as it is."""
    return value


def map_(value: Any, depth: str = "1") -> Any:
    """The value as it is; the next transform goes to the elements `depth` levels down."""
    del depth
    return value


def yesno(value: Any, yes: str | None = None, no: str = "No") -> Any:
    """`yes` (default: the value) for a value that is there, `no` for an empty one."""
    if not value:
        return no
    return value if yes is None else yes


def firstof(value: Any, *keys: str) -> Any:
    """The first of the keys that has a value."""
    found = (get(value, parse_key(key).path) for key in keys)
    return next((item for item in found if item is not None), "")


def extract(value: Any, *keys: str) -> list[Any]:
    """The values of several fields as a list, empty ones left out."""
    found = [get(value, parse_key(key).path) for key in keys]
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
    found = (get(item, parse_key(key).path) for key in keys)
    first, *rest = ("" if value is None else str(value) for value in found)
    return first + ": " * bool(rest) + ", ".join(rest)


def filter_(value: Any, expression: str) -> Any:
    """The elements of a list that meet a filter; of another value itself, or nothing."""
    from vtrain.output.expression import parse_filter

    matches = parse_filter(expression).matches
    if isinstance(value, list):
        return [item for item in value if matches(item)]
    return value if not value or matches(value) else ""


def format_(value: Any, fmt: str, *keys: str) -> str:
    """`fmt` with ``{0}``, ``{1}``... replaced by keys; without keys by the list, or by the value."""
    if keys:
        found = [evaluate(parse_key(key), value) for key in keys]
    else:
        found = value if isinstance(value, list) else [value or ""]
    try:
        return fmt.format(*found)
    except (IndexError, KeyError, ValueError, AttributeError, TypeError):
        return ""


def resolution(value: Any, undefined: str = "", transpose: str = "") -> str:
    """Width and height of something that has both."""
    from vtrain.output.text_transforms import to_boolean

    fields = {name.lower(): name for name in value} if isinstance(value, dict) else {}
    pairs = (("width", "height"), ("screenx", "screeny"), ("col", "row"), ("col", "line"), ("x", "y"))
    for pair in pairs:
        found = [next((value[fields[name]] for name in fields if part in name), None) for part in pair]
        if None not in found:
            return " x ".join(str(item) for item in (reversed(found) if to_boolean(transpose) else found))
    return undefined


def synthesize(value: Any, *schemas: str) -> list[dict[str, Any]]:
    """New records: ``(name:literal, name=key, key)`` each makes one, the last form taking all its fields."""
    return [_record(value, schema) for schema in schemas]


def _record(value: Any, schema: str) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for part in _parts(schema):
        name, colon, literal = part.partition(":")
        if colon:
            record[name] = literal
            continue
        name, equals, key = part.partition("=")
        found = get(value, parse_key(key if equals else part).path)
        if equals:
            record[name] = found
        elif isinstance(found, dict):
            record.update(found)
    return record


def _parts(schema: str) -> list[str]:
    scanner = Scanner(schema, kind="--format")
    if not scanner.accept("("):
        raise scanner.error("synthesize() takes arguments in parentheses of their own")
    return scanner.arguments()


def bad_expression(name: str, given: dict[str, str], rest: tuple[str, ...]) -> str:
    """What is wrong with an expression or a key among a transform's arguments; '' if nothing is."""
    try:
        if name == "filter":
            from vtrain.output.expression import parse_filter

            parse_filter(given["expression"])
        elif name == "synthesize":
            for schema in rest:
                _record({}, schema)
        else:
            for key in (*rest, *(given[option] for option in ("attr", "start", "end") if option in given)):
                parse_key(key)
        return _bad_template(given["fmt"], len(rest)) if name == "format" else ""
    except (ConfigError, ValueError) as error:
        return f"An argument of {name}() does not parse: {error}"


def _bad_template(template: str, count: int) -> str:
    """What is wrong with a template for `count` keys, or for a value or list where there is none."""
    fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
    numbers = [re.split(r"[.\[]", field)[0] for field in fields]
    if any(number and not number.isdecimal() for number in numbers):
        return "The fields in the template of format() are numbers: {0}, {1}..."
    most = max((int(number or place) + 1 for place, number in enumerate(numbers)), default=0)
    return f"The template of format() has {most} fields and not as many keys" if 0 < count < most else ""
