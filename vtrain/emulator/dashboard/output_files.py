"""The files of a job's output: folders listed, files opened."""

from __future__ import annotations

import errno
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import msgspec

from vtrain.errors import NotFoundError
from vtrain.rooted import NOT_THERE, Found, Root
from vtrain.sizes import size_in_words

MOST_ENTRIES = 1000
"""Entries of a folder that are listed."""


class FolderEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a folder. `kind` is `folder`, `file`, or what it is instead, which cannot be opened."""

    name: str
    path: str
    kind: str
    size: str = ""
    modified: float = 0.0


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder: its entries, folders first; `is_cut` says that there are more."""

    path: str
    entries: tuple[FolderEntry, ...]
    is_cut: bool = False

    @property
    def above(self) -> list[tuple[str, str]]:
        """The folders from the first one down to this one: name and path of each."""
        parts = self.path.split("/") if self.path else []
        return [(part, "/".join(parts[: at + 1])) for at, part in enumerate(parts)]


def list_folder(root: Root, path: str) -> Folder:
    """A folder below the root. Raises NotFoundError where there is none."""
    with _found(path):
        some = root.entries(path, most=MOST_ENTRIES + 1)
    entries = [_entry(each) for each in some[:MOST_ENTRIES]]
    ordered = sorted(entries, key=lambda entry: (entry.kind != "folder", _natural(entry.name)))
    return Folder(path=path, entries=tuple(ordered), is_cut=len(some) > MOST_ENTRIES)


def _natural(name: str) -> list[tuple[int, str]]:
    """The place of a name in the order of people: `2` before `10`."""
    return [
        (int(part), part) if part.isascii() and part.isdecimal() else (-1, part)
        for part in re.split(r"([0-9]{1,18})", name)
    ]


@contextmanager
def open_file(root: Root, path: str) -> Iterator[BinaryIO]:
    """A regular file below the root, open for reading. Raises NotFoundError for anything else."""
    with _found(path), root.open(path) as file:
        yield file


def _entry(found: Found) -> FolderEntry:
    status = found.status
    kinds = ((stat.S_ISLNK, "link"), (stat.S_ISDIR, "folder"), (stat.S_ISREG, "file"))
    kind = next((name for is_kind, name in kinds if is_kind(status.st_mode)), "special")
    size = size_in_words(status.st_size) if kind == "file" else ""
    return FolderEntry(name=found.name, path=found.place, kind=kind, size=size, modified=status.st_mtime)


@contextmanager
def _found(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (*NOT_THERE, errno.EACCES):
            raise NotFoundError(f"The job's output has no {path or 'folder'} that can be opened.") from None
        raise
