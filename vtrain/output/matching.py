"""What the operators of a filter mean.

    =  !=        the whole text or any whole line of it, ignoring case; numbers and times by value
    :            part of the text, ignoring case; ``x*`` its beginning, ``*x`` its end, ``*`` anything at all
    < <= > >=    numbers, durations and times by value, else text, case-sensitive
    ~  !~        a regular expression found anywhere, case-sensitive

A list or a dictionary meets a test if any element, key or value in it does. An absent value equals ``""`` and
``null``, meets ``!=`` and ``!~``, and is neither less nor greater than anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from operator import ge, gt, le, lt

from vtrain.output.instants import parse_duration, parse_instant, parse_timestamp

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$")
_COMPARISONS: dict[str, Callable[..., bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}

Predicate = Callable[[object], bool]


def comparison(operator: str, operand: str, now: datetime | None) -> Predicate:
    """The test of one value against one operand; raises re.error for a bad regular expression."""
    if operator in _COMPARISONS:
        return _ordered(_COMPARISONS[operator], operand, now)
    if operator in ("~", "!~"):
        return _regex(operand, negated=operator == "!~")
    if operator == ":":
        return _has(operand)
    equal = _equals(operand, now)
    if operator == "=":
        return lambda value: any(equal(item) for item in _items(value))
    return lambda value: any(not equal(item) for item in _items(value))


def contains_word(word: str) -> Predicate:
    """Whether any value in a document holds `word` between characters that are no letters or digits."""
    prefix = word.endswith("*")
    start, end = r"(?<![^\W_])", "" if prefix else r"(?![^\W_])"
    pattern = re.compile(start + re.escape(word.rstrip("*") if prefix else word) + end, re.IGNORECASE)
    return lambda document: any(pattern.search(_text(item)) for item in _items(document, keys=False))


def _items(value: object, *, keys: bool = True) -> Iterator[object]:
    """The scalars in a value: itself, or all in a list or dictionary; None for an empty one."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            if keys:
                yield name
            yield from _items(item, keys=keys)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _items(item, keys=keys)
    else:
        yield None if isinstance(value, (dict, list)) else value


def _text(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _equals(operand: str, now: datetime | None) -> Predicate:
    wanted, number, moment = operand.casefold(), _number(operand), _instant(operand, now)

    def equal(value: object) -> bool:
        if value is None:
            return wanted in ("", "null")
        if number is not None and (found := _number(value)) is not None:
            return found == number
        if moment and isinstance(value, str) and (instant := parse_timestamp(value)):
            return instant == moment
        text = _text(value).casefold()
        return text == wanted or ("\n" in text and wanted in text.split("\n"))

    return equal


def _has(operand: str) -> Predicate:
    wanted = operand.casefold()
    if wanted == "*":
        return lambda value: value not in (None, "", [], {})

    def has(value: object) -> bool:
        text = _text(value).casefold()
        if wanted.endswith("*"):
            return text.startswith(wanted[:-1])
        return text.endswith(wanted[1:]) if wanted.startswith("*") else wanted in text

    return lambda value: any(has(item) for item in _items(value) if item is not None)


def _regex(operand: str, *, negated: bool) -> Predicate:
    search = re.compile(operand).search
    if negated:
        return lambda value: any(item is None or not search(_text(item)) for item in _items(value))
    return lambda value: any(item is not None and bool(search(_text(item))) for item in _items(value))


def _ordered(compare: Callable[..., bool], operand: str, now: datetime | None) -> Predicate:
    number, seconds, moment = _number(operand), parse_duration(operand), _instant(operand, now)

    def test(value: object) -> bool:
        if value is None:
            return False
        if number is not None and (found := _number(value)) is not None:
            return compare(found, number)
        if isinstance(value, str):
            if moment and (instant := parse_timestamp(value)):
                return compare(instant, moment)
            if seconds is not None and (found := parse_duration(value)) is not None:
                return compare(found, seconds)
        return compare(_text(value), operand)

    return lambda value: any(test(item) for item in _items(value))


def _number(value: object) -> float | None:
    if isinstance(value, (bool, int, float)):
        return float(value)
    return float(value) if isinstance(value, str) and _NUMBER.match(value) else None


def _instant(operand: str, now: datetime | None) -> datetime | None:
    return parse_instant(operand, now or datetime.now(timezone.utc))
