"""The build back end of a package that vtrain wrote: it needs nothing but Python (PEP 517, in-tree).

A wheel is the files below `site/` and the metadata in PKG-INFO. The files travel under
`NAME.data/purelib`, so that no name a trainer's folder can have means anything to an installer.
"""

# ruff: noqa: ARG001 - PEP 517 fixes the names of the hooks' arguments

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

WHEEL = "Wheel-Version: 1.0\nGenerator: vtrain\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
EPOCH = (1980, 1, 1, 0, 0, 0)
SITE = Path("site")

Settings = Any


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return []


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    folder = _label() + ".dist-info"
    Path(metadata_directory, folder).mkdir()
    for name, text in (("METADATA", _pkg_info()), ("WHEEL", WHEEL.encode())):
        Path(metadata_directory, folder, name).write_bytes(text)
    return folder


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    label = _label()
    file_name = label + "-py3-none-any.whl"
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    with zipfile.ZipFile(str(Path(wheel_directory, file_name)), "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, path in _site_files():
            mode = 0o755 if path.stat().st_mode & 0o111 else 0o644
            _add(wheel, rows, label + ".data/purelib/" + name, path.read_bytes(), mode)
        _add(wheel, rows, label + ".dist-info/METADATA", _pkg_info(), 0o644)
        _add(wheel, rows, label + ".dist-info/WHEEL", WHEEL.encode(), 0o644)
        rows.writerow([label + ".dist-info/RECORD", "", ""])
        _write(wheel, label + ".dist-info/RECORD", record.getvalue().encode("utf-8"), 0o644)
    return file_name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    raise RuntimeError("this is a source distribution already")


def _add(wheel: zipfile.ZipFile, rows: Any, name: str, content: bytes, mode: int) -> None:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    rows.writerow([name, "sha256=" + digest, str(len(content))])
    _write(wheel, name, content, mode)


def _write(wheel: zipfile.ZipFile, name: str, content: bytes, mode: int) -> None:
    info = zipfile.ZipInfo(name, EPOCH)
    info.external_attr = (0o100000 | mode) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(info, content)


def _site_files() -> list[tuple[str, Path]]:
    return sorted((path.relative_to(SITE).as_posix(), path) for path in SITE.rglob("*") if path.is_file())


def _label() -> str:
    fields = dict(line.split(": ", 1) for line in reversed(_pkg_info().decode("utf-8").splitlines()))
    return fields["Name"].replace("-", "_").replace(".", "_") + "-" + fields["Version"]


def _pkg_info() -> bytes:
    return Path("PKG-INFO").read_bytes()
