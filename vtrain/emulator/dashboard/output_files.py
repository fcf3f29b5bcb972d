"""The files of a job's output: folders listed, files opened. No link is followed, and nothing leads out."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec

from vtrain.errors import NotFoundError
from vtrain.sizes import size_in_words

MOST_ENTRIES = 1000
"""Entries of a folder that are listed."""
HEAD = 4096
"""Bytes by which text is told from other content."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ENAMETOOLONG, errno.ENXIO)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a folder. `kind` is `folder`, `file`, or what it is instead, which cannot be opened."""

    name: str
    path: str
    kind: str
    size: str = ""
    modified: float = 0.0


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder: its entries, folders first; `is_cut` says that there are more."""

    path: str
    entries: tuple[Entry, ...]
    is_cut: bool = False

    @property
    def above(self) -> list[tuple[str, str]]:
        """The folders from the first one down to this one: name and path of each."""
        parts = self.path.split("/") if self.path else []
        return [(part, "/".join(parts[: at + 1])) for at, part in enumerate(parts)]


def list_folder(root: Path, path: str) -> Folder:
    """A folder below the root. Raises NotFoundError where there is none."""
    with _opened(root, path, _FOLDER) as descriptor, os.scandir(descriptor) as found:
        some = list(islice(found, MOST_ENTRIES + 1))
        entries = [_entry(each, f"{path}/{each.name}" if path else each.name) for each in some[:MOST_ENTRIES]]
    ordered = sorted(entries, key=lambda entry: (entry.kind != "folder", _natural(entry.name)))
    return Folder(path=path, entries=tuple(ordered), is_cut=len(some) > MOST_ENTRIES)


def _natural(name: str) -> list[tuple[int, str]]:
    """The place of a name in the order of people: `2` before `10`."""
    return [
        (int(part), part) if part.isascii() and part.isdecimal() else (-1, part)
        for part in re.split(r"([0-9]{1,18})", name)
    ]


@contextmanager
def open_file(root: Path, path: str) -> Iterator[BinaryIO]:
    """A regular file below the root, open for reading. Raises NotFoundError for anything else."""
    with _opened(root, path, _FILE) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _missing(path)
        with open(descriptor, "rb", closefd=False) as file:
            yield file


def is_text(head: bytes) -> bool:
    """Whether the first bytes of a file are UTF-8 without control characters that no text has."""
    if b"\x00" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return len(head) == HEAD and error.start > HEAD - 4  # a character was cut at the end
    return True


def _entry(found: os.DirEntry[str], path: str) -> Entry:
    """An entry as it is now; it may go at any time."""
    try:
        status = found.stat(follow_symlinks=False)
    except OSError:
        return Entry(name=found.name, path=path, kind="gone")
    kinds = ((stat.S_ISLNK, "link"), (stat.S_ISDIR, "folder"), (stat.S_ISREG, "file"))
    kind = next((name for is_kind, name in kinds if is_kind(status.st_mode)), "special")
    size = size_in_words(status.st_size) if kind == "file" else ""
    return Entry(name=found.name, path=path, kind=kind, size=size, modified=status.st_mtime)


@contextmanager
def _opened(root: Path, path: str, flags: int) -> Iterator[int]:
    """A descriptor of what is at a path below the root: each part is opened in the one above it."""
    parts = path.split("/") if path else []
    if any(part in ("", ".", "..") or "\x00" in part for part in parts):
        raise _missing(path)
    descriptor = -1
    try:
        descriptor = os.open(root, _FOLDER & ~os.O_NOFOLLOW)  # a bucket may be a link that the user made
        for at, part in enumerate(parts):
            last = at == len(parts) - 1
            following = os.open(part, flags if last else _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = following
        yield descriptor
    except OSError as error:
        if error.errno in _NOT_THERE:
            raise _missing(path) from None
        raise
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _missing(path: str) -> NotFoundError:
    return NotFoundError(f"The job's output has no {path or 'folder'} that can be opened.")
