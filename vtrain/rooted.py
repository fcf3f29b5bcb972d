"""Files below a folder in which somebody else works meanwhile: a trainer, a container, another user.

Anyone who may write there can put a link in the place of a folder, between a look at a path and its use. So a
path is never checked and then used: each part is opened in the folder above it, a link is not followed, and
what is done is done in the folder that is open. Nothing below a `Root` leads out, whatever is renamed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec

from vtrain.atomic import NOT_SYNCED, UNPUBLISHED, empty_folder

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO)
"""Errors of an open that meets nothing, a link, or something of another kind."""
LONGEST_PATH = 4000
"""Bytes of a path that is visited: a little less than Linux takes in one call."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Something below a root: its path from there, and its own status (of a link, and not of its target)."""

    place: str
    status: os.stat_result

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.place.rpartition("/")[2]

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, and no link to one."""
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file, and no link to one."""
        return stat.S_ISREG(self.status.st_mode)


class Root:
    """A folder, or a file, and all that lies below it: at `within`, below a folder of the user's.

    That folder may be a link, which the user made; below it no link is followed. A place is a path from the
    root, with `/`; an empty one is the root itself. A place with an empty part, `.` or `..` is not there.
    Every method raises OSError; where a link stands in the way, with the number ENOTDIR or ELOOP.
    """

    def __init__(self, base: Path, within: str = "") -> None:
        self.base = base
        self.within = within

    @property
    def path(self) -> Path:
        """Where it is, for people and for programs that take paths: by now a link may stand there."""
        return self.base / self.within

    def below(self, place: str) -> Root:
        """What is at a place, as a root of its own."""
        return Root(self.base, self._whole(place))

    @contextmanager
    def folder(self, place: str = "", *, make_mode: int | None = None) -> Iterator[int]:
        """A descriptor of a folder. With a mode, missing folders are made, as the umask allows."""
        if make_mode is not None:
            self.base.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.base, FOLDER)
        try:
            for part in _parts(self._whole(place)):
                if make_mode is not None:
                    with suppress(FileExistsError):
                        os.mkdir(part, make_mode, dir_fd=descriptor)
                below = self._open(part, FOLDER, descriptor, place)
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def above(self, place: str = "", *, make_mode: int | None = None) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder that a place lies in, and the place's name there."""
        folder, _, name = self._whole(place).rpartition("/")
        _parts(name or "/")
        with Root(self.base).folder(folder, make_mode=make_mode) as descriptor:
            yield descriptor, name

    @contextmanager
    def open(self, place: str = "") -> Iterator[BinaryIO]:
        """A regular file, for reading. Raises FileNotFoundError for anything else, also for a pipe."""
        with self.above(place) as (folder, name):
            descriptor = self._open(name, FILE, folder, place)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path / place))
            with open(descriptor, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(descriptor)

    def status(self, place: str = "") -> os.stat_result:
        """What is at a place; of a link itself."""
        if not self._whole(place):
            return self.base.stat()
        with self.above(place) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def is_folder(self, place: str = "") -> bool:
        """Whether there is a folder, and no link to one."""
        try:
            return stat.S_ISDIR(self.status(place).st_mode)
        except OSError:
            return False

    def link(self, place: str) -> str:
        """The target of a link, as it stands there; empty for anything else."""
        with self.above(place) as (folder, name):
            try:
                return os.readlink(name, dir_fd=folder)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                return ""

    def entries(self, place: str = "", *, most: int | None = None) -> list[Found]:
        """What a folder holds, in no order; of a large one, the first entries."""
        base = f"{place}/" if place else ""
        found = []
        with self.folder(place) as descriptor, os.scandir(descriptor) as scan:
            for entry in islice(scan, most):
                with suppress(FileNotFoundError):
                    found.append(Found(place=base + entry.name, status=entry.stat(follow_symlinks=False)))
        return found

    def walk(
        self, place: str = "", *, on_error: Callable[[OSError], object] | None = None
    ) -> Iterator[Found]:
        """All that lies below a folder, each folder before what it holds.

        A folder that cannot be read, or that has gone, counts as empty; `on_error` is given the reason.
        """
        folders = [place]
        while folders:
            folder = folders.pop()
            try:
                found = self.entries(folder)
            except OSError as error:
                error.filename = str(self.path / folder)
                if on_error is not None:
                    on_error(error)
                continue
            yield from found
            folders += (each.place for each in found if each.is_folder and _is_in_reach(each.place))

    @contextmanager
    def publishing(self, place: str = "", *, make_mode: int | None = None) -> Iterator[BinaryIO]:
        """An empty file to write to; at the end of the block it takes the place in one step, and lasts.

        An error leaves what was there. With a mode, missing folders are made. The umask decides who may read.
        """
        temporary = f"{UNPUBLISHED}{os.getpid()}-{os.urandom(6).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        named = self.path / place
        with self.above(place, make_mode=make_mode) as (folder, name):
            try:
                named = named.parent  # it is at fault where no file can be made
                with os.fdopen(os.open(temporary, flags, 0o666, dir_fd=folder), "wb") as file:
                    named = self.path / place
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException as error:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)
                if isinstance(error, OSError):
                    error.filename, error.filename2 = str(named), None
                raise
            sync(folder)

    def remove_file(self, place: str = "") -> None:
        """Remove a file or a link."""
        with self.above(place) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def remove_all(self, place: str = "") -> None:
        """Remove a folder with all that it holds; of a link only the link."""
        with self.above(place) as (folder, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                empty_folder(name, folder)
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)

    def remove_empty(self, place: str = "") -> None:
        """Remove a folder in which there are only folders; where there is more, raise OSError first."""

        def refuse(error: OSError) -> None:
            raise error

        found = list(self.walk(place, on_error=refuse))
        if not all(each.is_folder for each in found):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(self.path / place))
        for each in (*(one.place for one in reversed(found)), place):
            if self._whole(each):
                with self.above(each) as (folder, name):
                    os.rmdir(name, dir_fd=folder)  # fails where somebody has just written a file
            else:
                self.base.rmdir()

    def open_to(self, mode: int) -> None:
        """Make the folder; give it, and those above it up to the base, a mode; not what the base links to."""
        parts = _parts(self.within)
        for count in range(int(self.base.is_symlink()), len(parts) + 1):
            folder = Root(self.base).folder("/".join(parts[:count]), make_mode=mode)
            with folder as descriptor, suppress(PermissionError):  # of a container's other user, and open
                os.fchmod(descriptor, mode)

    def _whole(self, place: str) -> str:
        return f"{self.within}/{place}" if self.within and place else self.within or place

    def _open(self, name: str, flags: int, folder: int, place: str) -> int:
        try:
            return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
        except OSError as error:
            error.filename = str(self.path / place)
            raise


def sync(folder: int) -> None:
    """Hand the names in an open folder to the disk, where the file system does that. Raises OSError."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in NOT_SYNCED:
            raise


def _parts(place: str) -> list[str]:
    """The parts of a place. Raises FileNotFoundError for one that cannot be."""
    parts = place.split("/") if place else []
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place)
    return parts


def _is_in_reach(place: str) -> bool:
    return len(os.fsencode(place)) <= LONGEST_PATH
