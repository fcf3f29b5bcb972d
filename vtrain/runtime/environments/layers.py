"""Folders that the first process to need one makes, once."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vtrain.atomic import publish_file, remove_folder, set_aside
from vtrain.errors import VtrainError
from vtrain.privacy import FOLDER_MODE, make_private

Log = Callable[[bytes], object]

MARKER = "complete"
"""Written last, with the path of the folder that this one reads, if any. Its time is that of the last use.

A mark and no rename: an environment cannot be made elsewhere and moved, as the commands in its `bin`, and
what a package's own build has written, name it by its path.
"""
_CLAIMS = ".claims"
"""A lock beside the folders. Claims share it, and a withdrawal holds it alone."""


class EnvironmentFailed(VtrainError):
    """The trainer's environment could not be made; complete environments are untouched."""


class ToolKilled(VtrainError):
    """SIGKILL has ended a tool: a person sent it, or the kernel for want of memory."""


def python_of(environment: Path) -> Path:
    """The environment's interpreter."""
    return environment / "bin" / "python"


@contextmanager
def writing_environments(home: Path) -> Iterator[None]:
    """Raise EnvironmentFailed for an error of the disk below vtrain's home."""
    try:
        yield
    except OSError as error:
        raise EnvironmentFailed(
            f"The environment below {home} could not be written: {error.strerror or error}.",
            hint="Free some space there, or set VTRAIN_HOME to another folder.",
        ) from error


def is_complete(folder: Path) -> bool:
    """True once `make_once` has made the folder to the end, and while its interpreter, if any, is there."""
    python = python_of(folder)
    return (folder / MARKER).exists() and (python.exists() or not python.is_symlink())


def is_whole(folder: Path) -> bool:
    """Whether a folder is complete, and so is the one that it reads."""
    if not is_complete(folder):
        return False
    below = layer_below(folder)
    return below is None or is_complete(below)


def claim(folder: Path) -> bool:
    """Note that a folder is used now, with the one that it reads; False where one is not complete.

    What was claimed lately is never withdrawn. Raises OSError.
    """
    if not is_complete(folder):
        return False
    with _locked(folder.parent / _CLAIMS, shared=True):
        if not is_complete(folder):  # it was withdrawn while we waited
            return False
        os.utime(folder / MARKER)
    below = layer_below(folder)
    return below is None or claim(below)


def layer_below(folder: Path) -> Path | None:
    """The folder of this home that an environment reads; None where there is none."""
    try:
        below = Path(os.fsdecode((folder / MARKER).read_bytes()))
    except FileNotFoundError:
        return None
    return below if below.is_relative_to(folder.parents[1]) else None


def last_claimed(folder: Path) -> float:
    """When a folder was made or used last, in seconds since the epoch. Raises OSError."""
    return (folder / MARKER if is_complete(folder) else folder).stat().st_mtime


def withdraw(folder: Path, seen: float) -> Path | None:
    """Set a folder aside that was last used at the time `seen`; its path from then on.

    None for one that was used since, or is being made. Raises OSError.
    """
    with _locked(folder.parent / _CLAIMS):
        if last_claimed(folder) != seen:
            return None
        with _locked(_lock_of(folder), wait=False) as making:
            if making < 0:
                return None
            gone = set_aside(folder)
            _lock_of(folder).unlink()
            return gone


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def make_once(folder: Path, build: Callable[[int], None], log: Log, reads: Path | None = None) -> None:
    """Have `build` fill the folder unless that has been done before; one process at a time does it.

    `build` is given the lock's descriptor, to hand on to every process that writes into the folder: the
    lock then lasts as long as the last of them, also when this process is killed. What was left half
    made is removed and made again. A complete folder is claimed, and else never touched. `reads` is the
    folder of another environment, from which the one in this folder imports too; a folder that reads another
    one was made for another Python, or its home was moved: it is made again.
    """
    if layer_below(folder) == reads and claim(folder):
        return
    make_private(folder.parent)
    with _locked(_lock_of(folder), log) as descriptor:
        if layer_below(folder) == reads and is_whole(folder):  # another process made it while we waited
            os.utime(folder / MARKER)
            return
        remove_folder(folder)  # of a process that was killed, or one that reads what is gone
        folder.mkdir(mode=FOLDER_MODE)
        build(descriptor)
        publish_file(folder / MARKER, os.fsencode(reads) if reads is not None else b"")


@contextmanager
def _locked(path: Path, log: Log | None = None, *, wait: bool = True, shared: bool = False) -> Iterator[int]:
    """Hold a lock: its descriptor, or -1 where another process has it and we do not `wait`."""
    descriptor = _lock(path, log, wait=wait, shared=shared)
    try:
        yield descriptor
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _lock(path: Path, log: Log | None, *, wait: bool, shared: bool) -> int:
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                os.close(descriptor)
                return -1
            if log is not None:
                log(b"Another process is making this environment; waiting for it.\n")
            fcntl.flock(descriptor, kind)
        with suppress(FileNotFoundError):  # the process that removed the folder removed its lock too
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                return descriptor
        os.close(descriptor)
