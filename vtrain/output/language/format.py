"""gcloud's output language: ``NAME[attributes](projection):(order)``.

json                                          the whole document
value(name.basename(), state)                 columns, a tab between
table[box](name:label=ID, createTime:sort=1)  a table, by time
table(name, state):(createTime:sort=1)        the order apart from the columns

Formats may follow one another: the last name counts, and may use the labels of those before it as keys.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterator, Sequence

import msgspec

from vtrain.errors import ConfigError
from vtrain.messages.nearest import did_you_mean
from vtrain.output.language.expressions import SortKey, scan_key
from vtrain.output.language.keys import Key, Path, Step, path_text
from vtrain.output.language.scan import MOST, Scanner, is_count

PAGE = object()
"""The end of a page of ``--page-size`` among documents; only tables show it."""

EVERY = None
"""The step to every element of a list."""

UNKNOWN, INNER, KEPT = range(3)
"""Whether a node is kept: not mentioned, kept in part, kept whole."""

WITH_COLUMNS = ("csv", "get", "table", "value")
_NUMBERS = ("margin", "pad", "width")
FORMATS = (
    "config", "csv", "default", "disable", "flattened", "get", "json", "list", "multi", "none", "table",
    "text", "value", "yaml",
)  # fmt: skip
_CAPITALS = r"((?<=[a-z0-9])[A-Z]+|(?!^)[A-Z](?=[a-z]))"
_ALIGNMENTS = ("center", "left", "right")
_SWITCHES = ("optional", "reverse")
_NARROWEST = 10  # columns of a wrapped column whose width is not given
_ATTRIBUTES = ("alias", "align", "format", "label", "optional", "reverse", "sort", "width", "wrap")


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a projection, and the layout of its column.

    `order` is the column's rank among the sort columns, 0 for none. `width` is the least width, and `wrap`
    the least width of a column whose cells may take several lines, 0 for none. `format` is a nested format.
    A hidden column only sorts.
    """

    key: Key
    label: str = ""
    align: str = "left"
    order: int = 0
    width: int = 0
    wrap: int = 0
    format: Format | None = None
    is_reverse: bool = False
    is_optional: bool = False
    is_hidden: bool = False


class Node:
    """A field or an element of documents that a format names; later mentions of its key add to it.

    `given` are its attributes, `state` is the part of it that is kept, and `is_active` turns its transforms
    on. A hidden node only sorts.
    """

    def __init__(self, key: Key, state: int = UNKNOWN) -> None:
        self.key = key
        self.given: dict[str, str | bool] = {}
        self.state = state
        self.is_active = True
        self.is_hidden = False
        self.branches: dict[Step, Node] = {}

    def merge(self, other: Node) -> None:
        """Add the attributes and transforms of a later mention."""
        self.given |= other.given
        self.is_active = self.is_active or bool(other.key.calls)
        self.key = other.key if other.key.calls else msgspec.structs.replace(self.key, path=other.key.path)

    def alone(self) -> Node:
        """A separate node with the same attributes, and nothing below it."""
        twin = copy.copy(self)
        twin.given, twin.branches = dict(self.given), {}
        return twin

    def copy(self) -> Node:
        """A separate node with the same attributes, and copies of all that is below."""
        twin = self.alone()
        twin.branches = {step: branch.copy() for step, branch in self.branches.items()}
        return twin

    def forget(self) -> None:
        """Keep nothing here; what is known only gives defaults to the next projection."""
        self.state, self.is_active = UNKNOWN, self.key.is_always
        for branch in self.branches.values():
            branch.forget()

    def all(self) -> Iterator[Node]:
        """This node and those below."""
        yield self
        for branch in self.branches.values():
            yield from branch.all()

    @property
    def order(self) -> int:
        """The rank among the sort columns, 0 for none."""
        return int(self.given.get("sort") or 0)

    def column(self) -> Column:
        """The node as the printers take it."""
        given = self.given
        wrap = given.get("wrap", False)
        return Column(
            key=self.key,
            label=str(given.get("label", "")),
            align=str(given.get("align", "left")),
            order=self.order,
            width=int(given.get("width") or 0),
            wrap=_NARROWEST if wrap is True else int(wrap or 0),
            format=parse_format(str(given["format"])) if given.get("format") else None,
            is_reverse=bool(given.get("reverse")),
            is_optional=bool(given.get("optional")),
            is_hidden=self.is_hidden,
        )


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed value of ``--format``.

    An attribute removes its opposite (``heading`` and ``no-heading``); one without a value has an empty text.
    `tree` holds the keys by their paths, `aliases` the keys by their labels.
    """

    name: str
    attributes: dict[str, str] = msgspec.field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    tree: Node | None = None
    aliases: dict[str, Key] = msgspec.field(default_factory=dict)

    @property
    def order(self) -> tuple[tuple[int, bool], ...]:
        """The indices of the sort columns, most important first, each with true for descending order."""
        places = [
            (column.order or sys.maxsize, place, column.is_reverse)
            for place, column in enumerate(self.columns)
            if column.order or column.is_reverse
        ]
        return tuple((place, reverse) for _, place, reverse in sorted(places))

    def number(self, name: str, default: int) -> int:
        """An attribute that is a whole number."""
        return int(self.attributes[name]) if self.attributes.get(name) else default

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        return self.attributes.get(name, default)


def parse_format(text: str, sort_by: Sequence[SortKey] = ()) -> Format:
    """Read the value of ``--format``. Tables are ordered by the keys of ``--sort-by`` before their own.

    Raises ConfigError for an unknown format, a missing projection, or, with the position marked, for bad
    syntax, an unknown transform or an unknown key attribute. Unknown format attributes are ignored.
    """
    if text in FORMATS and text not in WITH_COLUMNS and text != "multi" and not sort_by:
        return Format(name=text)  # the most frequent ones are not worth a grammar
    return _checked(_FormatParser(Scanner(text, kind="--format")).parse(sort_by))


def _checked(fmt: Format) -> Format:
    if fmt.name not in FORMATS:
        hint = did_you_mean(fmt.name, FORMATS, otherwise=f"Use one of {', '.join(FORMATS)}.")
        raise ConfigError(f"Unknown format [{fmt.name}].", hint=hint)
    if fmt.name in WITH_COLUMNS and not fmt.columns:
        raise ConfigError(
            f"Format [{fmt.name}] requires a non-empty projection.",
            hint=f"Name the columns: {fmt.name}(name, state).",
        )
    for name in _NUMBERS:
        if not is_count(fmt.attributes.get(name) or "0"):
            raise ConfigError(
                f"Attribute {name} of {fmt.name} must be a whole number up to {MOST}.",
                hint=f"Write {name}=1.",
            )
    for column in fmt.columns:
        if fmt.name == "multi" and column.format is None:
            raise ConfigError(
                f"Format [multi] needs a format for {column.key.text}.",
                hint=f"Write {column.key.text}:format=json.",
            )
    return fmt


class _FormatParser:
    """Reads one value of ``--format``."""

    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self.name = "default"
        self.attributes: dict[str, str] = {}
        self.root = Node(Key())
        self.columns: list[Node] = []
        self.column_paths: set[Path] = set()
        self.aliases: dict[str, Node] = {}
        self.headings: set[str] = set()

    def parse(self, sort_by: Sequence[SortKey]) -> Format:
        """The format; raises ConfigError with the place marked."""
        scanner, only_order, is_named = self.scanner, False, False
        scanner.skip_spaces()
        while not scanner.at_end:
            if scanner.accept("("):
                if not only_order:
                    is_named = False
                    self.start_projection()
                self.scan_keys(only_order=only_order)
                only_order = False
            elif scanner.accept("["):
                self.scan_attributes()
            elif scanner.accept(":"):
                only_order = True
            else:
                self.scan_name()
                is_named = True
            scanner.skip_spaces()
        self.sort_by(sort_by)
        if is_named:
            self.start_projection()
        return Format(
            name=self.name,
            attributes=self.attributes,
            columns=tuple(node.column() for node in self.columns),
            tree=self.root,
            aliases={name: Key(path=node.key.path) for name, node in self.aliases.items()},
        )

    def start_projection(self) -> None:
        """Begin the columns anew; earlier projections only give labels and attributes."""
        self.root.forget()
        self.columns = []
        self.column_paths = set()

    def scan_name(self) -> None:
        start = self.scanner.position
        name = self.scanner.token(":([") or ""
        if not name.isalpha():
            raise self.scanner.error("The name of a format is expected", start)
        self.attributes = {}
        self.name = name

    def scan_attributes(self) -> None:
        while True:
            name = self.scanner.token("=,])", spaces=False)
            if name:
                value = self.scanner.token(",])", spaces=False) if self.scanner.accept("=") else ""
                opposite = name[3:] if name.startswith("no-") else f"no-{name}"
                self.attributes.pop(opposite, None)
                self.attributes[name] = (value or "").replace("\\n", "\n").replace("\\t", "\t")
            if self.scanner.demand("]"):
                return
            if not self.scanner.accept(","):
                raise self.scanner.error("A ] is expected after the attributes")

    def scan_keys(self, *, only_order: bool) -> None:
        if self.scanner.demand(")"):
            return
        ordered: list[Node] = []
        while True:
            self.scanner.skip_spaces()
            ordered += self.scan_key(only_order=only_order)
            self.scanner.skip_spaces()
            if self.scanner.demand(")"):
                break
            if not self.scanner.accept(","):
                raise self.scanner.error("A ) or a comma is expected after a key")
        self.move_orders(ordered)

    def scan_key(self, *, only_order: bool) -> list[Node]:
        """Read one key of a projection or, with `only_order`, of an order; its node if it sorts."""
        new = Node(scan_key(self.scanner, self.key_called))
        self.scanner.skip_spaces()
        while self.scanner.accept(":"):
            self.scan_key_attribute(new)
        return self.add(new, only_order=only_order)

    def key_called(self, alias: str) -> Key | None:
        """The key with that label or alias."""
        return self.aliases[alias].key if alias in self.aliases else None

    def scan_key_attribute(self, node: Node) -> None:
        start = self.scanner.position
        name = self.scanner.token("=:,)", spaces=False) or ""
        value: str | bool = not name.startswith("no-")
        if self.scanner.accept("="):
            value = self.scanner.token(":,)", spaces=False) or ""
        else:
            name = name.removeprefix("no-")
        if problem := _bad_attribute(name, value):
            raise self.scanner.error(problem, start)
        if name == "alias":
            self.aliases[str(value)] = node
        else:
            node.given[name] = value if name in _SWITCHES or name == "wrap" else value or ""

    def add(self, new: Node, *, only_order: bool) -> list[Node]:
        """Add a key to the tree and the columns; its node if an order sorts by it."""
        path = new.key.path
        parent = self.root
        for step in path[:-1]:
            parent = parent.branches.setdefault(step, Node(Key()))
            parent.state = max(parent.state, INNER)
        is_known = (path[-1] if path else "") in parent.branches
        node = self.node_below(parent, new, only_order=only_order)
        label = new.given.get("label", node.given.get("label"))
        if label is None:  # a column without a path is headed by its first transform and the arguments
            names = tuple(name for call in new.key.calls[:1] for name in (call.name, *call.arguments))
            label = self.heading(path or names)
        node.given["label"] = label
        self.aliases[str(label)] = node
        if not only_order or node.is_hidden:
            node.state = KEPT
            self.columns.append(node)
            self.column_paths.add(path)
        elif not is_known:
            node.state = UNKNOWN
        return [node] if only_order and "sort" in new.given else []

    def node_below(self, parent: Node, new: Node, *, only_order: bool) -> Node:
        """The node of a mention: the existing one of its path, or a new one."""
        path = new.key.path
        last = path[-1] if path else ""
        if last in parent.branches:
            node = parent.branches[last]
            if not only_order and path in self.column_paths:
                node = node.alone()  # another column, which is not in the tree
            node.is_hidden = node.is_hidden and only_order and bool(node.order)
        elif isinstance(last, int) and EVERY in parent.branches:
            node = parent.branches[last] = parent.branches[EVERY].copy()
        else:
            node = new
            node.is_hidden = only_order and bool(node.order)
            if path or new.key.calls:
                parent.branches[last] = node
        node.merge(new)
        return node

    def sort_by(self, keys: Sequence[SortKey]) -> None:
        """Add keys of ``--sort-by``, as the order ``:(KEY:sort=1,...)`` would; not those with transforms."""
        ordered: list[Node] = []
        for place, sort_key in enumerate(keys, start=1):
            if sort_key.key.calls:
                continue
            path = sort_key.key.path
            known = self.key_called(path[0]) if path and isinstance(path[0], str) else None
            full = msgspec.structs.replace(known, path=(*known.path, *path[1:])) if known else sort_key.key
            new = Node(full)
            new.given = {"sort": str(place)} | ({"reverse": True} if sort_key.reverse else {})
            ordered += self.add(new, only_order=True)
        self.move_orders(ordered)

    def move_orders(self, first: list[Node]) -> None:
        """Rank the keys of an order before those of earlier orders."""
        ordered = set(first)
        for node in self.root.all() if first else ():
            if node.order and node not in ordered:
                node.given["sort"] = str(node.order + len(first))

    def heading(self, path: Path) -> str:
        """The last name in UPPER_SNAKE, with as many parents before it as make it unique."""
        label = ""
        for step in reversed(path):
            if isinstance(step, str):
                name = re.sub(_CAPITALS, r"_\1", step).upper()
                label = f"{name}_{label}" if label else name
                if label not in self.headings:
                    self.headings.add(label)
                    break
        return label


def _bad_attribute(name: str, value: str | bool) -> str:
    if name not in _ATTRIBUTES:
        return f"There is no key attribute {name or path_text(())}"
    if name in _SWITCHES:
        return "" if isinstance(value, bool) else f"Key attribute {name} takes no value"
    if isinstance(value, bool):
        return "" if name == "wrap" else f"Key attribute {name} needs a value"
    if name == "align" and value not in _ALIGNMENTS:
        return f"align must be one of {', '.join(_ALIGNMENTS)}"
    if name in ("sort", "width", "wrap") and not is_count(value):
        return f"{name} must be a whole number up to {MOST}"
    return "An alias needs a name" if name == "alias" and not value else ""
