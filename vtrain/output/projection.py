"""gcloud's output language: ``NAME[attributes](projection):(order)``.

json                                          the whole document
value(name.basename(), state)                 columns, a tab between
table[box](name:label=ID, createTime:sort=1)  a table, by time
csv(name, state):(~createTime)                the order apart from the columns
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from vtrain.errors import ConfigError
from vtrain.output.keys import Key, Scanner, scan_key

if TYPE_CHECKING:
    from vtrain.output.ordering import SortKey

_TREES = ("default", "flattened", "json", "text", "yaml")
_LINES = ("csv", "get", "list", "table", "value")
FORMATS = tuple(sorted((*_TREES, *_LINES, "disable", "none")))
_WITH_COLUMNS = ("csv", "get", "table", "value")
_KEY_ATTRIBUTES = ("alias", "align", "format", "label", "optional", "reverse", "sort", "width", "wrap")
_ALIGNMENTS = ("center", "left", "right")
_WORD = re.compile(r"[A-Za-z][\w-]*")

Attributes = dict[str, str | bool]


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """A format as the user asked for it.

    An attribute without a value is True, one that starts with ``no-`` is False under the rest of its name.
    """

    name: str
    attributes: Attributes = msgspec.field(default_factory=dict)
    keys: tuple[Key, ...] = ()
    order: tuple[SortKey, ...] = ()


def parse_format(text: str) -> Format:
    """Read the value of ``--format``.

    Raises ConfigError for an unknown format, a missing projection, or, with the position marked, for bad
    syntax, an unknown transform or an unknown key attribute. Unknown format attributes are ignored.
    """
    scanner = Scanner(text, kind="--format")
    scanner.skip_spaces()
    name = _scan_name(scanner)
    attributes: Attributes = {}
    keys: tuple[Key, ...] = ()
    order: tuple[Key, ...] = ()
    while scanner.peek():
        if scanner.accept("["):
            attributes.update(_scan_attributes(scanner))
        elif scanner.accept("("):
            keys = _scan_keys(scanner)
        elif scanner.accept(":"):
            scanner.expect("(")
            order = _scan_keys(scanner, reversible=True)
        else:
            raise scanner.error("Unexpected tokens after the format")
    if name in _WITH_COLUMNS and not keys:
        raise ConfigError(
            f"Format [{name}] requires a non-empty projection.",
            hint=f"Name the columns: {name}(name, state).",
        )
    return Format(name=name, attributes=attributes, keys=keys, order=_order(keys, order))


def _scan_name(scanner: Scanner) -> str:
    found = scanner.match(_WORD)
    name = found[0] if found else ""
    if name not in FORMATS:
        raise ConfigError(
            f"Unknown format [{name or scanner.text}].", hint=f"Use one of {', '.join(FORMATS)}."
        )
    return name


def _scan_attributes(scanner: Scanner) -> Attributes:
    attributes: Attributes = {}
    while scanner.peek() != "]":
        name = scanner.until(",]=")
        if scanner.accept("="):
            attributes[name] = scanner.until(",]")
        else:
            attributes[name.removeprefix("no-")] = not name.startswith("no-")
        if not scanner.accept(",") and scanner.peek() != "]":
            raise scanner.error(
                "Expected ] after the attributes" if scanner.peek() else "More tokens expected"
            )
    scanner.position += 1
    return attributes


def _scan_keys(scanner: Scanner, *, reversible: bool = False) -> tuple[Key, ...]:
    keys: list[Key] = []
    if scanner.accept(")"):
        return ()
    while True:
        reverse = reversible and scanner.accept("~")
        scanner.skip_spaces()
        key = scan_key(scanner)
        attributes = _scan_key_attributes(scanner) | ({"reverse": True} if reverse else {})
        keys.append(Key(path=key.path, calls=key.calls, attributes=attributes))
        if scanner.accept(")"):
            return tuple(keys)
        if not scanner.accept(","):
            problem = "Expected ) in projection expression" if scanner.peek() else "More tokens expected"
            raise scanner.error(problem)
        scanner.skip_spaces()


def _scan_key_attributes(scanner: Scanner) -> Attributes:
    attributes: Attributes = {}
    while scanner.accept(":"):
        start = scanner.position
        word = scanner.match(_WORD)
        name = word[0].removeprefix("no-") if word else ""
        if not word or name not in _KEY_ATTRIBUTES:
            raise scanner.error("Unknown key attribute", start)
        value: str | bool = scanner.until(":,)") if scanner.accept("=") else name == word[0]
        if problem := _bad_attribute(name, value):
            raise scanner.error(problem, start)
        attributes[name] = value
    return attributes


def _bad_attribute(name: str, value: str | bool) -> str:
    if name == "align" and value not in _ALIGNMENTS:
        return f"align must be one of {', '.join(_ALIGNMENTS)}"
    if name in ("sort", "width") and not str(value).isdecimal():
        return f"{name} must be a whole number"
    return ""


def _order(keys: tuple[Key, ...], order: tuple[Key, ...]) -> tuple[SortKey, ...]:
    if not order and not any("sort" in key.attributes for key in keys):
        return ()
    from vtrain.output.ordering import SortKey

    numbered = [key for key in (*keys, *order) if "sort" in key.attributes]
    numbered.sort(key=lambda key: int(key.attributes["sort"]))
    rest = [key for key in order if "sort" not in key.attributes]
    return tuple(SortKey(key=key, reverse=bool(key.attributes.get("reverse"))) for key in (*numbered, *rest))


def render(document: object, fmt: Format) -> str:
    """One resource as text, each line ended."""
    from vtrain.output.printers import print_one

    return print_one(document, fmt)


def render_list(documents: Iterable[object], fmt: Format) -> Iterator[str]:
    """A list of resources as chunks of text, each as soon as it is known.

    An order or a table needs all the documents first; ``disable`` asks for none.
    """
    from vtrain.output.printers import print_many

    if fmt.order:
        from vtrain.output.ordering import sort_documents

        documents = sort_documents(documents, fmt.order, numeric=fmt.name == "table")
    return print_many(documents, fmt)
