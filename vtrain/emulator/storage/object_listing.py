"""Pages of object names: prefixes, delimiters, offsets and globs."""

from __future__ import annotations

import base64
import binascii
import re
import sys
from collections.abc import Callable, Iterable, Iterator

import msgspec

from vtrain.emulator.storage.storage_refusals import StorageRefusal, invalid
from vtrain.globs import Glob, Test, anything, not_slash

LONGEST_GLOB = 1024
"""Characters, which are as many as an object's name has bytes."""
_TOKEN = re.compile(r"\*\*/?|\*|\?|\[[^\]]*\]|\{|\}|,|\\.|.", re.DOTALL)


def read_glob(text: str) -> Glob:
    """A glob: `*` and `?` within a folder, `**` across, `[a-z]`, `{a,b}`. Raises StorageRefusal."""
    if len(text) > LONGEST_GLOB:
        raise invalid(f"matchGlob: a glob has at most {LONGEST_GLOB} characters.")
    glob = Glob()
    state, braces = 0, list[tuple[int, int]]()
    for token in _TOKEN.findall(text):
        if token == "{":
            braces.append((state, glob.state()))
            state = glob.state(free_from=state)
        elif braces and token in ("}", ","):
            before, behind = braces[-1]
            glob.join(state, behind)
            state = glob.state(free_from=before) if token == "," else braces.pop()[1]
        elif token == "}":
            raise _bad(text)
        elif token == "**/":
            state = glob.folders(state)
        elif token in ("*", "**"):
            state = glob.many(state, not_slash if token == "*" else anything)
        else:
            state = glob.one(state, _test(token, text))
    if braces:
        raise _bad(text)
    glob.end = state
    return glob


def _test(token: str, glob: str) -> Test:
    if token == "?":
        return not_slash
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
    glob = read_glob(selection.glob) if selection.glob else None
    prefix, delimiter = selection.prefix, selection.delimiter
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
