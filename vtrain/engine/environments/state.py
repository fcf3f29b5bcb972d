"""The state of a folder, by which a later change of a file in it is noticed."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

_COMPILED = "__pycache__"
"""Where Python itself writes: no change of the folder."""


def state_of(folder: Path, marker: str, *, hashed: bool) -> bytes:
    """A digest of the names, types, sizes and links in a folder, and of the times or, `hashed`, the content.

    Its file `marker` is left out, and so are compiled modules. Raises OSError.
    """
    digest = hashlib.sha256(b"content" if hashed else b"times")
    top = os.fspath(folder)
    waiting = [top]
    while waiting:
        place = waiting.pop()
        with os.scandir(place) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
        digest.update(b"\0folder\0")
        for entry in entries:
            if entry.name == _COMPILED or (place == top and entry.name == marker):
                continue
            digest.update(_description(entry, hashed))
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
    return digest.hexdigest().encode()


def _description(entry: os.DirEntry[str], hashed: bool) -> bytes:
    found = entry.stat(follow_symlinks=False)
    told = os.fsencode(entry.name) + f"\0{found.st_mode:o}".encode()
    if stat.S_ISLNK(found.st_mode):
        return told + b"\0" + os.fsencode(os.readlink(entry.path)) + b"\0"  # noqa: PTH115
    if not stat.S_ISREG(found.st_mode):
        return told + b"\0"
    told += f"\0{found.st_size}\0".encode()
    if not hashed:
        return told + f"{found.st_mtime_ns}\0".encode()
    with open(entry.path, "rb", buffering=0) as file:  # noqa: PTH123
        content = hashlib.sha256()
        while block := file.read(1 << 20):
            content.update(block)
    return told + content.digest()
