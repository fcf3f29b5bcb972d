"""Reading packages without pip: metadata of sdists and wheels, and the files in archives of vtrain."""

from __future__ import annotations

import gzip
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

import msgspec

from vtrain.errors import PackagingError
from vtrain.packaging.direct import LAYOUT, SCRIPT_PACKAGE, SITE
from vtrain.packaging.project import Project, read_project
from vtrain.packaging.unpacking import AGAIN, DAMAGED, check_name, readable
from vtrain.project_names import canonical, distribution_name

if TYPE_CHECKING:
    from email.message import Message

_LONGEST_VERSION = 20
"""Letters of a metadata version that are read."""
METADATA_LIMIT = 1 << 20
"""Bytes of a metadata file that are read; the fields stand before the description."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!_-]*")
"""The names and versions of distributions that are safe in the name of a folder."""


def is_direct(path: Path) -> bool:
    """Whether vtrain wrote this package, so that `unpack_direct` can install it instead of pip."""
    if not path.name.endswith(".tar.gz"):
        return False
    try:
        with tarfile.open(path) as tar:
            first = tar.next()
            if first is None or not first.isfile() or PurePosixPath(first.name).name != "setup.cfg":
                return False
            return _layout(_content(tar, first)) == LAYOUT
    except DAMAGED:
        return False


def _layout(text: bytes) -> str:
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text.decode())
    except (configparser.Error, UnicodeDecodeError):
        return ""
    return parser.get("vtrain", "layout", fallback="")


def unpack_direct(path: Path, site: Path) -> None:
    """Put the importable files of a direct sdist, and its metadata, into a site-packages folder.

    Raises PackagingError for an archive with a link or with a name that leads out of its folder.
    """
    try:
        with readable(path), tarfile.open(path) as tar:
            for member in tar:
                target = _target(member, path)
                if target is not None:
                    _extract(tar, member, site / target)
    except (FileExistsError, NotADirectoryError) as error:
        raise PackagingError(f"{path.name} is not a readable package: {error}.", hint=AGAIN) from None
    _write_dist_info(path, site)


def _target(member: tarfile.TarInfo, path: Path) -> PurePosixPath | None:
    parts = PurePosixPath(member.name).parts
    check_name(member.name, path)
    if not member.isfile():
        raise PackagingError(f"{path.name} holds {member.name!r}, which no package that vtrain wrote has.")
    return PurePosixPath(*parts[2:]) if len(parts) > 2 and parts[1] == SITE else None


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source = tar.extractfile(member)
    if source is None:
        raise PackagingError(f"{member.name!r} cannot be read.")
    with source, target.open("wb") as out:
        shutil.copyfileobj(source, out)
    target.chmod(0o755 if member.mode & 0o100 else 0o644)


def _write_dist_info(path: Path, site: Path) -> None:
    text = _metadata(path)
    fields = _named_fields(path, text)
    if not (_NAME.fullmatch(fields["Name"]) and _VERSION.fullmatch(fields["Version"])):
        raise PackagingError(f"The metadata of {path.name} names {fields['Name']!r} {fields['Version']!r}.")
    label = f"{fields['Name']}".replace("-", "_").replace(".", "_") + f"-{fields['Version']}"
    folder = site / f"{label}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_bytes(text)
    (folder / "INSTALLER").write_text("vtrain\n")


def requires_dist(path: Path) -> tuple[str, ...] | None:
    """The requirements (Requires-Dist) in the metadata of an sdist or a wheel.

    None when they are not known before the package is built. An sdist says so by a metadata version before
    2.2 or by naming the field in Dynamic (PEP 643), and so does one without metadata that can be read.
    """
    fields = _fields(path)
    if not path.name.endswith(".whl"):
        dynamic = {str(value).lower() for value in fields.get_all("Dynamic", [])}
        parts = str(fields["Metadata-Version"])[:_LONGEST_VERSION].split(".")
        version = tuple(int(part) for part in parts if part.isdecimal())
        if version < (2, 2) or "requires-dist" in dynamic:
            return None
    return tuple(str(value) for value in fields.get_all("Requires-Dist", []))


def requirements_beside(lines: Iterable[str], packages: Mapping[str, Path]) -> Iterator[str]:
    """The requirements that packages at hand, by canonical name, do not fulfil.

    Of extras of one of them (`kit[gpu]`) that is what its metadata names for these: an installer that gets
    the line would take the package from the index.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    waiting, done = list(lines), set()
    while waiting:
        line = waiting.pop(0)
        package = packages.get(distribution_name(line))
        if package is None:
            yield line
        elif "[" in line and line not in done:
            done.add(line)
            with suppress(InvalidRequirement):
                asked = Requirement(line)
                if asked.marker is None or asked.marker.evaluate({"extra": ""}):
                    for extra in sorted(asked.extras):
                        waiting += _of_extra(package, extra)


def _of_extra(package: Path, extra: str) -> Iterator[str]:
    """The requirements that a package has with an extra alone."""
    from packaging.requirements import Requirement

    for line in requires_dist(package) or ():
        requirement = Requirement(line)
        marker, requirement.marker = requirement.marker, None
        names = {extra, canonical(extra)}
        if (
            marker
            and not marker.evaluate({"extra": ""})
            and any(marker.evaluate({"extra": n}) for n in names)
        ):
            yield str(requirement)


def requires_python(path: Path) -> str:
    """The versions of Python that a package demands; "" where it says nothing, or only its build does."""
    said = str(_fields(path)["Requires-Python"] or "")
    if said or path.name.endswith(".whl") or is_direct(path):
        return said
    project = _project(path)
    return project.requires_python if project is not None else ""


def _project(path: Path) -> Project | None:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="vtrain-project-") as folder:
        for name, content in _project_files(path):
            Path(folder, name).write_bytes(content)
        try:
            return read_project(Path(folder))
        except PackagingError:
            return None  # the build reports the error


def _project_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """The files beside each other that describe the project in an sdist."""
    if path.name.endswith(".zip"):
        with readable(path), zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if _is_project_file(info.filename):
                    yield PurePosixPath(info.filename).name, _start(archive, info)
        return
    with readable(path), tarfile.open(path) as tar:
        for member in tar:
            if member.isfile() and _is_project_file(member.name):
                yield PurePosixPath(member.name).name, _content(tar, member)


def _is_project_file(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return 0 < len(parts) <= 2 and parts[-1] in ("setup.py", "setup.cfg", "pyproject.toml")


def metadata_name(path: Path) -> str:
    """The distribution's name in the metadata; "" for an sdist whose name its build decides."""
    return str(_fields(path)["Name"] or "")


def metadata_version(path: Path) -> str:
    """The distribution's version in the metadata; "" for an sdist whose version its build decides."""
    return str(_fields(path)["Version"] or "")


def import_names(path: Path) -> tuple[str, ...]:
    """The top-level modules and packages that a wheel installs; () for an sdist."""
    if not path.name.endswith(".whl"):
        return ()
    with readable(path), zipfile.ZipFile(path) as wheel:
        tops = {name.split("/")[0] for name in wheel.namelist()}
    names = {top.split(".")[0] for top in tops if not top.endswith((".dist-info", ".data"))}
    return tuple(sorted(names))


def _fields(path: Path) -> Message:
    """The metadata. pip builds an sdist whatever its PKG-INFO says, so it may say nothing there."""
    text = _metadata(path)
    return _named_fields(path, text) if path.name.endswith(".whl") else _parsed(text)


def _parsed(text: bytes) -> Message:
    import email  # a command that reads no metadata has no time for it

    return email.message_from_bytes(text)


def _named_fields(path: Path, text: bytes) -> Message:
    fields = _parsed(text)
    if not fields["Name"] or not fields["Version"]:
        raise PackagingError(
            f"{path.name} holds no metadata that names a distribution and its version.",
            hint="Make the package again.",
        )
    return fields


def _metadata(path: Path) -> bytes:
    """The bytes of METADATA or PKG-INFO; none where there is no such file."""
    with readable(path):
        return _wheel_metadata(path) if path.name.endswith(".whl") else _sdist_metadata(path)


def _wheel_metadata(path: Path) -> bytes:
    with zipfile.ZipFile(path) as wheel:
        for info in wheel.infolist():
            parts = PurePosixPath(info.filename).parts
            if len(parts) == 2 and parts[0].endswith(".dist-info") and parts[1] == "METADATA":
                return _start(wheel, info)
    return b""


def _sdist_metadata(path: Path) -> bytes:
    if path.name.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            found = [info for info in archive.infolist() if _is_pkg_info(info.filename)]
            return _start(archive, found[0]) if found else b""
    with tarfile.open(path) as tar:
        members = (member for member in tar if member.isfile() and _is_pkg_info(member.name))
        return next((_content(tar, member) for member in members), b"")


def _start(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as source:
        return source.read(METADATA_LIMIT)


def _is_pkg_info(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return len(parts) == 2 and parts[1] == "PKG-INFO"


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    source = tar.extractfile(member)
    return source.read(METADATA_LIMIT) if source else b""


_BLOCK = 1 << 20
SNAPSHOT = "files.tar.gz"
"""The archive of the trainer's files, in the folder of its package and in that of its job."""


class PackedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the trainer: its path in the trainer's folder, and its content while the archive is read."""

    path: PurePosixPath
    content: IO[bytes]
    is_executable: bool
    of_script: bool


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
