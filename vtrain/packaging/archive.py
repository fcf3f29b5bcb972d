"""Reading packages without pip: metadata of sdists and wheels, and the files in archives of vtrain."""

from __future__ import annotations

import ast
import gzip
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from vtrain.errors import PackagingError
from vtrain.packaging.direct import MARKER, SCRIPT_PACKAGE, SITE
from vtrain.packaging.unpacking import AGAIN, DAMAGED, check_name, packed_members, readable
from vtrain.project_names import canonical, distribution_name

_FINAL = ("2.2", "2.3", "2.4", "2.5")
"""Versions of metadata whose fields are final unless `Dynamic` names them (PEP 643)."""
METADATA_LIMIT = 1 << 20
"""Bytes of a metadata file that are read; the fields stand before the description."""
_BLOCK = 1 << 20
_SCRIPT = re.compile(r"(?m)^SCRIPT = ('.*'|\".*\")$")
SNAPSHOT = "files.tar.gz"
"""The archive of the trainer's files, in the folder of its package and in that of its job."""


def is_direct(path: Path) -> bool:
    """Whether vtrain wrote this package, so that `unpack_direct` can install it instead of pip."""
    if not path.name.endswith(".tar.gz"):
        return False
    try:
        with closing(packed_members(path)) as members:
            first = next(members, None)
            if first is None or PurePosixPath(first.name).name != "setup.cfg":
                return False
            return first.read(METADATA_LIMIT) == MARKER.encode()
    except DAMAGED:
        return False


def unpack_direct(path: Path, site: Path) -> None:
    """Put the importable files of a direct sdist, and its metadata, into a site-packages folder.

    Raises PackagingError for an archive with a link or with a name that leads out of its folder.
    """
    try:
        with readable(path), tarfile.open(path) as tar:
            for member in tar:
                check_name(member.name, path)
                source = tar.extractfile(member) if member.isfile() else None
                if source is None:
                    raise PackagingError(
                        f"{path.name} holds {member.name!r}, which no package that vtrain wrote has."
                    )
                parts = PurePosixPath(member.name).parts
                if parts[1:2] != (SITE,) or not parts[2:]:
                    continue
                target = site.joinpath(*parts[2:])
                target.parent.mkdir(parents=True, exist_ok=True)
                with source, target.open("wb") as out:
                    shutil.copyfileobj(source, out)
                target.chmod(0o755 if member.mode & 0o100 else 0o644)
    except (FileExistsError, NotADirectoryError) as error:
        raise PackagingError(f"{path.name} is not a readable package: {error}.", hint=AGAIN) from None
    _write_dist_info(path, site)


def _write_dist_info(path: Path, site: Path) -> None:
    from packaging.version import InvalidVersion, Version

    text, own = _metadata(path), read_metadata(path)
    name, version = distribution_name(own.name), ""
    with suppress(InvalidVersion):
        version = str(Version(own.version))
    if not (name and version) or name != canonical(own.name):
        raise PackagingError(f"The metadata of {path.name} names {own.name!r} {own.version!r}.")
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_bytes(text)
    (folder / "INSTALLER").write_text("vtrain\n")


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a package's metadata. What only its build decides is empty.

    `requires_dist` is None where it is not known before the build: the metadata of an sdist has a version
    before 2.2, names the field in Dynamic (PEP 643), or cannot be read.
    """

    name: str = ""
    version: str = ""
    requires_python: str = ""
    requires_dist: tuple[str, ...] | None = None


def read_metadata(path: Path) -> Metadata:
    """The metadata of an sdist or a wheel. Raises PackagingError for a wheel that names no distribution."""
    is_wheel = path.name.endswith(".whl")
    metadata = parse_metadata(_metadata(path), is_final=is_wheel)
    if is_wheel and not (metadata.name and metadata.version):
        raise PackagingError(
            f"{path.name} holds no metadata that names a distribution and its version.",
            hint="Make the package again.",
        )
    return metadata


def parse_metadata(content: bytes, *, is_final: bool) -> Metadata:
    """The fields of METADATA or PKG-INFO; `is_final` where a build has made it."""
    from email.parser import HeaderParser  # importing packaging.metadata takes 25 ms, in two programs a run

    fields = HeaderParser().parsestr(content.decode("utf-8", "replace"))

    def only(name: str) -> str:
        """A field that is there once: which of several holds, nobody knows."""
        values = fields.get_all(name, [])
        return values[0] if len(values) == 1 else ""

    dynamic = map(str.lower, fields.get_all("Dynamic", []))
    is_known = is_final or (only("Metadata-Version") in _FINAL and "requires-dist" not in dynamic)
    return Metadata(
        name=only("Name"),
        version=only("Version"),
        requires_python=only("Requires-Python"),
        requires_dist=tuple(fields.get_all("Requires-Dist", [])) if is_known else None,
    )


def requirements_beside(lines: Iterable[str], packages: Mapping[str, Path]) -> Iterator[str]:
    """The requirements that packages at hand, by canonical name, do not fulfil.

    Of extras of one of them (`kit[gpu]`) that is what its metadata names for these: an installer that gets
    the line would take the package from the index.
    """
    waiting, done = list(lines), set()
    while waiting:
        line = waiting.pop(0)
        package = packages.get(distribution_name(line))
        if package is None:
            yield line
        elif "[" in line and line not in done:
            from packaging.requirements import InvalidRequirement, Requirement

            done.add(line)
            with suppress(InvalidRequirement):
                asked = Requirement(line)
                if asked.marker is None or asked.marker.evaluate({"extra": ""}):
                    for extra in sorted(asked.extras):
                        waiting += _of_extra(package, extra)


def _of_extra(package: Path, extra: str) -> Iterator[str]:
    """The requirements that a package has with an extra alone."""
    from packaging.requirements import Requirement

    for line in read_metadata(package).requires_dist or ():
        requirement = Requirement(line)
        marker, requirement.marker = requirement.marker, None
        names = {extra, canonical(extra)}
        if (
            marker
            and not marker.evaluate({"extra": ""})
            and any(marker.evaluate({"extra": n}) for n in names)
        ):
            yield str(requirement)


def script_of(archive: Path) -> str:
    """The script that a package of vtrain's own starts; empty where it starts a module, or is another one."""
    with readable(archive):
        for file in packed_members(archive):
            if PurePosixPath(file.name).parts[1:] == (SITE, SCRIPT_PACKAGE, "__main__.py"):
                found = _SCRIPT.search(file.read(METADATA_LIMIT).decode("utf-8", "replace"))
                return str(ast.literal_eval(found[1])) if found else ""
    return ""


def import_names(path: Path) -> tuple[str, ...]:
    """The top-level modules and packages that a wheel installs; () for an sdist."""
    if not path.name.endswith(".whl"):
        return ()
    with readable(path), zipfile.ZipFile(path) as wheel:
        tops = {name.split("/")[0] for name in wheel.namelist()}
    names = {top.split(".")[0] for top in tops if not top.endswith((".dist-info", ".data"))}
    return tuple(sorted(names))


def _metadata(path: Path) -> bytes:
    """The bytes of METADATA or PKG-INFO; none where there is no such file."""
    is_wheel = path.name.endswith(".whl")
    with readable(path):
        for file in packed_members(path):
            folder, *names = PurePosixPath(file.name).parts or ("",)
            if names == ["METADATA" if is_wheel else "PKG-INFO"] and (
                folder.endswith(".dist-info") or not is_wheel
            ):
                return file.read(METADATA_LIMIT)
    return b""


class PackedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the trainer: its path in the trainer's folder, and its content while the archive is read."""

    path: PurePosixPath
    content: IO[bytes]
    is_executable: bool
    of_script: bool


def packed_files(archive: Path) -> Iterator[PackedEntry]:
    """The trainer's files in such an archive, in its order. Raises PackagingError for a damaged one."""
    try:
        with gzip.open(archive) as stream:  # up to its checksum: tarfile takes one that was cut for whole
            while stream.read(_BLOCK):
                continue
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
