"""The source distribution that vtrain writes itself, for a bare folder or a single script.

    NAME-VERSION/
      setup.cfg            [vtrain] layout = direct: a reader may unpack site/ without pip
      PKG-INFO             name, version, Requires-Dist
      pyproject.toml       an in-tree back end without requirements: pip and uv need no network for it
      vtrain_backend.py
      site/...             what is installed

The same content gives the same bytes: names sorted, times, owners and modes fixed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from vtrain.digests import file_digest
from vtrain.errors import PackagingError

SITE = "site"
MARKER = "[vtrain]\nlayout = direct\n"
SCRIPT_PACKAGE = "vtrain_script"

# 1980-01-01, the first moment that a zip archive can hold.
EPOCH = 315532800

_PAYLOAD = Path(__file__).with_name("payload")
_BUILD_SYSTEM = '[build-system]\nrequires = []\nbuild-backend = "vtrain_backend"\nbackend-path = ["."]\n'


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One file of an archive: bytes, or a file on this machine.

    The first `size` bytes of the file have to have the digest, if there is one. What was appended since, as a
    running program does to its log, is left out.
    """

    name: str
    content: bytes | Path
    executable: bool = False
    size: int | None = None
    digest: str = ""


def write_direct(
    out: Path,
    *,
    name: str,
    version: str,
    requirements: tuple[str, ...],
    members: Iterable[Member],
    requires_python: str = "",
) -> None:
    """Write a direct sdist; `members` are named as they will lie in site-packages."""
    top = f"{name}-{version}"
    head = (
        Member(name=f"{top}/setup.cfg", content=MARKER.encode()),
        Member(name=f"{top}/PKG-INFO", content=metadata(name, version, requirements, requires_python)),
        Member(name=f"{top}/pyproject.toml", content=_BUILD_SYSTEM.encode()),
        Member(name=f"{top}/vtrain_backend.py", content=(_PAYLOAD / "backend.py").read_bytes()),
    )
    site = (
        msgspec.structs.replace(member, name=f"{top}/{SITE}/{member.name}")
        for member in sorted(members, key=lambda member: member.name)
    )
    write_archive(out, (*head, *site))


def write_archive(out: Path, members: Iterable[Member]) -> None:
    """Write a .tar.gz whose bytes depend on nothing but names, contents and executable bits."""
    with (
        out.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) as packed,
        tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT, encoding="utf-8") as tar,
    ):
        for member in members:
            _add(tar, member)


def _add(tar: tarfile.TarFile, member: Member) -> None:
    if isinstance(member.content, bytes):
        tar.addfile(_info(member, len(member.content)), io.BytesIO(member.content))
        return
    with _unchanged(member.content), member.content.open("rb") as source:
        reader = _Hashing(source)
        try:
            size = member.content.stat().st_size if member.size is None else member.size
            tar.addfile(_info(member, size), reader)
        except OSError as error:
            if str(error) != "unexpected end of data":
                raise
    if member.digest and reader.digest() != member.digest:
        raise _changed(member.content)


def copy_unchanged(file: Path, target: Path, digest: str, size: int | None = None) -> None:
    """Copy a file, or its first `size` bytes, which has to have this digest.

    Raises PackagingError where it has another by now.
    """
    with _unchanged(file):
        shutil.copyfile(file, target)
    if size is not None and target.stat().st_size > size:
        os.truncate(target, size)
    if file_digest(target) != digest:
        raise _changed(file)


@contextmanager
def _unchanged(file: Path) -> Iterator[None]:
    """A block that reads a file which was there before. Raises PackagingError where it is not any more."""
    try:
        yield
    except OSError as error:
        # of a full disk shutil says both names, and of the target's folder only that one
        if error.filename != str(file) or error.filename2 is not None:
            raise
        raise _changed(file) from error


def _changed(file: Path) -> PackagingError:
    return PackagingError(f"{file} changed while it was packed.", hint="Run the command again.")


class _Hashing(io.RawIOBase):
    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._sha256 = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block = self._source.read(size)
        self._sha256.update(block)
        return block

    def digest(self) -> str:
        return self._sha256.hexdigest()


def _info(member: Member, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(member.name)
    info.size = size
    info.mtime = EPOCH
    info.mode = 0o755 if member.executable else 0o644
    return info


def metadata(name: str, version: str, requirements: tuple[str, ...], requires_python: str = "") -> bytes:
    """Core metadata 2.2: without a Dynamic field it says that nothing else will be added."""
    fields = ["Metadata-Version: 2.2", f"Name: {name}", f"Version: {version}"]
    fields += [f"Requires-Python: {requires_python}"] if requires_python else []
    fields += [f"Requires-Dist: {requirement}" for requirement in requirements]
    return ("\n".join(fields) + "\n").encode()


def script_members(
    files: Iterable[Member], *, script: str, interpreter: tuple[str, ...], import_roots: tuple[str, ...]
) -> list[Member]:
    """The package `vtrain_script`: the folder's files, and a launcher that runs the script in them."""
    launcher = (_PAYLOAD / "launcher.py").read_text("utf-8")
    launcher = launcher.replace('"@SCRIPT@"', repr(script))
    launcher = launcher.replace("()  # @INTERPRETER@", repr(interpreter))
    launcher = launcher.replace("()  # @IMPORT_ROOTS@", repr(import_roots))
    members = [Member(name=f"{SCRIPT_PACKAGE}/__main__.py", content=launcher.encode())]
    for file in files:
        members.append(msgspec.structs.replace(file, name=f"{SCRIPT_PACKAGE}/files/{file.name}"))
    return members
