"""Transforms: the functions a key may apply to its value, such as ``name.basename()``.

A transform gets the value first, then its arguments as text. Those in `_ON_ELEMENTS` apply to each element
of a list; those in `_ON_VALUES` to the value whole; those in `_ON_DOCUMENTS` also get a function that finds
another key of the same document. A value that a transform cannot use gives `undefined`, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from vtrain.errors import ConfigError
from vtrain.output.keys import Call, Scanner, evaluate, scan_key
from vtrain.output.time_transforms import date, duration, iso, to_integer, to_number

Transform = Callable[..., Any]
Find = Callable[[str], object]

_VARIADIC = 0x04  # the bit of a function's code flags that says it takes *arguments


def basename(value: Any, undefined: str = "") -> str:
    """The last component of a path or a resource name."""
    return re.split(r"[/\\]", str(value).rstrip("/\\"))[-1] or undefined


def segment(value: Any, index: str = "-1", undefined: str = "") -> str:
    """Component `index` of a path, counted from 0, or from the end if negative."""
    pieces, place = str(value).split("/"), to_integer(index)
    return pieces[place] if -len(pieces) <= place < len(pieces) else undefined


def scope(value: Any, *names: str) -> str:
    """What follows ``/NAME/`` in a URL, for the first name found; by default regions or zones."""
    for name in names or ("regions", "zones"):
        before, found, after = str(value).partition(f"/{name}/")
        if found and before:
            return after
    text = str(value)
    return text.split("/")[-1] if text.startswith(("http://", "https://")) else text


def lower(value: Any) -> str:
    """In lower case."""
    return str(value).lower()


def upper(value: Any) -> str:
    """In upper case."""
    return str(value).upper()


def float_(value: Any, precision: str = "6", undefined: str = "") -> str:
    """A number with up to `precision` digits after the point."""
    number = to_number(value)
    return undefined if number is None else str(round(number, to_integer(precision)))


def encode(value: Any, encoding: str = "base64", undefined: str = "") -> str:
    """Text in base64 or in another text encoding of the standard library."""
    return _recode(value, encoding, undefined, decode=False)


def decode(value: Any, encoding: str = "base64", undefined: str = "") -> str:
    """Text read from base64 or from another text encoding of the standard library."""
    return _recode(value, encoding, undefined, decode=True)


def sub(value: Any, pattern: str, replacement: str, count: str = "0") -> str:
    """Text with what matches the regular expression `pattern` replaced, `count` times at most (0: all)."""
    return re.sub(pattern, replacement, str(value), count=to_integer(count))


def length(value: Any) -> int:
    """How many elements, fields or characters; 0 if there is no value."""
    return len(value) if isinstance(value, (str, list, dict)) else 0


def list_(value: Any, show: str = "", undefined: str = "", separator: str = ",") -> str:
    """The elements of a list, or the sorted ``key=value`` pairs of a dictionary, joined."""
    if isinstance(value, dict):
        texts = [name if show == "keys" else str(item) if show == "values" else f"{name}={item}"
                 for name, item in sorted(value.items())]  # fmt: skip
    else:
        texts = [str(item) for item in value] if isinstance(value, list) else _texts(value)
    return separator.join(texts) if texts else undefined


def join(value: Any, separator: str = "/", undefined: str = "") -> str:
    """The elements of a list joined; other values stay as they are."""
    if isinstance(value, dict):
        value = list(value)
    if isinstance(value, list):
        return separator.join(map(str, value))
    return str(value) if _texts(value) else undefined


def split(value: Any, separator: str = "/", undefined: str = "") -> Any:
    """The pieces of a text between separators, as a list."""
    return str(value).split(separator or "/") if _texts(value) else undefined


def sort(value: Any, attribute: str = "") -> Any:
    """The elements of a list in order of their text, or of that of their field `attribute`."""
    if isinstance(value, list) and not attribute:
        return sorted(value, key=str)
    if not isinstance(value, list):
        return value
    return sorted(value, key=lambda item: str(item.get(attribute) if isinstance(item, dict) else item))


def slice_(value: Any, where: str = ":") -> Any:
    """Elements ``M:N`` of a list; a single number gives that element."""
    if not isinstance(value, list):
        return value
    bounds = [to_integer(bound) if bound else None for bound in where.split(":", 1)]
    first = bounds[0] or 0
    return value[slice(*bounds)] if len(bounds) == 2 else value[slice(first, first + 1 or None)]


def count(value: Any) -> dict[str, int]:
    """How often each element of a list occurs."""
    totals: dict[str, int] = {}
    for item in value if isinstance(value, list) else []:
        totals[str(item)] = totals.get(str(item), 0) + 1
    return totals


def yesno(value: Any, yes: str = "", no: str = "No") -> Any:
    """`yes` (default: the value) for a true value, `no` for a false or absent one."""
    return (yes or value) if value else no


def always(value: Any) -> Any:
    """The value as it is."""
    return value


def firstof(find: Find, value: Any, *keys: str) -> Any:
    """The value itself if it is there, else the first key that has one."""
    candidates = [value] if value is not None and not isinstance(value, dict) else []
    return next((found for found in [*candidates, *map(find, keys)] if found not in (None, "")), None)


def extract(value: Any, *keys: str) -> Any:
    """The values of several fields as a list, absent ones left out."""
    found = [value.get(name) for name in keys] if isinstance(value, dict) else []
    return [item for item in found if item is not None] or None


def format_(find: Find, value: Any, template: str, *keys: str) -> str:
    """`template` with ``{0}``, ``{1}``... replaced by keys; without keys, ``{0}`` is the value."""
    values = [find(name) for name in keys] or [value]
    try:
        return template.format(*("" if item is None else item for item in values))
    except (IndexError, KeyError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"The template [{template}] of format() does not fit its {len(values)} keys: {error!r}.",
            hint="Number the fields {0}, {1}... and give one key for each.",
        ) from error


def if_(find: Find, value: Any, key: str) -> Any:
    """The value if `key` has a true value, else nothing."""
    return value if find(key) else None


_ON_ELEMENTS: dict[str, Transform] = {
    "basename": basename, "date": date, "decode": decode, "encode": encode, "float": float_, "iso": iso,
    "lower": lower, "scope": scope, "segment": segment, "sub": sub, "upper": upper,
}  # fmt: skip
_ON_VALUES: dict[str, Transform] = {
    "always": always, "count": count, "extract": extract, "join": join, "len": length, "list": list_,
    "map": always, "slice": slice_, "sort": sort, "split": split, "yesno": yesno,
}  # fmt: skip
_ON_DOCUMENTS: dict[str, Transform] = {
    "duration": duration, "firstof": firstof, "format": format_, "if": if_,
}  # fmt: skip


def problem_with(call: Call) -> str:
    """What is wrong with a call's name or arguments; '' if nothing is."""
    function = _ON_ELEMENTS.get(call.name) or _ON_VALUES.get(call.name) or _ON_DOCUMENTS.get(call.name)
    if function is None:
        return f"Unknown transform function {call.name}"
    code = function.__code__
    names = code.co_varnames[1 + (call.name in _ON_DOCUMENTS) : code.co_argcount]
    unknown = [name for name in call.options if name not in names]
    if unknown:
        return f"Transform {call.name}() has no option {unknown[0]}"
    if len(call.arguments) > len(names) and not code.co_flags & _VARIADIC:
        return f"Transform {call.name}() takes at most {len(names)} arguments"
    twice = [name for name in names[: len(call.arguments)] if name in call.options]
    if twice:
        return f"Transform {call.name}() got {twice[0]} twice"
    required = names[: len(names) - len(function.__defaults__ or ())]
    missing = [name for name in required[len(call.arguments) :] if name not in call.options]
    return f"Transform {call.name}() needs {missing[0]}" if missing else _bad_argument(call, names)


def _bad_argument(call: Call, names: tuple[str, ...]) -> str:
    given = dict(zip(names, call.arguments, strict=False)) | call.options
    for name in ("index", "parts", "precision"):
        if name in given and not re.fullmatch(r"-?\d+", given[name]):
            return f"Option {name} of {call.name}() must be a whole number, not {given[name]}"
    try:
        re.compile(given["pattern"] if call.name == "sub" else "")
    except re.error as error:
        return f"The pattern of sub() is no regular expression: {error}"
    return ""


def apply(call: Call, value: object, document: object) -> object:
    """The value after one transform; `document` is where other keys are looked up."""
    if call.name in _ON_DOCUMENTS:
        return _ON_DOCUMENTS[call.name](_finder(value, document), value, *call.arguments, **call.options)
    function = _ON_ELEMENTS.get(call.name) or _ON_VALUES[call.name]
    if isinstance(value, list) and (call.mapped or call.name in _ON_ELEMENTS):
        return [function(item, *call.arguments, **call.options) for item in value]
    if call.name in _ON_ELEMENTS and value in (None, ""):
        return call.options.get("undefined", "" if value == "" else None)
    return function(value, *call.arguments, **call.options)


def _finder(value: object, document: object) -> Find:
    def find(text: str) -> object:
        key = scan_key(Scanner(text, kind="key"))
        found = evaluate(key, value) if isinstance(value, dict) else None
        return evaluate(key, document) if found is None else found

    return find


def _texts(value: Any) -> list[str]:
    return [] if value is None or value == "" else [str(value)]


def _recode(value: Any, encoding: str, undefined: str, *, decode: bool) -> str:
    import base64

    text = str(value)
    try:
        if encoding == "base64":
            return base64.b64decode(text).decode() if decode else base64.b64encode(text.encode()).decode()
        return text.encode().decode(encoding) if decode else text.encode(encoding).decode("latin-1")
    except (ValueError, LookupError):
        return undefined
