"""Orders: how rows are sorted, by ``--sort-by`` and by the order inside a format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from vtrain.output.keys import Key, Scanner, evaluate, scan_key

Row = TypeVar("Row")


class SortKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key to sort by, and whether from the greatest down."""

    key: Key
    reverse: bool = False


def parse_sort(text: str) -> tuple[SortKey, ...]:
    """Read the value of ``--sort-by``: keys separated by commas, ``~`` before one to reverse it.

    Raises ConfigError, with the position marked, for bad syntax.
    """
    scanner = Scanner(text, kind="--sort-by")
    keys: list[SortKey] = []
    while scanner.peek():
        reverse = scanner.accept("~")
        scanner.skip_spaces()
        keys.append(SortKey(key=scan_key(scanner), reverse=reverse))
        if not scanner.accept(",") and scanner.peek():
            raise scanner.error("Expected a comma between sort keys")
    return tuple(keys)


def sort_documents(documents: Iterable[Row], keys: Iterable[SortKey], *, numeric: bool = False) -> list[Row]:
    """The documents in order; those that compare equal stay as they came.

    As in gcloud everything is compared as text, case-sensitive, a missing value as the text ``None``; with
    `numeric`, as in tables, numbers come first and in numerical order.
    """
    ordered = list(documents)
    rank = _numeric_rank if numeric else _text_rank
    for sort_key in reversed(tuple(keys)):
        ranks = [rank(evaluate(sort_key.key, document)) for document in ordered]
        places = sorted(range(len(ordered)), key=ranks.__getitem__, reverse=sort_key.reverse)
        ordered = [ordered[place] for place in places]
    return ordered


def _text_rank(value: object) -> tuple[int, float, str]:
    return (0, 0.0, str(value))


def _numeric_rank(value: object) -> tuple[int, float, str]:
    try:
        number = float(value) if isinstance(value, (int, float, str)) else None
    except ValueError:
        number = None
    if number is None or number != number:  # NaN has no place in an order
        return (1, 0.0, "" if value is None else str(value))
    return (0, number, "")
