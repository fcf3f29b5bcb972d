"""Reading packages without pip: metadata of sdists and wheels, and unpacking what vtrain wrote."""

from __future__ import annotations

import configparser
import email
import re
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path, PurePosixPath

from vtrain.errors import PackagingError
from vtrain.packaging.direct import LAYOUT, SITE
from vtrain.packaging.unpacking import check_name

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!_-]*")
"""What names a distribution and its version, and could be part of a folder's name."""


def is_direct(path: Path) -> bool:
    """Whether vtrain wrote this package itself, so that `unpack_direct` can stand for pip."""
    if not path.name.endswith(".tar.gz"):
        return False
    try:
        with tarfile.open(path) as tar:
            first = tar.next()
            if first is None or not first.isfile() or PurePosixPath(first.name).name != "setup.cfg":
                return False
            return _layout(_content(tar, first)) == LAYOUT
    except (tarfile.TarError, OSError, EOFError):
        return False


def _layout(text: bytes) -> str:
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
        with tarfile.open(path) as tar:
            for member in tar:
                target = _target(member, path)
                if target is not None:
                    _extract(tar, member, site / target)
    except (tarfile.TarError, EOFError, FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise PackagingError(f"{path.name} is not a readable package: {error}.") from None
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
    fields, text = _read_metadata(path)
    if not (_NAME.fullmatch(fields["Name"]) and _VERSION.fullmatch(fields["Version"])):
        raise PackagingError(f"The metadata of {path.name} names {fields['Name']!r} {fields['Version']!r}.")
    label = f"{fields['Name']}".replace("-", "_").replace(".", "_") + f"-{fields['Version']}"
    folder = site / f"{label}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_bytes(text)
    (folder / "INSTALLER").write_text("vtrain\n")


def requires_dist(path: Path) -> tuple[str, ...] | None:
    """The requirements (Requires-Dist) in the metadata of an sdist or a wheel.

    None when they are not known before the package is built: an sdist says so by a metadata version
    before 2.2 or by naming the field in Dynamic (PEP 643).
    """
    fields, _ = _read_metadata(path)
    if not path.name.endswith(".whl"):
        dynamic = {str(value).lower() for value in fields.get_all("Dynamic", [])}
        if _version(fields) < (2, 2) or "requires-dist" in dynamic:
            return None
    return tuple(str(value) for value in fields.get_all("Requires-Dist", []))


def metadata_name(path: Path) -> str:
    """The distribution's name in the metadata of an sdist or a wheel."""
    return str(_read_metadata(path)[0]["Name"])


def import_names(path: Path) -> tuple[str, ...]:
    """The top-level modules and packages that a wheel installs; () for an sdist."""
    if not path.name.endswith(".whl"):
        return ()
    try:
        with zipfile.ZipFile(path) as wheel:
            tops = {name.split("/")[0] for name in wheel.namelist()}
    except (zipfile.BadZipFile, OSError) as error:
        raise PackagingError(f"{path.name} is not a readable package: {error}.") from None
    names = {top.split(".")[0] for top in tops if not top.endswith((".dist-info", ".data"))}
    return tuple(sorted(names))


def _version(fields: Message) -> tuple[int, ...]:
    return tuple(int(part) for part in str(fields["Metadata-Version"]).split(".") if part.isdigit())


def _read_metadata(path: Path) -> tuple[Message, bytes]:
    try:
        text = _wheel_metadata(path) if path.name.endswith(".whl") else _sdist_metadata(path)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise PackagingError(f"{path.name} is not a readable package: {error}.") from None
    if text is None:
        raise PackagingError(
            f"{path.name} holds no package metadata (PKG-INFO or METADATA).",
            hint="Only a source distribution (.tar.gz, .zip) or a wheel (.whl) can be installed.",
        )
    fields = email.message_from_bytes(text)
    if not fields["Name"] or not fields["Version"]:
        raise PackagingError(f"The metadata of {path.name} names no distribution.")
    return fields, text


def _wheel_metadata(path: Path) -> bytes | None:
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            parts = PurePosixPath(name).parts
            if len(parts) == 2 and parts[0].endswith(".dist-info") and parts[1] == "METADATA":
                return wheel.read(name)
    return None


def _sdist_metadata(path: Path) -> bytes | None:
    if path.name.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if _is_pkg_info(name)]
            return archive.read(names[0]) if names else None
    with tarfile.open(path) as tar:
        return next(_pkg_infos(tar), None)


def _pkg_infos(tar: tarfile.TarFile) -> Iterator[bytes]:
    for member in tar:
        if member.isfile() and _is_pkg_info(member.name):
            yield _content(tar, member)


def _is_pkg_info(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return len(parts) == 2 and parts[1] == "PKG-INFO"


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    source = tar.extractfile(member)
    return source.read() if source else b""
