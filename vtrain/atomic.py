"""Files and folders that are published in one step and last: readers find the old one, the new one, or none.

The content is written beside its place under a temporary name, handed to the disk (fsync), and renamed; then
the folder is handed to the disk too. A full disk leaves what was there; a crash leaves at most a temporary
name that begins with `UNPUBLISHED`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vtrain.privacy import FILE_MODE, FOLDER_MODE

UNPUBLISHED = ".unpublished-"
"""The prefix of temporary names; garbage collection removes those that a crash has left."""
_NOT_SYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES)
"""Errors of file systems that do not flush folders."""


def publish_file(target: Path, content: bytes, mode: int = FILE_MODE) -> None:
    """Write a file, or replace it, in one step. Raises OSError."""
    with publishing_file(target, mode) as temporary:
        temporary.write_bytes(content)


@contextmanager
def publishing_file(target: Path, mode: int = FILE_MODE) -> Iterator[Path]:
    """An empty file to write to by its path; at the end of the block it takes the target's place.

    An error in the block, or at its end, leaves the target as it was. Raises OSError.
    """
    temporary = _temporary(target)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        os.fchmod(descriptor, mode)
        yield temporary
        _sync(temporary)
        os.replace(temporary, target)  # noqa: PTH105 - tests stop the process here
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    sync_folder(target.parent)


@contextmanager
def publishing_folder(target: Path) -> Iterator[Path]:
    """An empty private folder to fill; at the end of the block it takes the target's place, where none is.

    Raises FileExistsError where somebody else was faster, and OSError.
    """
    import shutil

    temporary = _temporary(target)
    temporary.mkdir(mode=FOLDER_MODE)
    try:
        yield temporary
        for folder, _, names in os.walk(temporary):
            for name in names:
                _sync(Path(folder, name))
            sync_folder(Path(folder))
        _rename_folder(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(target.parent)


def _temporary(target: Path) -> Path:
    return target.with_name(f"{UNPUBLISHED}{os.getpid()}-{os.urandom(6).hex()}")


def sync_folder(folder: Path) -> None:
    """Hand the names in a folder to the disk, where the file system does that. Raises OSError."""
    try:
        _sync(folder)
    except OSError as error:
        if error.errno not in _NOT_SYNCED:
            raise


def _sync(path: Path) -> None:
    if path.is_symlink():
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename_folder(temporary: Path, target: Path) -> None:
    try:
        os.rename(temporary, target)  # noqa: PTH104 - tests stop the process here
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
        raise
