"""Pages of object names: prefixes, delimiters, offsets and globs.

A client chooses the glob, so the time of a match grows with the length of the name only.
"""

from __future__ import annotations

import base64
import binascii
import re
import sys
from collections.abc import Callable, Iterable, Iterator

import msgspec

from vtrain.emulator.storage.storage_refusals import StorageRefusal, invalid

LONGEST_GLOB = 1024
"""Characters, which are as many as an object's name has bytes."""
MOST_STEPS = 10_000
"""Steps that are remembered from one character to the next."""
_TOKEN = re.compile(r"\*\*/?|\*|\?|\[[^\]]*\]|\{|\}|,|\\.|.", re.DOTALL)

Test = Callable[[str], bool]


class Glob:
    """A glob: `*` and `?` within a folder, `**` across, `[a-z]`, `{a,b}`. Raises StorageRefusal.

    It is an automaton: a set of states, which each character of a name takes to another set.
    """

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST_GLOB:
            raise invalid(f"matchGlob: a glob has at most {LONGEST_GLOB} characters.")
        self._free: list[list[int]] = [[]]
        self._moves: list[list[tuple[Test, int]]] = [[]]
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._end = self._read(text)
        self._start = self._reachable({0})

    def matches(self, name: str) -> bool:
        """Whether the glob stands for this name."""
        states = self._start
        for letter in name:
            states = self._step(states, letter)
            if not states:
                return False
        return self._end in states

    def _step(self, states: frozenset[int], letter: str) -> frozenset[int]:
        found = self._steps.get((states, letter))
        if found is None:
            moves = (move for state in states for move in self._moves[state])
            found = self._reachable({target for test, target in moves if test(letter)})
            if len(self._steps) >= MOST_STEPS:
                self._steps.clear()
            self._steps[states, letter] = found
        return found

    def _reachable(self, states: set[int]) -> frozenset[int]:
        """These states, and those that need no character."""
        found, open_states = set(states), list(states)
        while open_states:
            fresh = [target for target in self._free[open_states.pop()] if target not in found]
            found.update(fresh)
            open_states += fresh
        return frozenset(found)

    def _read(self, text: str) -> int:
        """Make the states of a glob; the last of them."""
        state, braces = 0, list[tuple[int, int]]()
        for token in _TOKEN.findall(text):
            if token == "{":
                braces.append((state, self._add()))
                state = self._add(free_from=state)
            elif token == "}" and braces:
                self._free[state].append(braces[-1][1])
                state = braces.pop()[1]
            elif token == "," and braces:
                self._free[state].append(braces[-1][1])
                state = self._add(free_from=braces[-1][0])
            elif token == "}":
                raise _bad(text)
            elif token in ("*", "**", "**/"):
                state = self._repeat(state, token)
            else:
                target = self._add()
                self._moves[state].append((_test(token, text), target))
                state = target
        if braces:
            raise _bad(text)
        return state

    def _repeat(self, state: int, token: str) -> int:
        """The state behind any number of characters; with `**/` they are none, or end with a slash."""
        loop = self._add(free_from=state)
        self._moves[loop].append((_not_slash if token == "*" else _any, loop))
        if token != "**/":
            return loop
        behind = self._add(free_from=state)
        self._moves[loop].append(("/".__eq__, behind))
        return behind

    def _add(self, free_from: int | None = None) -> int:
        self._free.append([])
        self._moves.append([])
        if free_from is not None:
            self._free[free_from].append(len(self._free) - 1)
        return len(self._free) - 1


def _any(_letter: str) -> bool:
    return True


def _not_slash(letter: str) -> bool:
    return letter != "/"


def _test(token: str, glob: str) -> Test:
    if token == "?":
        return _not_slash
    if token.startswith("[") and len(token) > 1:
        return _class_test(token[1:-1], glob)
    return token[-1].__eq__


def _class_test(inner: str, glob: str) -> Test:
    """The test of `[a-cx]`, and of `[!a-cx]`, which stands for any other character."""
    negated = inner.startswith("!")
    inner = inner.removeprefix("!")
    spans = re.findall(r"(.)-(.)|(.)", inner, re.DOTALL)
    ranges = [(single or first, single or last) for first, last, single in spans]
    if not ranges or any(first > last for first, last in ranges):
        raise _bad(glob)
    return lambda letter: negated != any(first <= letter <= last for first, last in ranges)


def _bad(glob: str) -> StorageRefusal:
    return invalid(f"matchGlob: {glob!r} is not a glob.")


MOST_RESULTS = 1000
"""Results on one page, if the client asks for no fewer."""
_ITEM, _PREFIX = "i", "p"
_FIRST_SURROGATE, _LAST_SURROGATE = 0xD800, 0xDFFF


class Position:
    """The name from which on names are wanted. It moves on while they are read."""

    def __init__(self, start: str) -> None:
        self.start = start

    def reaches(self, place: str) -> bool:
        """Whether a name, or one below a folder, is not before it. A folder is empty, or ends in `/`."""
        return place >= self.start or (place[-1:] in ("", "/") and self.start.startswith(place))


Names = Callable[[Position], Iterable[str]]
"""The names from a position on, in the order of the service: that of UTF-8, and so that of code points."""


class ObjectSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The names that a client asks for. `start` is included, `end` is not."""

    prefix: str = ""
    delimiter: str = ""
    start: str = ""
    end: str = ""
    glob: str = ""
    trailing: bool = False
    limit: int = MOST_RESULTS
    token: str = ""


class NamePage(msgspec.Struct, frozen=True, kw_only=True):
    """One page: names, prefixes that stand for several, and the token of the next; empty at the end."""

    names: tuple[str, ...]
    prefixes: tuple[str, ...]
    token: str


def select(names: Names, selection: ObjectSelection) -> NamePage:
    """The page of a selection. Raises StorageRefusal for a page token or a glob that cannot be read."""
    key, kind = last = _read_token(selection.token)
    start = max(selection.start, selection.prefix, _behind(key) if kind == _PREFIX else key)
    limit = min(max(selection.limit, 1), MOST_RESULTS)
    entries: list[tuple[str, str]] = []
    for entry in _entries(names, selection, start):
        if entry > last:
            if len(entries) == limit:
                return _page(entries, _write_token(last))
            entries.append(entry)
            last = entry
    return _page(entries, "")


def _page(entries: list[tuple[str, str]], token: str) -> NamePage:
    return NamePage(
        names=tuple(key for key, kind in entries if kind == _ITEM),
        prefixes=tuple(key for key, kind in entries if kind == _PREFIX),
        token=token,
    )


def _entries(names: Names, selection: ObjectSelection, start: str) -> Iterator[tuple[str, str]]:
    """Each selected name by itself, or by what it has up to the first delimiter behind the prefix; in order.

    The other names with the same beginning are not asked for.
    """
    glob, prefix, delimiter = selection.glob and Glob(selection.glob), selection.prefix, selection.delimiter
    position = Position(start)
    for name in names(position):
        if selection.end and name >= selection.end:
            return
        if name < position.start or not name.startswith(prefix) or (glob and not glob.matches(name)):
            continue
        cut = name.find(delimiter, len(prefix)) if delimiter else -1
        group = name[: cut + len(delimiter)]
        if cut < 0 or (selection.trailing and group == name):
            yield name, _ITEM
        if cut >= 0:
            yield group, _PREFIX
            position.start = _behind(group)


def _behind(group: str) -> str:
    """The first text, in the order of code points, behind all that begin with this one."""
    shorter = group.rstrip(chr(sys.maxunicode))
    if not shorter:
        return group + chr(sys.maxunicode)
    following = ord(shorter[-1]) + 1
    return shorter[:-1] + chr(following if following != _FIRST_SURROGATE else _LAST_SURROGATE + 1)


def _write_token(entry: tuple[str, str]) -> str:
    key, kind = entry
    return base64.urlsafe_b64encode(f"{kind}{key}".encode()).decode()


def _read_token(token: str) -> tuple[str, str]:
    try:
        text = base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        text = ""
    if token and (text[:1] not in (_ITEM, _PREFIX) or not text[1:]):
        raise invalid(f"{token!r} is no page token.")
    return text[1:], text[:1]
