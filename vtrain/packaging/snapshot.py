"""The trainer's files as they were packed: read from its package, or from an archive of their own.

A package that vtrain wrote holds all files of the folder. What a project's own build back end puts into its
package is not known, so its files are kept beside it.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from vtrain.errors import PackagingError
from vtrain.packaging.archive import is_direct
from vtrain.packaging.direct import SCRIPT_PACKAGE, SITE, Member, write_archive
from vtrain.packaging.plan import SdistPlan
from vtrain.packaging.unpacking import check_name

SNAPSHOT = "files.tar.gz"
"""The archive of a project's files, in the folder of its package."""
_TOP = "files"
_BLOCK = 1 << 20


class PackedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the trainer: its path in the trainer's folder, and its content while the archive is read."""

    path: PurePosixPath
    content: IO[bytes]
    is_executable: bool
    of_script: bool


def keep_snapshot(plan: SdistPlan, packages_dir: Path) -> Path:
    """The archive with the trainer's files, written now unless it is there; the package is built already.

    Raises PackagingError where a file has changed since it was packed, and OSError.
    """
    folder = packages_dir / plan.content_hash
    if not plan.pep517:
        return folder / plan.file_name
    archive = folder / SNAPSHOT
    if not archive.is_file():
        partial = archive.with_name(f".{SNAPSHOT}.{os.getpid()}")
        try:
            write_archive(partial, _members(plan))
            partial.replace(archive)
        finally:
            partial.unlink(missing_ok=True)
    return archive


def _members(plan: SdistPlan) -> Iterator[Member]:
    for file in plan.files:
        yield Member(
            name=f"{_TOP}/{file.path}",
            content=plan.source.folder / file.path,
            executable=file.executable,
            digest=file.digest,
        )


def packed_files(archive: Path) -> Iterator[PackedEntry]:
    """The trainer's files in such an archive, in its order. Raises PackagingError for a damaged one."""
    try:
        _check_whole(archive)
        top = 2 if is_direct(archive) else 1
        with tarfile.open(archive) as tar:
            for member in tar:
                check_name(member.name, archive)
                parts = PurePosixPath(member.name).parts
                of_script = parts[1:3] == (SITE, SCRIPT_PACKAGE)
                below = parts[4:] if of_script else parts[top:]
                content = tar.extractfile(member) if member.isfile() else None
                if content is None or not below or (top == 2 and parts[1] != SITE):
                    continue
                yield PackedEntry(
                    path=PurePosixPath(*below),
                    content=content,
                    is_executable=bool(member.mode & 0o100),
                    of_script=of_script,
                )
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise PackagingError(f"{archive.name} is not a readable archive: {error}.") from error


def _check_whole(archive: Path) -> None:
    """Read an archive up to its checksum: tarfile takes one that was cut for whole, and asks for none."""
    with gzip.open(archive) as stream:
        while stream.read(_BLOCK):
            continue
