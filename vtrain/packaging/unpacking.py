"""Archives are unpacked so that nothing is written outside of the folder, whatever names they hold."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from vtrain.errors import PackagingError

LONGEST_NAME = 255
"""Bytes of a file's name on the usual file systems."""


def unpack_zip(archive: Path, folder: Path) -> None:
    """Unpack a wheel or a .zip. Raises PackagingError for a name that leads out, and for a damaged file."""
    with _readable(archive), zipfile.ZipFile(archive) as packed:
        for name in packed.namelist():
            check_name(name, archive)
        packed.extractall(folder)


def unpack_tar(archive: Path, folder: Path) -> None:
    """Unpack a .tar.gz. Raises PackagingError for what leads out: a name, a link, a device."""
    with _readable(archive), tarfile.open(archive) as packed:
        members = packed.getmembers()
        for member in members:
            _check_member(member, archive)
        if hasattr(tarfile, "data_filter"):
            packed.extractall(folder, filter="data")
        else:  # Python before 3.10.12, which would follow links that were unpacked before
            packed.extractall(folder, [member for member in members if member.isfile() or member.isdir()])


def check_name(name: str, archive: Path) -> None:
    """Raise PackagingError for a name in an archive that is no path below a folder."""
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise PackagingError(f"{archive.name} holds {name!r}, which leads out of its folder.")
    if any(len(part.encode("utf-8", "surrogateescape")) > LONGEST_NAME for part in parts):
        raise PackagingError(f"{archive.name} holds a name of more than {LONGEST_NAME} bytes.")


def _check_member(member: tarfile.TarInfo, archive: Path) -> None:
    check_name(member.name, archive)
    if member.issym() or member.islnk():
        start = PurePosixPath(member.name).parent if member.issym() else PurePosixPath()
        if _leads_out(start / member.linkname):
            raise PackagingError(
                f"{archive.name} holds the link {member.name!r}, which leads out of its folder."
            )
    elif not (member.isfile() or member.isdir()):
        raise PackagingError(f"{archive.name} holds {member.name!r}, which is neither a file nor a folder.")


def _leads_out(path: PurePosixPath) -> bool:
    """Whether a path leaves the folder that it is read in, on the way or at its end."""
    depth = 0
    for part in path.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return path.is_absolute()


@contextmanager
def _readable(archive: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, UnicodeError) as error:
        raise PackagingError(f"{archive.name} is not a readable package: {error}.") from None
