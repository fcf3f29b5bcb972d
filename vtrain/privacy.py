"""The permissions of vtrain's home: for its owner alone, whatever the umask, and repaired if needed."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from vtrain.digests import content_digest
from vtrain.errors import HomeError

FOLDER_MODE = 0o700
FILE_MODE = 0o600
OWN = frozenset("buckets environments jobs logs packages storage store.db store.db-shm store.db-wal".split())
"""The names of vtrain's files and folders in its home."""
_OTHERS = 0o077
_OTHERS_WRITE = 0o022


def make_private(folder: Path) -> None:
    """Make a folder, and its missing parents, for the caller only. Raises OSError."""
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=FOLDER_MODE, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def secure_home(home: Path) -> None:
    """Make vtrain's home if it is missing; remove the permissions of others from an existing one.

    A folder with other files keeps its mode, and only vtrain's files in it are closed to others. Raises
    HomeError for a home of another user (whose jobs would run with our rights), and for one that others can
    still write to; OSError where the disk refuses.
    """
    make_private(home)
    found = home.stat()
    if found.st_uid != os.geteuid():
        raise HomeError(
            f"{home} belongs to another user (uid {found.st_uid}), and vtrain uses only its own user's home.",
            hint="Choose another folder with VTRAIN_HOME.",
        )
    if found.st_mode & _OTHERS:
        _close_home(home, found.st_mode)
    for name in OWN:
        close_to_others(home / name)


def _close_home(home: Path, mode: int) -> None:
    names = {entry.name for entry in os.scandir(home)}
    if not mode & stat.S_ISVTX and (names <= OWN or "store.db" in names):
        close_to_others(home.resolve())
    if home.stat().st_mode & _OTHERS_WRITE and not os.statvfs(home).f_flag & os.ST_RDONLY:
        raise HomeError(
            f"Other users can write to {home}.",
            hint="Choose a folder of your own with VTRAIN_HOME, on a file system that keeps modes.",
        )


def home_label(home: Path) -> str:
    """A short name of a home, in labels and in names of temporary folders: 16 hexadecimal digits."""
    return content_digest(os.fsencode(os.path.realpath(home)))[:16]


def close_to_others(path: Path) -> None:
    """Remove the permissions of group and others from a file or folder; follows no link.

    A file on a read-only file system, of another user (a container's), or gone meanwhile stays unchanged.
    """
    try:
        mode = path.lstat().st_mode
        if mode & _OTHERS and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EPERM, errno.ENOENT):
            raise
