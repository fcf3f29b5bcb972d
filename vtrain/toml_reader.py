"""The reader of TOML: documents, and the lines of their keys."""

from __future__ import annotations

import re
import sys
from typing import Any

from vtrain.text_files import encoding_of, why_not_utf8

_LONG = re.compile(r"[0-9_]{4300}")
_MOST_PLACES = 20
"""Lines that may give a key: to look at one costs a look at all that stands above it."""
_LONGEST = 50
"""Lines of one statement."""
_LARGEST = 100_000
"""Letters of a document in which lines are looked for."""


def load_toml(text: str) -> dict[str, Any]:
    """The document in a text. Raises ValueError for what is not TOML, RecursionError for too deep a one."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)
    except ValueError as error:
        if "limit (4300" not in str(error):
            raise
        found = _LONG.search(text)
        line = text.count("\n", 0, found.start() if found else 0) + 1
        raise ValueError(f"an integer has more than 4300 digits (at line {line}, column 1)") from error


def toml_text(data: bytes) -> str:
    """The text of a file. Raises ValueError for one that no reader of TOML takes, with what it is."""
    if reason := why_not_utf8(data):
        raise ValueError(reason)
    if encoding_of(data):
        raise ValueError(
            "it begins with a byte-order mark, which TOML does not have; save it as UTF-8 without"
        )
    return data.decode("utf-8")


def table_of(document: dict[str, Any], *names: str) -> dict[str, Any]:
    """The table at a path of names; empty where there is none."""
    for name in names:
        found = document.get(name)
        document = found if isinstance(found, dict) else {}
    return document


def listed(value: Any) -> list[Any]:
    """The values of a key that takes one or a list of them; none of one that is empty or absent."""
    return value if isinstance(value, list) else [value] if value else []


def tables_in(value: Any) -> list[dict[str, Any]]:
    """The tables in a list; none in anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def line_of(text: str, path: tuple[str, ...]) -> int:
    """The line, from 1, on which a TOML document gives the key at a path; 0 where that is not found.

    The parser tells no lines. So the key is on the first line after which the lines above, which are a
    document too, have it.
    """
    if len(text) > _LARGEST:
        return 0
    lines = text.replace("\r\n", "\n").split("\n")
    named = [n for n, line in enumerate(lines) if path[-1] in (line if "{" in line else line.split("=")[0])]
    for number in named[:_MOST_PLACES]:
        if _has(lines[:number], path) is False and _next_has(lines, number, path):
            return number + 1
    return 0


def _next_has(lines: list[str], number: int, path: tuple[str, ...]) -> bool:
    """Whether the statement that begins at a line, and may have more of them, gives the key."""
    for end in range(number + 1, min(number + _LONGEST, len(lines)) + 1):
        found = _has(lines[:end], path)
        if found is not None:
            return found
    return False


def _has(lines: list[str], path: tuple[str, ...]) -> bool | None:
    """Whether a document has the key; None for lines that are no document, as inside of a text or a list."""
    try:
        value: Any = load_toml("\n".join(lines))
    except (ValueError, RecursionError):
        return None
    for name in path:
        if isinstance(value, list):
            value = value[-1]
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True
