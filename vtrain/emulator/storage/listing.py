"""Pages of names: prefixes, delimiters, offsets and globs."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator

import msgspec

from vtrain.emulator.storage.glob import Glob
from vtrain.emulator.storage.refusals import invalid

MOST_RESULTS = 1000
"""Results on one page, if the client asks for no fewer."""
_ITEM, _PREFIX = "i", "p"


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which names a client asks for. `start` is included, `end` is not."""

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


def select(names: Iterable[str], selection: Selection) -> NamePage:
    """The page of a selection. Raises Refusal for a token of nobody's, and for a bad glob."""
    last = _read_token(selection.token)
    limit = min(max(selection.limit, 1), MOST_RESULTS)
    entries: list[tuple[str, str]] = []
    for entry in _entries(_matching(names, selection), selection):
        if entry <= last or entry in entries[-2:]:
            continue
        if len(entries) == limit:
            return _page(entries, _write_token(entries[-1]))
        entries.append(entry)
    return _page(entries, "")


def _page(entries: list[tuple[str, str]], token: str) -> NamePage:
    return NamePage(
        names=tuple(key for key, kind in entries if kind == _ITEM),
        prefixes=tuple(key for key, kind in entries if kind == _PREFIX),
        token=token,
    )


def _matching(names: Iterable[str], selection: Selection) -> Iterator[str]:
    """In the order of the service, which is that of UTF-8 and so that of code points."""
    glob = Glob(selection.glob) if selection.glob else None
    for name in sorted(set(names)):
        inside = name >= selection.start and (not selection.end or name < selection.end)
        if inside and name.startswith(selection.prefix) and (glob is None or glob.matches(name)):
            yield name


def _entries(names: Iterable[str], selection: Selection) -> Iterator[tuple[str, str]]:
    """Each name by itself, or by what it has up to the first delimiter behind the prefix."""
    delimiter = selection.delimiter
    for name in names:
        cut = name.find(delimiter, len(selection.prefix)) if delimiter else -1
        group = name[: cut + len(delimiter)]
        if cut < 0 or (selection.trailing and group == name):
            yield name, _ITEM
        if cut >= 0:
            yield group, _PREFIX


def _write_token(entry: tuple[str, str]) -> str:
    key, kind = entry
    return base64.urlsafe_b64encode(f"{kind}{key}".encode()).decode()


def _read_token(token: str) -> tuple[str, str]:
    try:
        text = base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise invalid(f"{token!r} is no page token.") from None
    return text[1:], text[:1]
