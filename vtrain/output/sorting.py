"""gcloud's sort orders, ``--sort-by``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from vtrain.output.expressions import evaluate, scan_key
from vtrain.output.keys import Key
from vtrain.output.scanner import Scanner

Row = TypeVar("Row")


class SortKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key to sort by, with `reverse` in descending order."""

    key: Key
    reverse: bool = False


def parse_sort(text: str) -> tuple[SortKey, ...]:
    """Read the value of ``--sort-by``: keys separated by commas, ``~`` before one to reverse it.

    ``[]`` means the first element. Raises ConfigError, with the position marked, for bad syntax.
    """
    scanner = Scanner(text.replace("[]", "[0]"), kind="--sort-by")
    keys: list[SortKey] = []
    while True:
        scanner.skip_spaces()
        if scanner.at_end:
            return tuple(keys)
        reverse = False
        while scanner.accept("~"):
            reverse = True
        keys.append(SortKey(key=scan_key(scanner), reverse=reverse))
        scanner.skip_spaces()
        if not scanner.at_end and not scanner.accept(","):
            raise scanner.error("A comma is expected between sort keys")


def sort_documents(documents: Iterable[Row], keys: Iterable[SortKey]) -> list[Row]:
    """The documents in order; equal ones keep their order.

    As in gcloud everything is compared as text, case-sensitive, a missing value as the text ``None``.
    """
    ordered = list(documents)
    for sort_key in reversed(tuple(keys)):
        ordered.sort(key=lambda document: str(evaluate(sort_key.key, document)), reverse=sort_key.reverse)
    return ordered


def order_suffix(keys: tuple[SortKey, ...]) -> str:
    """The sort keys as the end of a format, for tables, which compare numbers as numbers."""
    parts = (
        f"{sort_key.key.text}:sort={place}{':reverse' if sort_key.reverse else ''}"
        for place, sort_key in enumerate(keys, start=1)
        if not sort_key.key.calls
    )
    joined = ",".join(parts)
    return f":({joined})" if joined else ""
