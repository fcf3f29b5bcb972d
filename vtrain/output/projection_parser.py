"""Reads a format into its columns and its tree of keys."""

from __future__ import annotations

import re

import msgspec

from vtrain.output.format import Column, Format
from vtrain.output.keys import Key, Path, path_text, scan_key
from vtrain.output.scanner import Scanner
from vtrain.output.tree import EVERY, INNER, KEPT, UNKNOWN, Node

_CAPITALS = re.compile(r"((?<=[a-z0-9])[A-Z]+|(?!^)[A-Z](?=[a-z]))")
_ALIGNMENTS = ("center", "left", "right")
_SWITCHES = ("optional", "reverse")
_NARROWEST = 10  # columns of a wrapped column whose width is not given
_ATTRIBUTES = ("alias", "align", "format", "label", "optional", "reverse", "sort", "width", "wrap")


class Entry:
    """A key as it is being read: what later mentions of it add is kept here."""

    def __init__(self, key: Key, level: int) -> None:
        self.key = key
        self.level = level
        self.state = UNKNOWN
        self.is_hidden = False
        self.given: dict[str, str | bool] = {}

    def merge(self, other: Entry) -> None:
        """Take over what a later mention says."""
        self.given |= other.given
        if other.key.calls:
            self.key = msgspec.structs.replace(self.key, calls=other.key.calls, is_always=other.key.is_always)
            self.level = other.level

    def copy(self) -> Entry:
        """An entry of its own for a column that stands twice."""
        twin = Entry(self.key, self.level)
        twin.given, twin.state, twin.is_hidden = dict(self.given), self.state, self.is_hidden
        return twin

    @property
    def order(self) -> int:
        return int(self.given.get("sort") or 0)

    def column(self, path: Path) -> Column:
        """What the printers get."""
        given = self.given
        wrap = given.get("wrap", False)
        return Column(
            key=msgspec.structs.replace(self.key, path=path),
            label=str(given.get("label", "")),
            align=str(given.get("align", "left")),
            order=self.order,
            width=int(given.get("width") or 0),
            wrap=_NARROWEST if wrap is True else int(wrap or 0),
            format=str(given.get("format", "")),
            is_reverse=bool(given.get("reverse")),
            is_optional=bool(given.get("optional")),
            is_hidden=self.is_hidden,
        )


class Branch:
    """A place in the tree as it is being made."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.branches: dict[str | int | None, Branch] = {}

    def copy(self) -> Branch:
        twin = Branch(self.entry.copy())
        twin.branches = {step: branch.copy() for step, branch in self.branches.items()}
        return twin

    def forget(self) -> None:
        """What stands here so far only gives defaults to the next projection."""
        self.entry.state = UNKNOWN
        for branch in self.branches.values():
            branch.forget()

    def entries(self) -> list[Entry]:
        """Those at this place and below."""
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
        self.root = Branch(Entry(Key(), 0))
        self.columns: list[tuple[Path, Entry]] = []
        self.aliases: dict[str, tuple[Path, Entry]] = {}
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
        """What was read before gives labels and attributes, and no columns."""
        self.root.forget()
        self.columns = []
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
        ordered: list[Entry] = []
        while True:
            self.scanner.skip_spaces()
            ordered += self.scan_key(only_order=only_order)
            self.scanner.skip_spaces()
            if self.scanner.demand(")"):
                break
            if not self.scanner.accept(","):
                raise self.scanner.error("A ) or a comma is expected after a key")
        self.move_orders(ordered)

    def scan_key(self, *, only_order: bool) -> list[Entry]:
        """Read one key of a projection or, with `only_order`, of an order; its entry if it gives a place."""
        aliases = {
            name: msgspec.structs.replace(entry.key, path=path)
            for name, (path, entry) in self.aliases.items()
        }
        key = scan_key(self.scanner, aliases)
        entry = Entry(key, self.level)
        self.scanner.skip_spaces()
        while self.scanner.accept(":"):
            self.scan_key_attribute(key.path, entry)
        return self.add(key.path, entry, only_order=only_order)

    def scan_key_attribute(self, path: Path, entry: Entry) -> None:
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

    def add(self, path: Path, new: Entry, *, only_order: bool) -> list[Entry]:
        """Put a key in its place; its entry if an order gives it one."""
        branch = self.root
        for step in path[:-1]:
            branch = branch.branches.setdefault(step, Branch(Entry(Key(), self.level)))
            branch.entry.state = max(branch.entry.state, INNER)
        last = path[-1] if path else ""
        is_known = last in branch.branches
        entry = self.entry_at(branch, path, new, only_order=only_order)
        label = new.given.get("label", entry.given.get("label"))
        entry.given["label"] = self.heading(path or _call_names(new.key)) if label is None else label
        self.aliases[str(entry.given["label"])] = (path, entry)
        if not only_order or entry.is_hidden:
            entry.state = KEPT
            self.columns.append((path, entry))
        elif not is_known:
            entry.state = UNKNOWN
        return [entry] if only_order and "sort" in new.given else []

    def entry_at(self, branch: Branch, path: Path, new: Entry, *, only_order: bool) -> Entry:
        """The entry that a mention of `path` means: the one that is there, or a new one."""
        last = path[-1] if path else ""
        if last in branch.branches:
            entry = branch.branches[last].entry
            if not only_order and any(path == known for known, _ in self.columns):
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

    def move_orders(self, first: list[Entry]) -> None:
        """Let the keys of an order go before those that were sorted by already."""
        for entry in self.root.entries() if first else ():
            if entry.order and entry not in first:
                entry.given["sort"] = str(entry.order + len(first))

    def heading(self, path: Path) -> str:
        """The last name in UPPER_SNAKE, after as many parents as tell it from the others."""
        label = ""
        for step in reversed(path):
            if isinstance(step, str):
                name = _CAPITALS.sub(r"_\1", step).upper()
                label = f"{name}_{label}" if label else name
                if label not in self.headings:
                    self.headings.add(label)
                    break
        return label


def _call_names(key: Key) -> Path:
    """What the heading of a column is made of that has no path: its first transform and the arguments."""
    return tuple(name for call in key.calls[:1] for name in (call.name, *call.arguments))


def _bad_attribute(name: str, value: str | bool) -> str:
    if name not in _ATTRIBUTES:
        return f"There is no key attribute {name or path_text(())}"
    if name in _SWITCHES:
        return "" if isinstance(value, bool) else f"Key attribute {name} takes no value"
    if isinstance(value, bool):
        return "" if name == "wrap" else f"Key attribute {name} needs a value"
    if name == "align" and value not in _ALIGNMENTS:
        return f"align must be one of {', '.join(_ALIGNMENTS)}"
    if name in ("sort", "width", "wrap") and not value.isdecimal():
        return f"{name} must be a whole number"
    return "An alias needs a name" if name == "alias" and not value else ""
