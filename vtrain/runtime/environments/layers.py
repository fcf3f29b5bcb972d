"""Folders that the first process to need one makes, once; made again where files in them were changed."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vtrain.atomic import publish_file, remove_folder
from vtrain.errors import VtrainError
from vtrain.privacy import FOLDER_MODE, make_private

Log = Callable[[bytes], None]

MARKER = "complete"
"""Written last: the state that the folder was made in."""
_CHANGED = "changed"
"""The marker's name once the folder's state is another."""
_HASHED = ("packages", "wheels")
"""The kinds of folders whose files are read to know their state; of the others the times count."""
_CLAIMS = ".claims"
"""A lock beside the folders. Claims share it, and a withdrawal holds it alone."""
SITES = ("_vtrain_dependencies", "_vtrain_frameworks")
"""The names under which `add_site` tells an environment of other folders."""
_COMPILED = "__pycache__"
"""The name of the folders that Python itself writes. They do not change an environment."""


class EnvironmentFailed(VtrainError):
    """The trainer's environment could not be made; complete environments are untouched."""


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
    """True once `make_once` has made the folder to the end."""
    return (folder / MARKER).exists()


def is_whole(folder: Path) -> bool:
    """Whether a folder is complete, and so are those that it reads."""
    try:
        return is_complete(folder) and all(is_whole(below) for below in layers_below(folder))
    except FileNotFoundError:  # somebody is removing it
        return False


def sound(folder: Path) -> Path:
    """The folder of that name or, where files in it were changed, the one that is made in its stead.

    The changed one stays for the jobs that run in it.
    """
    found, number = folder, 1
    while (found / _CHANGED).exists():
        number += 1
        found = folder.with_name(f"{folder.name}-{number}")
    return found


def is_changed(folder: Path) -> bool:
    """Whether files in a folder were found changed: nobody starts in it any more."""
    return (folder / _CHANGED).exists()


def claim(folder: Path, log: Log) -> bool:
    """Note that a folder is used now, with those that it reads; False where one is not complete or changed.

    What was claimed lately is never withdrawn. Raises OSError.
    """
    if not is_complete(folder):
        return False
    with _locked(folder.parent / _CLAIMS, shared=True):
        if not is_complete(folder):  # it was withdrawn while we waited
            return False
        os.utime(folder / MARKER)
    if not is_intact(folder):
        _give_up(folder, log)
        return False
    return all(claim(below, log) for below in layers_below(folder))


def is_intact(folder: Path) -> bool:
    """Whether a complete folder is in the state that it was made in."""
    try:
        return (folder / MARKER).read_bytes() == state_of(
            folder, MARKER, hashed=folder.parent.name in _HASHED
        )
    except OSError:
        return False


def _give_up(folder: Path, log: Log) -> None:
    with _locked(folder.parent / _CLAIMS):
        if not is_complete(folder):
            return
        (folder / MARKER).rename(folder / _CHANGED)
    name = folder.relative_to(folder.parents[1])
    log(f"Files in environments/{name} were changed after it was made; it is made again.\n".encode())


def layers_below(folder: Path) -> tuple[Path, ...]:
    """The folders that an environment reads: those that `add_site` has told it of."""
    root = folder.parents[1]
    links = (lib / "site-packages" / f"{name}.pth" for lib in folder.glob("lib/python*") for name in SITES)
    sites = (_linked_site(link) for link in links if link.exists())
    inside = (site.relative_to(root).parts for site in sites if site.is_relative_to(root))
    return tuple(root / kind / key for kind, key, *_ in inside)


def last_claimed(folder: Path) -> float:
    """When a folder was made or used last, in seconds since the epoch. Raises OSError."""
    found = (path for path in (folder / MARKER, folder / _CHANGED) if path.exists())
    return next(found, folder).stat().st_mtime


def withdraw(folder: Path, seen: float, set_aside: Callable[[Path], Path]) -> Path | None:
    """Have `set_aside` rename a folder that was last used at the time `seen`; its path from then on.

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


def make_once(folder: Path, build: Callable[[int], None], log: Log) -> None:
    """Have `build` fill the folder unless that has been done before; one process at a time does it.

    `build` is given the lock's descriptor, to hand on to every process that writes into the folder: the
    lock then lasts as long as the last of them, also when this process is killed. What was left half
    made is removed and made again. A complete folder is claimed, and else never touched.
    """
    if claim(folder, log):
        return
    make_private(folder.parent)
    with _locked(_lock_of(folder), log) as descriptor:
        if is_complete(folder):  # another process made it while we waited
            os.utime(folder / MARKER)
            return
        remove_folder(folder)  # of a process that was killed
        folder.mkdir(mode=FOLDER_MODE)
        build(descriptor)
        _write_marker(folder)


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
    import fcntl

    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except IsADirectoryError:
            remove_folder(path)
            continue
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                os.close(descriptor)
                return -1
            if log is not None:
                log(b"Another process is making this environment; waiting for it.\n")
            fcntl.flock(descriptor, kind)
        if _is_still(path, descriptor):
            return descriptor
        os.close(descriptor)  # whoever removed the folder removed its lock too


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _write_marker(folder: Path) -> None:
    publish_file(folder / MARKER, state_of(folder, MARKER, hashed=folder.parent.name in _HASHED))


def _linked_site(link: Path) -> Path:
    """The path that `add_site` was given; an empty one where the file is damaged."""
    try:
        path = re.search(r"addsitedir\((.+)\)", link.read_text(encoding="utf-8"))
        return Path(ast.literal_eval(path[1])) if path else Path()
    except FileNotFoundError:
        raise
    except (OSError, ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return Path()


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
