"""Files and folders that are published in one step and last: readers find the old one, the new one, or none.

The content is written beside its place under a temporary name, handed to the disk (fsync), and renamed; then
the folder is handed to the disk too. A full disk leaves what was there; a crash leaves at most a temporary
name that begins with `UNPUBLISHED`. A removal begins with a rename, so that nobody finds a part of a folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vtrain.privacy import FILE_MODE, FOLDER_MODE, home_label

UNPUBLISHED = ".unpublished-"
"""The prefix of temporary names; garbage collection removes those that a crash has left."""
GONE = ".gone-"
"""The prefix of names that are being removed; any process may finish the removal."""
SCRATCH = "vtrain-build-"
"""The prefix of scratch folders below the system's temporary folder."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NOT_SYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES)
"""Errors of file systems that do not flush folders."""


def publish_file(target: Path, content: bytes, mode: int = FILE_MODE) -> None:
    """Write a file, or replace it, in one step. Raises OSError."""
    with publishing_file(target, mode) as temporary:
        temporary.write_bytes(content)


@contextmanager
def publishing_file(target: Path, mode: int | None = FILE_MODE) -> Iterator[Path]:
    """An empty file to write to by its path; at the end of the block it takes the target's place.

    An error in the block, or at its end, leaves the target as it was. Without a mode the umask decides.
    Raises OSError.
    """
    temporary = _temporary(target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = -1
    try:
        descriptor = os.open(temporary, flags, 0o666 if mode is None else FILE_MODE)
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # garbage collection leaves alone what is locked
        yield temporary
        if mode is not None:
            os.fchmod(descriptor, mode)  # the umask does not count
        os.fsync(descriptor)
        os.replace(temporary, target)  # noqa: PTH105 - tests stop the process here
    except BaseException:
        with suppress(OSError):  # the first error is the one to tell
            temporary.unlink()
        raise
    finally:
        if descriptor != -1:
            os.close(descriptor)
    sync_folder(target.parent)


@contextmanager
def publishing_folder(target: Path) -> Iterator[Path]:
    """An empty private folder to fill; at the end of the block it takes the target's place, where none is.

    Raises FileExistsError where somebody else was faster, and OSError.
    """
    temporary = _temporary(target)
    try:
        temporary.mkdir(mode=FOLDER_MODE)
        with holding(temporary):
            yield temporary
            for folder, _, names in os.walk(temporary):
                for name in names:
                    sync_file(Path(folder, name))
                sync_folder(Path(folder))
            _rename_folder(temporary, target)
    except BaseException:
        with suppress(OSError):
            clear(temporary)
        raise
    sync_folder(target.parent)


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Hold the lock of a file or folder alone; a process that dies lets it go. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether a process holds the lock of a file or folder: it works there. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def scratch_folder(home: Path) -> Iterator[Path]:
    """A temporary folder whose name tells the home that it serves; its lock is held up to its end."""
    import tempfile

    folder = Path(tempfile.gettempdir(), f"{SCRATCH}{home_label(home)}-{os.urandom(6).hex()}")
    try:
        folder.mkdir(mode=FOLDER_MODE)
        with holding(folder):
            yield folder
        clear(folder)
    except BaseException:  # also of a signal while it was cleared
        clear(folder)
        raise


def _temporary(target: Path) -> Path:
    """A name that is known before anything bears it: an interrupt may come right after that."""
    return target.with_name(f"{UNPUBLISHED}{os.getpid()}-{os.urandom(6).hex()}")


MOST_ROUNDS = 100
"""How often a removal begins again that meets another one: a program that goes on writing there ends it."""


def sync_folder(folder: Path) -> None:
    """Hand the names in a folder to the disk, where the file system does that. Raises OSError."""
    try:
        sync_file(folder)
    except OSError as error:
        if error.errno not in NOT_SYNCED:
            raise


def sync_file(path: Path) -> None:
    """Hand the content of a file or folder to the disk. Raises OSError."""
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


def remove_folder(folder: Path) -> None:
    """Remove a folder, if it is there; somebody else may be doing the same. Raises OSError."""
    clear(set_aside(folder))


def set_aside(folder: Path) -> Path:
    """Rename a folder or file, so that nobody finds a part of it; its name from now on. Raises OSError."""
    gone = folder.with_name(f"{GONE}{folder.name}")
    clear(gone)
    with suppress(FileNotFoundError):
        folder.rename(gone)
    return gone


def clear(gone: Path) -> None:
    """Remove from the disk what was set aside; another process may be doing the same. Raises OSError."""
    rounds = 0
    while gone.exists() or gone.is_symlink():
        rounds += 1
        try:
            if gone.is_dir() and not gone.is_symlink():
                empty_folder(gone)
                gone.rmdir()
            else:
                gone.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:  # the other one has moved a folder up, where this one had looked already
            if error.errno != errno.ENOTEMPTY or rounds == MOST_ROUNDS:
                raise


def empty_folder(top: Path | str, above: int | None = None) -> None:
    """Remove what is in a folder, maybe in the open one `above`, whatever its mode; follows no link.

    Folders in folders are moved up to the top first. However deep they are nested, neither Python's stack,
    nor descriptors, nor the length of a path come to an end, as with `shutil.rmtree`. Raises OSError.
    """
    _open_up(str(top), above)
    root = os.open(top, _FOLDER, dir_fd=above)
    try:
        left = _hollow(root, ".")
        while left:
            name = left.pop()
            left += _hollow(root, name)
            os.rmdir(name, dir_fd=root)
    finally:
        os.close(root)


def _hollow(root: int, name: str) -> list[str]:
    """Remove the files of a folder in `root`, and move its folders to `root`; their names there."""
    moved = []
    folder = os.open(name, _FOLDER, dir_fd=root)
    try:
        for entry in os.listdir(folder):  # noqa: PTH208 - an open folder
            mode = os.stat(entry, dir_fd=folder, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(mode):
                os.unlink(entry, dir_fd=folder)
                continue
            with suppress(OSError):
                os.rmdir(entry, dir_fd=folder)
                continue
            if mode & FOLDER_MODE != FOLDER_MODE:
                _open_up(entry, folder)
            moved.append(os.urandom(8).hex())
            os.rename(entry, moved[-1], src_dir_fd=folder, dst_dir_fd=root)
    finally:
        os.close(folder)
    return moved


def _open_up(name: str, above: int | None) -> None:
    """Give the owner of a folder all rights to it, also where nobody may read it; never through a link."""
    with suppress(PermissionError, NotADirectoryError):  # another user's, or a link by now: the removal fails
        if not hasattr(os, "O_PATH"):
            os.chmod(name, FOLDER_MODE, dir_fd=above, follow_symlinks=False)
            return
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=above)
        try:
            Path(f"/proc/self/fd/{descriptor}").chmod(FOLDER_MODE)
        finally:
            os.close(descriptor)


def discard(path: Path) -> None:
    """Remove a file, if it is there; a folder in its place is renamed. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        rename_damaged(path)
    path.unlink(missing_ok=True)


def rename_damaged(path: Path) -> None:
    """Rename what stands where a file belongs, so that it can be looked at. Raises OSError."""
    path.rename(path.with_name(f"{path.name}.damaged-{time.time_ns()}"))
