"""The transforms of texts, numbers, lists and dictionaries. A text counts as the list of its characters."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

_LARGEST = 2**31 - 1
MOST_DIGITS = 100
"""Digits after the point; a double has no more than 17 of its own."""
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}


def to_number(value: Any) -> float | None:
    """A value as a number; None if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def to_integer(text: Any) -> int | None:
    """A value as a whole number, of 32 bits at most; None if it is none."""
    try:
        number = int(text)
    except (TypeError, ValueError):
        return None
    return max(-_LARGEST, min(number, _LARGEST))


def to_boolean(text: str) -> bool:
    """False for nothing, ``false`` and 0, true for everything else."""
    number = to_number(text)
    return bool(text) and text.lower() != "false" and number != 0


def basename(value: Any, undefined: str = "") -> Any:
    """The last component of a path or a resource name."""
    if not value:
        return undefined
    if isinstance(value, list):
        return [basename(item) for item in value]
    text = str(value)
    return text[text.rfind("/" if "/" in text else "\\") + 1 :]


def collection(_value: Any, undefined: str = "") -> str:
    """The collection in gcloud's registry, which has no resource of Vertex AI training."""
    return undefined


def color(value: Any, red: str = "", yellow: str = "", green: str = "", blue: str = "") -> str:
    """Text without colours: output is for other programs."""
    del red, yellow, green, blue
    return str(value)


def segment(value: Any, index: str = "-1", undefined: str = "") -> str:
    """Component `index` of a path, counted from 0, or from the end if negative."""
    pieces, place = unquote(str(value)).split("/"), to_integer(index)
    if not value or place is None or not -len(pieces) <= place < len(pieces):
        return undefined
    return pieces[place] or undefined


def scope(value: Any, *names: str) -> str:
    """The part of a URL after ``/NAME/``, for the first name found; by default regions or zones."""
    text = unquote(str(value)) if value else ""
    for name in names or ("regions", "zones"):
        if f"/{name}/" in text:
            return text.split(f"/{name}/")[-1]
    return text.split("/")[-1] if text.startswith("https://") else text


class Addressed(dict[str, Any]):
    """A document that knows the URL of its resource."""

    uri = ""


def uri(value: Any, undefined: str = ".") -> str:
    """The URL of a resource."""
    return value.uri if isinstance(value, Addressed) else undefined


def lower(value: Any) -> Any:
    """Text in lower case."""
    return value.lower() if isinstance(value, str) else value


def upper(value: Any) -> Any:
    """Text in upper case."""
    return value.upper() if isinstance(value, str) else value


def float_(value: Any, precision: str = "6", spec: str = "", undefined: str = "") -> str:
    """A number to `precision` digits, in printf's notation `spec` (e, f or g) if there is one."""
    number = to_number(value)
    if number is None:
        return undefined
    try:
        text = f"{number:.{precision}{spec}}"
    except ValueError:
        return undefined
    _, grown, exponent = text.partition("e+")
    return f"{number:.1f}" if grown and not spec and int(exponent) < 9 else text


def size(
    value: Any,
    zero: str = "0",
    precision: str = "1",
    units_in: str = "",
    units_out: str = "",
    min: str = "0",
) -> str:
    """A number of bytes in the unit that fits, or in `units_out`."""
    if not value:
        return zero
    least = to_number(min) or 0.0
    amount = to_number(value) or 0.0
    if not math.isfinite(amount):
        return str(value)
    mark = "< " if amount < least else ""
    amount = max(amount, least) * _unit(units_in)
    digits = sorted((0, to_integer(precision) or 0, MOST_DIGITS))[1]
    if units_out[:1].upper() in _UNITS:
        return f"{amount / _unit(units_out):.{digits}f}"
    names = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while amount >= 1024 and len(names) > 1:
        amount /= 1024
        names.pop(0)
    if amount >= 1024:
        amount /= 1024
    return (
        f"{mark}{int(amount)} {names[0]}"
        if amount == int(amount)
        else f"{mark}{amount:.{digits}f} {names[0]}"
    )


def _unit(text: str) -> float:
    return to_number(text) or float(_UNITS.get(text[:1].upper(), 1))


def encode(value: Any, encoding: str, undefined: str = "") -> str:
    """Text in base64, or as far as another text encoding can write it."""
    import base64

    try:
        if encoding == "base64":
            return base64.b64encode(_as_bytes(str(value))).decode() if value is not None else undefined
        return str(value).encode(encoding, "replace").decode(encoding)
    except (AttributeError, ValueError, LookupError):
        return undefined


def _as_bytes(text: str) -> bytes:
    """Latin-1 where possible, else UTF-8, as in gcloud."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def decode(value: Any, encoding: str, undefined: str = "") -> str:
    """Text read from base64; text in other encodings is no JSON."""
    import base64

    try:
        if encoding == "base64":
            return _text(base64.urlsafe_b64decode(str(value)))
    except ValueError:
        return undefined
    return undefined


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def sub(value: Any, pattern: str, replacement: str, count: str = "0", ignorecase: str = "true") -> Any:
    """Text with the matches of the regular expression `pattern` replaced, at most `count` (0: all)."""
    times = to_integer(count)
    if not isinstance(value, str) or times is None:
        return value
    flags = re.MULTILINE | re.DOTALL | (re.IGNORECASE if to_boolean(ignorecase) else 0)
    try:
        return re.sub(pattern, replacement, value, count=times, flags=flags)
    except (re.error, IndexError):
        return value


def regex(value: Any, expression: str, does_match: str = "", nomatch: str = "") -> Any:
    """`does_match` (default: the text) if `expression` matches at its start, else `nomatch`."""
    if not isinstance(value, str) or not value or not expression:
        return nomatch
    return (does_match or value) if re.match(expression, value) else nomatch


def trailoff(value: Any, character_limit: str, undefined: str = "") -> Any:
    """Text cut to `character_limit` characters, the last three of them dots."""
    limit = to_integer(character_limit)
    if limit is None or limit <= 3 or not isinstance(value, str):
        return undefined
    return value if len(value) < limit else value[: limit - 3] + "..."


def items_below(value: list[Any], levels: int) -> list[Any]:
    """The elements of lists in lists, `levels` further down."""
    for _ in range(levels):
        if not all(isinstance(item, (list, str, dict)) for item in value):
            return value
        value = [inner for item in value for inner in item]
    return value


def len_(value: Any) -> int:
    """How many elements, fields or characters; 0 if there is no value."""
    return len(value) if isinstance(value, (str, list, dict)) else 0


def list_(value: Any, show: str = "", undefined: str = "", separator: str = ",") -> Any:
    """The elements of a list, or the sorted ``key=value`` pairs of a dictionary, joined."""
    if isinstance(value, dict):
        return separator.join(_pairs(value, show))
    if isinstance(value, list):
        return separator.join(map(str, value))
    return value or undefined


def _pairs(value: dict[str, Any], show: str) -> Iterator[str]:
    for name in sorted(value):
        item = str(value[name])
        yield name if show == "keys" else item if show == "values" else f"{name}={item}"


def flatten(value: Any, show: str = "", undefined: str = "", separator: str = ",") -> Any:
    """Lists and dictionaries in one another as one list, like `list` on every level."""

    def inner(item: Any) -> Any:
        return flatten(item, show, undefined, separator)

    if isinstance(value, dict):
        return list_({name: inner(item) for name, item in value.items()}, show, "", separator) or undefined
    if isinstance(value, list) and value:
        nested = isinstance(value[0], (dict, list))
        return separator.join(str(inner(item) if nested else item) for item in value)
    return value or undefined


def join(value: Any, sep: str = "/", undefined: str = "") -> str:
    """The elements of a list joined."""
    return sep.join(map(str, value)) or undefined if isinstance(value, (list, dict, str)) else undefined


def split(value: Any, sep: str = "/", undefined: str = "") -> Any:
    """The pieces of a text between separators, as a list."""
    return value.split(sep) if isinstance(value, str) and value and sep else undefined


def slice_(value: Any, op: str = ":", undefined: str = "") -> Any:
    """Elements ``M:N`` or ``M:N:STEP`` of a list; a single number gives that element."""
    try:
        bounds = [int(bound) if bound.strip() else None for bound in op.split(":")]
        if len(bounds) == 1:
            bounds.append((bounds[0] or 0) + 1 or None)
        return list(value[slice(*bounds)]) or undefined
    except (TypeError, ValueError, KeyError):
        return undefined


def count(value: Any) -> dict[Any, int]:
    """How often each element of a list occurs."""
    items = value if isinstance(value, (list, dict, str)) else []
    if any(isinstance(item, (list, dict)) for item in items):
        return {}
    totals: dict[Any, int] = {}
    for item in items:
        totals[item] = totals.get(item, 0) + 1
    return totals


def notnull(value: Any) -> list[Any]:
    """The elements of a list without nulls."""
    return [item for item in value if item is not None] if isinstance(value, (list, dict, str)) else []


TRANSFORMS: tuple[Callable[..., Any], ...] = (
    basename, collection, color, count, decode, encode, flatten, float_, join, len_, list_, lower, notnull,
    regex, scope, segment, size, slice_, split, sub, trailoff, upper, uri,
)  # fmt: skip
