"""Installed files that environments share: one file on the disk for all that have the same content.

    environments/files/<2 digits>/<digest>     each also linked into the environments that hold it

They are read-only, and so are the folders that hold them: a trainer that writes there fails, unless it is
root. What root has written shows in the file's time; such a file is not linked to again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from vtrain.digests import file_digest
from vtrain.privacy import make_private

_STAMP = 315_532_800
"""The modification time of every shared file, 1980-01-01: any other one tells of a change."""
_READ = 0o444
_EXECUTE = 0o111
_FOLDER = 0o555
_COMPILED = "__pycache__"


def seal(environment: Path, store: Path) -> None:
    """Share what is installed in an environment, and let nobody write to it. Raises OSError."""
    for top in (environment / "lib", environment / "bin", environment / "share", environment / "etc"):
        for folder, _, names in os.walk(top, topdown=False):
            if os.path.basename(folder) == _COMPILED:  # noqa: PTH119 - of thousands of folders
                continue
            for name in names:
                _share(os.path.join(folder, name), store)  # noqa: PTH118
            if any(name.endswith(".py") for name in names):
                # Python keeps compiled modules here; without them every start would compile again.
                Path(folder, _COMPILED).mkdir(exist_ok=True)
            os.chmod(folder, _FOLDER)  # noqa: PTH101


def _share(path: str, store: Path) -> None:
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode):
        return
    mode = _READ | (found.st_mode & _EXECUTE)
    if found.st_size:
        digest = file_digest(Path(path))
        shared = store / digest[:2] / f"{digest[2:]}{'x' if mode & _EXECUTE else ''}"
        if _is_sound(shared, found.st_size) and _linked(shared, path):
            return
    os.chmod(path, mode)  # noqa: PTH101
    os.utime(path, (_STAMP, _STAMP))
    if found.st_size:
        _offer(path, shared)


def _is_sound(shared: Path, size: int) -> bool:
    try:
        found = shared.lstat()
    except FileNotFoundError:
        return False
    return found.st_size == size and found.st_mtime_ns == _STAMP * 10**9


def _linked(shared: Path, path: str) -> bool:
    """Put a link to the shared file in a file's place; False where that cannot be."""
    aside = f"{path}.vtrain"
    # A rename that replaced the file would have ext4 write the shared one out, and wait for that.
    os.rename(path, aside)  # noqa: PTH104
    try:
        os.link(shared, path)
    except OSError:  # removed meanwhile, or linked too often for this file system
        os.rename(aside, path)  # noqa: PTH104
        return False
    os.unlink(aside)  # noqa: PTH108
    return True


def _offer(path: str, shared: Path) -> None:
    """Let other environments share a file; a changed one in its place stays for those that hold it."""
    make_private(shared.parent)
    with suppress(FileNotFoundError):
        shared.unlink()
    with suppress(OSError):  # a file system without links, or another process was faster
        os.link(path, shared)


def unshared(store: Path) -> Iterator[Path]:
    """The files that no environment holds any more."""
    for folder in store.glob("[0-9a-f][0-9a-f]"):
        with os.scandir(folder) as entries:
            yield from (
                Path(entry.path) for entry in entries if entry.stat(follow_symlinks=False).st_nlink < 2
            )


def own_bytes(environment: Path) -> int:
    """The bytes of an environment's files; of a shared one, its part among the environments that hold it."""
    total = 0
    for folder, _, names in os.walk(environment):
        for name in names:
            with suppress(OSError):
                found = os.lstat(os.path.join(folder, name))  # noqa: PTH118
                total += found.st_size // max(found.st_nlink - 1, 1)
    return total
