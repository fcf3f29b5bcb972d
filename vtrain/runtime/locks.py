"""Locks of files: one that is held shows that a process lives, and the file has its number."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vtrain.atomic import rename_damaged

MAX_PID = 2**22


def hold_lock(path: Path) -> int | None:
    """Hold a lock and return its descriptor; None when somebody has it.

    The lock lives as long as any process has the descriptor, so it can be handed to a child.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o600)
    except IsADirectoryError:
        rename_damaged(path)
        descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:  # a file system without locks
        os.close(descriptor)
        raise
    return descriptor


def still_holds(descriptor: int, path: Path) -> bool:
    """Whether a lock is still held. Where somebody has removed its file, take the lock of a new one.

    The descriptor keeps its number. False where another process holds the lock of the new file.
    """
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return True
    lock = hold_lock(path)
    if lock is None:
        return False
    os.dup2(lock, descriptor, inheritable=False)
    os.close(lock)
    return True


@contextmanager
def closed_on_error(descriptor: int) -> Iterator[None]:
    """Release a lock where the block that it was held for fails."""
    try:
        yield
    except BaseException:
        os.close(descriptor)
        raise


def lock_holder(path: Path) -> int:
    """The process that holds the lock now; 0 when nobody does, -1 when it has not said its number yet."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return 0
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN):
            raise
        number = -1
        with suppress(OSError, ValueError):  # a folder, or another text
            number = int(os.read(descriptor, 32))
        if not 0 < number <= MAX_PID:
            return -1
        return number if _has_open(number, descriptor) else -1
    finally:
        os.close(descriptor)
    return 0


def _has_open(process: int, descriptor: int) -> bool:
    """Whether a process has that file open, as far as the kernel tells: a number can be damaged."""
    if not Path("/proc/self").exists():
        return True
    own = os.fstat(descriptor)
    with suppress(OSError):
        for link in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):  # it was closed meanwhile
                if os.path.samestat(link.stat(), own):
                    return True
    return False
