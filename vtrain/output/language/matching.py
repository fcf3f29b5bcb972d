"""The operators of a filter.

    =  !=        the whole text or any whole line of it; numbers and times by value
    :            part of the text; ``x*`` its start, ``*x`` its end, ``*`` any value
    < <= > >=    numbers and times by value, else text, case-sensitive
    ~  !~        a regular expression found anywhere, case-sensitive

``=`` and ``:`` ignore case and accents. A list meets a test if any of its elements does, an object if any
of its names or values does. An absent value equals ``""`` and ``null``, and is less than any text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any

import msgspec

from vtrain.times import parse_instant, parse_timestamp

_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_TAGS = re.compile(r"<[^>]*>")
_CONSTANTS = {"false": 0, "true": 1}
_COMPARISONS: dict[str, Callable[..., bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}

Predicate = Callable[[Any], bool]
Test = Callable[[Any, Any], bool]
"""A test of a value against an operand: two texts, two numbers or two instants."""


class Operand(msgspec.Struct, frozen=True, kw_only=True):
    """The right side of a comparison: text and, where the text can be read so, a number and an instant."""

    text: str
    number: float | None = None
    is_constant: bool = False
    instant: datetime | None = None


def comparison(
    operator: str, texts: tuple[str, ...], *, now: datetime | None, reads_times: bool
) -> Predicate:
    """The test of a value against any of several operands.

    Raises re.error for a bad regular expression, and ValueError for a pattern with more than one ``*``.
    """
    test = _test(operator, texts)
    if operator in ("~", "!~"):  # a regular expression is text, though it may read as a number or a time
        operands = [Operand(text=text) for text in texts]
    else:
        operands = [_operand(text, now, reads_times=reads_times) for text in texts]
    holds_times = False

    def meets(value: Any) -> bool:
        nonlocal holds_times  # a key that held a time once is compared by time, and no absent value meets it
        items = value if isinstance(value, list) and value else [value]
        holds_times = holds_times or any(isinstance(item, str) and bool(_TIME.match(item)) for item in items)
        return any(
            _meets(item, operand, test)
            for item in items
            for operand in operands
            if item or not (holds_times and operand.instant)
        )

    return meets


def _operand(text: str, now: datetime | None, *, reads_times: bool) -> Operand:
    constant = _CONSTANTS.get(text.lower())
    instant = parse_instant(text, now or datetime.now(timezone.utc)) if reads_times else None
    number = _number(text) if constant is None else constant
    return Operand(text=text, number=number, is_constant=constant is not None, instant=instant)


def _meets(value: Any, operand: Operand, test: Test) -> bool:
    if (
        operand.instant
        and isinstance(value, str)
        and _TIME.match(value)
        and (found := parse_timestamp(value))
    ):
        return test(found, operand.instant)
    if operand.number is not None and (number := _number(value)) is not None:
        if test(number, operand.number):
            return True
        if not operand.is_constant:
            return False
    return test(value, operand.text)


def _number(value: Any) -> float | None:
    if isinstance(value, (int, float)):
        return value
    try:
        return int(value)
    except (TypeError, ValueError):
        pass
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _test(operator: str, texts: tuple[str, ...]) -> Test:
    if operator in _COMPARISONS:
        return _ordered(_COMPARISONS[operator])
    if operator in ("~", "!~"):
        return _found(re.compile(texts[0]).search, negated=operator == "!~")
    patterns = [_Pattern(text, is_part=operator == ":") for text in texts]

    def matches(value: Any, _operand: Any) -> bool:
        return any(pattern.fits(item) for item in _members(value) for pattern in patterns)

    return (lambda value, operand: not matches(value, operand)) if operator == "!=" else matches


def _ordered(compare: Callable[..., bool]) -> Test:
    def test(value: Any, operand: Any) -> bool:
        if isinstance(value, (dict, list)):
            return False
        if isinstance(operand, str) and not isinstance(value, str):
            value = "" if value is None else repr(value)
        return compare(value, operand)

    return test


def _found(search: Callable[[str], object], *, negated: bool) -> Test:
    def test(value: Any, _operand: Any) -> bool:
        if isinstance(value, (dict, list)):
            return False
        text = value if isinstance(value, str) else "" if value is None else repr(value)
        return bool(search(text)) != negated

    return test


def _members(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    elif isinstance(value, list):
        yield from value
    else:
        yield value


class _Pattern:
    """One operand of ``=`` or ``:``."""

    def __init__(self, text: str, *, is_part: bool) -> None:
        self.text = text
        self.number = _number(text)
        self.is_any = is_part and text == "*"
        expression = _part_expression(text) if is_part else f"^{re.escape(_normalized(text))}$"
        self.search = re.compile(expression, re.IGNORECASE | re.MULTILINE).search

    def fits(self, value: Any) -> bool:
        if isinstance(value, datetime):
            return value == parse_instant(self.text, datetime.now(timezone.utc))
        if value is None:
            return not self.is_any and (not self.text or bool(self.search("null")))
        if isinstance(value, (int, float)):
            constant = _CONSTANTS.get(self.text.lower())
            if self.number == value or constant == value:
                return True
            return bool(self.search(re.sub(r"\.0*$", "", repr(value))))
        return value == self.text or bool(self.search(_without_tags(_normalized(value))))


def _without_tags(text: str) -> str:
    """A text without `<tags>`. The search ends at the last `>`, so that it is linear."""
    end = text.rfind(">") + 1
    return _TAGS.sub("", text[:end]) + text[end:]


def _part_expression(text: str) -> str:
    """The regular expression of a pattern with at most one ``*``; raises ValueError for more."""
    if text == "*":
        return "."
    parts = [re.escape(part) for part in _normalized(text).split("*")]
    if len(parts) > 2:
        raise ValueError("at most one * fits in a pattern")
    if len(parts) == 1:
        return parts[0]
    start = "" if text.startswith("*") else "^"
    end = "" if text.endswith("*") else "$"
    return start + parts[0] + (".*" if start and end else "") + parts[1] + end


@lru_cache(maxsize=4096)
def _folded(text: str) -> str:
    """Text in lower case without accents."""
    if text.isascii():
        return text.lower()
    spread = unicodedata.normalize("NFKD", text.lower())
    return "".join(char for char in spread if not unicodedata.combining(char))


def _normalized(value: Any) -> str:
    return _folded(value if isinstance(value, str) else repr(value))


def contains_word(word: str) -> Predicate:
    """Whether any value in a document has `word` in it, ignoring case."""
    search = re.compile(re.escape(word), re.IGNORECASE).search

    def contains(value: Any) -> bool:
        if not value:
            return False
        if isinstance(value, dict):
            return any(contains(item) for name, item in value.items() if not name.startswith("_"))
        if isinstance(value, list):
            return any(map(contains, value))
        return bool(search(str(value)))

    return contains
