"""gcloud's output language: ``NAME[attributes](projection):(order)``.

json                                          the whole document
value(name.basename(), state)                 columns, a tab between
table[box](name:label=ID, createTime:sort=1)  a table, by time
table(name, state):(createTime:sort=1)        the order apart from the columns

Formats may follow one another: the last name counts, and may use the labels of those before it as keys.
"""

from __future__ import annotations

import re

import msgspec

from vtrain.errors import ConfigError
from vtrain.messages.nearest import did_you_mean
from vtrain.output.expressions import scan_key
from vtrain.output.format import EVERY, INNER, KEPT, UNKNOWN, Column, Format, Node
from vtrain.output.keys import Key, Path, path_text
from vtrain.output.scanner import MOST, Scanner, is_count

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


def parse_format(text: str) -> Format:
    """Read the value of ``--format``.

    Raises ConfigError for an unknown format, a missing projection, or, with the position marked, for bad
    syntax, an unknown transform or an unknown key attribute. Unknown format attributes are ignored.
    """
    if text in FORMATS and text not in WITH_COLUMNS and text != "multi":
        return Format(name=text)  # the most frequent ones are not worth a grammar
    return _checked(ProjectionParser(Scanner(text, kind="--format")).parse())


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


class KeyEntry:
    """A key while it is read; later mentions of it add to it."""

    def __init__(self, key: Key, level: int) -> None:
        self.key = key
        self.level = level
        self.state = UNKNOWN
        self.is_hidden = False
        self.given: dict[str, str | bool] = {}

    def merge(self, other: KeyEntry) -> None:
        """Add the attributes and transforms of a later mention."""
        self.given |= other.given
        if other.key.calls:
            self.key = msgspec.structs.replace(self.key, calls=other.key.calls, is_always=other.key.is_always)
            self.level = other.level

    def copy(self) -> KeyEntry:
        """A separate entry for a column that is named twice."""
        twin = KeyEntry(self.key, self.level)
        twin.given, twin.state, twin.is_hidden = dict(self.given), self.state, self.is_hidden
        return twin

    @property
    def order(self) -> int:
        return int(self.given.get("sort") or 0)

    def column(self, path: Path) -> Column:
        """The entry as the printers take it."""
        given = self.given
        wrap = given.get("wrap", False)
        return Column(
            key=msgspec.structs.replace(self.key, path=path),
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


class Branch:
    """A node of the tree while it is built."""

    def __init__(self, entry: KeyEntry) -> None:
        self.entry = entry
        self.branches: dict[str | int | None, Branch] = {}

    def copy(self) -> Branch:
        twin = Branch(self.entry.copy())
        twin.branches = {step: branch.copy() for step, branch in self.branches.items()}
        return twin

    def forget(self) -> None:
        """Keep nothing here; the entries only give defaults to the next projection."""
        self.entry.state = UNKNOWN
        for branch in self.branches.values():
            branch.forget()

    def entries(self) -> list[KeyEntry]:
        """The entries of this node and of those below."""
        return [self.entry, *(entry for branch in self.branches.values() for entry in branch.entries())]

    def frozen(self, level: int) -> Node:
        entry = self.entry
        is_active = entry.key.is_always or entry.level == level
        branches = {step: branch.frozen(level) for step, branch in self.branches.items()}
        return Node(state=entry.state, calls=entry.key.calls, is_active=is_active, branches=branches)


class ProjectionParser:
    """Reads one value of ``--format``."""

    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self.name = "default"
        self.attributes: dict[str, str] = {}
        self.root = Branch(KeyEntry(Key(), 0))
        self.columns: list[tuple[Path, KeyEntry]] = []
        self.column_paths: set[Path] = set()
        self.aliases: dict[str, tuple[Path, KeyEntry]] = {}
        self.headings: set[str] = set()
        self.level = 0

    def parse(self) -> Format:
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
        if is_named:
            self.start_projection()
        return Format(
            name=self.name,
            attributes=self.attributes,
            columns=tuple(entry.column(path) for path, entry in self.columns),
            tree=self.root.frozen(self.level),
            aliases={name: Key(path=path) for name, (path, _) in self.aliases.items()},
        )

    def start_projection(self) -> None:
        """Begin the columns anew; earlier projections only give labels and attributes."""
        self.root.forget()
        self.columns = []
        self.column_paths = set()
        self.level += 1

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
        ordered: list[KeyEntry] = []
        while True:
            self.scanner.skip_spaces()
            ordered += self.scan_key(only_order=only_order)
            self.scanner.skip_spaces()
            if self.scanner.demand(")"):
                break
            if not self.scanner.accept(","):
                raise self.scanner.error("A ) or a comma is expected after a key")
        self.move_orders(ordered)

    def scan_key(self, *, only_order: bool) -> list[KeyEntry]:
        """Read one key of a projection or, with `only_order`, of an order; its entry if it sorts."""
        key = scan_key(self.scanner, self.key_called)
        entry = KeyEntry(key, self.level)
        self.scanner.skip_spaces()
        while self.scanner.accept(":"):
            self.scan_key_attribute(key.path, entry)
        return self.add(key.path, entry, only_order=only_order)

    def key_called(self, alias: str) -> Key | None:
        """The key with that label or alias."""
        path, entry = self.aliases.get(alias, ((), None))
        return msgspec.structs.replace(entry.key, path=path) if entry is not None else None

    def scan_key_attribute(self, path: Path, entry: KeyEntry) -> None:
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
            self.aliases[str(value)] = (path, entry)
        else:
            entry.given[name] = value if name in _SWITCHES or name == "wrap" else value or ""

    def add(self, path: Path, new: KeyEntry, *, only_order: bool) -> list[KeyEntry]:
        """Add a key to the tree and the columns; its entry if an order sorts by it."""
        branch = self.root
        for step in path[:-1]:
            branch = branch.branches.setdefault(step, Branch(KeyEntry(Key(), self.level)))
            branch.entry.state = max(branch.entry.state, INNER)
        last = path[-1] if path else ""
        is_known = last in branch.branches
        entry = self.entry_at(branch, path, new, only_order=only_order)
        label = new.given.get("label", entry.given.get("label"))
        if label is None:  # a column without a path is headed by its first transform and the arguments
            names = tuple(name for call in new.key.calls[:1] for name in (call.name, *call.arguments))
            label = self.heading(path or names)
        entry.given["label"] = label
        self.aliases[str(entry.given["label"])] = (path, entry)
        if not only_order or entry.is_hidden:
            entry.state = KEPT
            self.columns.append((path, entry))
            self.column_paths.add(path)
        elif not is_known:
            entry.state = UNKNOWN
        return [entry] if only_order and "sort" in new.given else []

    def entry_at(self, branch: Branch, path: Path, new: KeyEntry, *, only_order: bool) -> KeyEntry:
        """The entry of a mention of `path`: the existing one, or a new one."""
        last = path[-1] if path else ""
        if last in branch.branches:
            entry = branch.branches[last].entry
            if not only_order and path in self.column_paths:
                entry = entry.copy()
            entry.is_hidden = entry.is_hidden and only_order and bool(entry.order)
        elif isinstance(last, int) and EVERY in branch.branches:
            branch.branches[last] = branch.branches[EVERY].copy()
            entry = branch.branches[last].entry
        else:
            entry = new
            entry.is_hidden = only_order and bool(entry.order)
            if path or new.key.calls:
                branch.branches[last] = Branch(entry)
        entry.merge(new)
        return entry

    def move_orders(self, first: list[KeyEntry]) -> None:
        """Rank the keys of an order before those of earlier orders."""
        before = set(first)
        for entry in self.root.entries() if first else ():
            if entry.order and entry not in before:
                entry.given["sort"] = str(entry.order + len(first))

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
