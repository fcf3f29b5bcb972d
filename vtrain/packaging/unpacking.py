"""Unpack archives of unknown origin without writing outside of the target folder."""

from __future__ import annotations

import errno
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from vtrain.errors import PackagingError

AGAIN = "Make the package again, or fetch it again from where it came."
DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, OSError, ValueError, NotImplementedError, RuntimeError),
)
"""Errors of the standard library's decoders on damaged content. RuntimeError means encryption."""
PROJECT_FILES = ("setup.py", "pyproject.toml")
"""Files that make an unpacked folder a project for pip."""
LONGEST_NAME = 255
"""Bytes of a file's name on the usual file systems."""


def unpack_zip(archive: Path, folder: Path) -> None:
    """Unpack a wheel or a .zip. Raises PackagingError for a name that leads out, and for a damaged file."""
    with readable(archive), zipfile.ZipFile(archive) as packed:
        for name in packed.namelist():
            check_name(name, archive)
        packed.extractall(folder)


def unpack_tar(archive: Path, folder: Path) -> None:
    """Unpack a .tar.gz. Raises PackagingError for what leads out: a name, a link, a device."""
    with readable(archive), tarfile.open(archive) as packed:
        members = packed.getmembers()
        for member in members:
            check_name(member.name, archive)
        if hasattr(tarfile, "data_filter"):
            packed.extractall(folder, filter="data")
        else:  # Python before 3.10.12, which would follow links that were unpacked before
            packed.extractall(folder, [member for member in members if member.isfile() or member.isdir()])


def project_folder(archive: Path, folder: Path) -> Path:
    """The place, in the folder that an sdist was unpacked to, where pip looks for its project.

    It is below the first part of all members' names, if they share one; pip counts `.` as such a part.
    Raises PackagingError where no project is there.
    """
    with readable(archive):
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as packed:
                names = packed.namelist()
        else:
            with tarfile.open(archive) as tar:
                names = tar.getnames()
    tops = {name.partition("/")[0] for name in names}
    project = folder.joinpath(*tops) if len(tops) == 1 else folder
    if not any((project / name).is_file() for name in PROJECT_FILES):
        raise PackagingError(
            f"{archive.name} is no Python project: neither setup.py nor pyproject.toml is where pip looks.",
            hint=f"Pack the folder that holds setup.py: tar czf {archive.name} FOLDER (not ./FOLDER).",
        )
    return project


class Packed(NamedTuple):
    """A file in an archive; `read` gives its first bytes, at most so many, while the archive is open."""

    name: str
    size: int
    read: Callable[[int], bytes]


def packed_members(archive: Path) -> Generator[Packed, None, None]:
    """The files in a wheel, a .zip or a .tar.gz. Raises one of DAMAGED."""
    if archive.name.endswith(".tar.gz"):
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isfile():
                    yield Packed(member.name, member.size, partial(_start, partial(tar.extractfile, member)))
        return
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            yield Packed(info.filename, info.file_size, partial(_start, partial(packed.open, info)))


def _start(opened: Callable[[], IO[bytes] | None], size: int) -> bytes:
    source = opened()
    assert source is not None  # it is a file
    with source:
        return source.read(size)


def check_name(name: str, archive: Path) -> None:
    """Raise PackagingError for a name in an archive that leads out of its folder."""
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise PackagingError(f"{archive.name} holds {name!r}, which leads out of its folder.")
    if any(len(part.encode("utf-8", "surrogateescape")) > LONGEST_NAME for part in parts):
        raise PackagingError(f"{archive.name} holds a name of more than {LONGEST_NAME} bytes.")


@contextmanager
def readable(archive: Path) -> Iterator[None]:
    """Turn the errors of any decoder about a damaged archive into PackagingError; other errors pass."""
    try:
        yield
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL, errno.EISDIR):
            raise
        reason = next(iter(str(error).splitlines()), "").rstrip(".:") or type(error).__name__
        raise PackagingError(f"{archive.name} is not a readable package: {reason}.", hint=AGAIN) from None
