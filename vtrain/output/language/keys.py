"""Keys, by which formats, filters and sort orders name a value inside a document.

    key    := "." | step ["." step]... ["." call]... | call ["." call]...
    step   := name | name "[" [N] "]"
    call   := ["*"...] name "(" [argument ["," argument]...] ")"

Names may be quoted; ``worker_pool_specs`` and ``workerPoolSpecs`` name the same field. A name applied to
a list applies to each of its elements. Where nothing is found the value is None: an unknown key is no
error, since the documents come from a service that may omit any field.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from vtrain.output.language.scan import RESERVED, Scanner

_CAPITALS = r"((?<=[a-z0-9])[A-Z]+(?=[A-Z][a-z]|$)|(?!^)[A-Z](?=[a-z]))"

MOST_STEPS = 100
"""Names in a key: documents are not nested deeper, and what reads them goes down level by level."""
_LONGEST_INDEX = 18

Step = str | int | None
"""A field's name, an element's number, or None for every element."""

Path = tuple[Step, ...]
Aliases = Callable[[str], "Key | None"]
"""Answers another name of a key with the key."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One transform in a key, such as ``basename()`` or ``date("%Y", tz=UTC)``.

    It is applied to the elements of a list `depth` levels down; 0 is the value itself.
    """

    name: str
    arguments: tuple[str, ...] = ()
    options: dict[str, str] = msgspec.field(default_factory=dict)
    depth: int = 0


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """The path to a value, and the transforms of the value.

    `is_always` keeps the transforms active where a format turns them off.
    """

    path: Path = ()
    calls: tuple[Call, ...] = ()
    is_always: bool = False

    @property
    def text(self) -> str:
        """The path in gcloud's notation."""
        return path_text(self.path)


def path_text(path: Path) -> str:
    """``a.b[0].c[]`` for a path; ``.`` for none."""
    text = "".join(
        ("." + _quoted(step)) if isinstance(step, str) else f"[{'' if step is None else step}]"
        for step in path
    )
    return text.removeprefix(".") or "."


def _quoted(name: str) -> str:
    if not re.search(r"[^-@\w]", name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def no_alias(name: str) -> None:
    """Where keys have no other names."""


def scan_path(scanner: Scanner, aliases: Aliases) -> tuple[Path, Key | None]:
    """Read names and indices, and the alias among them. The last name may be that of a transform."""
    path: list[Step] = []
    alias: Key | None = None
    while not scanner.at_end:
        _expand_stars(scanner)
        start = scanner.position
        name = scanner.token(RESERVED, spaces=False)
        if name:
            alias = aliases(name) if not path and scanner.peek() != "(" else alias
            path.extend(alias.path if alias and not path else (name,))
        elif scanner.peek() != "[":
            if (
                not path
                and scanner.accept(".")
                and (scanner.at_end or scanner.peek() in RESERVED.replace(".", ""))
            ):
                break
            raise scanner.error("A key's name is expected", start)
        if scanner.at_end:
            break
        if scanner.accept("]"):
            raise scanner.error("A ] without its [ in a key", start)
        while scanner.accept("["):
            path.append(_scan_index(scanner))
        if not scanner.accept("."):
            break
        if scanner.at_end:
            raise scanner.error("A key's name is expected")
    if len(path) > MOST_STEPS:
        raise scanner.error(f"A key has at most {MOST_STEPS} names")
    return tuple(path), alias


def _scan_index(scanner: Scanner) -> Step:
    start = scanner.position
    index = scanner.token("]")
    if not scanner.demand("]"):
        raise scanner.error("A ] is expected")
    if index and ":" in index:
        raise scanner.error("Only [N] and [] are indices of a key; slice(M:N) gives a part of a list", start)
    if index and re.fullmatch(r"[-+]?\d+", index):
        return int(index) if len(index) < _LONGEST_INDEX else sys.maxsize  # of no list
    return index


def _expand_stars(scanner: Scanner) -> None:
    """``*`` is short for ``map()``, ``**`` for ``map(2)``."""
    start = scanner.position
    while scanner.accept("*"):
        continue
    if stars := scanner.position - start:
        scanner.text = f"{scanner.text[:start]}map({stars}).{scanner.text[scanner.position :]}"
        scanner.position = start


@lru_cache(maxsize=256)  # transforms ask for each document
def parse_path(text: str) -> Path:
    """The path of a key; transforms of it are ignored. Raises ConfigError with the place marked."""
    scanner = Scanner(text, kind="key")
    path, _ = scan_path(scanner, no_alias)
    if not scanner.at_end and scanner.peek() != "(":
        raise scanner.error("Nothing can follow the key here")
    return path


# Values


def get(value: Any, path: Path) -> Any:
    """The value at `path` inside `value`: None if it is missing, a list if the path passes through one."""
    for place, step in enumerate(path):
        rest = path[place + 1 :]
        if isinstance(value, dict):
            if step is None:
                return [get(value, (name, *rest)) for name in value] if rest else value
            name = field_name(value, step)
            if name is not None:
                value = value[name]
            else:
                value = _metadata(value.get("items"), step, is_read=bool(rest))
        elif isinstance(value, (list, str)):
            if step is None:
                return [get(item, rest) for item in value] if rest else value
            if not isinstance(step, int):
                return _through_list(value, step, rest)
            value = value[step] if -len(value) <= step < len(value) else None
        else:
            return None
    return value


def _through_list(value: Any, name: str, rest: Path) -> Any:
    """A name applied to a list: an entry of key and value pairs, else the field of each element."""
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return None
    if not rest and (found := _metadata(value, name, is_read=False)) is not None:
        return found
    entry = _entry(value, name, rest[0]) if rest else None
    if entry is not None:
        return get(entry, rest)
    if name in value[0]:
        return [get(item, (name, *rest)) for item in value]
    return [item[name] for item in value if isinstance(item, dict) and item.get(name)] or None


def _metadata(items: Any, name: Step, *, is_read: bool) -> Any:
    """The value of `name` in a list of ``{"key": …, "value": …}``, read as JSON if a path goes on in it."""
    import json

    entry = _entry(items, "key", name)
    value = None if entry is None else entry.get("value")
    if is_read and isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _entry(items: Any, name: str, value: object) -> dict[str, Any] | None:
    if not isinstance(items, list):
        return None
    return next((item for item in items if isinstance(item, dict) and item.get(name) == value), None)


def field_name(document: Mapping[str, Any], name: Step) -> str | None:
    """The field called `name`, in the spelling given or in another one; None if there is none."""
    if not isinstance(name, str):
        return None
    if name in document:
        return name
    return next((other for other in other_spellings(name) if other in document), None)


@lru_cache(maxsize=256)
def other_spellings(name: str) -> tuple[str, str]:
    """camelCase and snake_case."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest), snake_case(name)


def snake_case(name: str) -> str:
    """``createTime`` as ``create_time``."""
    return re.sub(_CAPITALS, r"_\1", name).lower()
