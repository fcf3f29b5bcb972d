"""Archives that name what lies outside of their folder: refused with a sentence, and nothing is written."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from vtrain.backends.docker.runtime_image import PackagePlan
from vtrain.errors import PackagingError
from vtrain.packaging.archive import METADATA_LIMIT, _metadata, is_direct, read_metadata, unpack_direct
from vtrain.packaging.direct import MARKER, Member, write_direct
from vtrain.packaging.unpacking import unpack_tar, unpack_zip
from vtrain.runtime.environments.installer import lay

LEADING_OUT = ("../evil", "a/../../evil", "/tmp/evil-of-vtrain", "a/b/../../../evil", "..", "x" * 300)
METADATA = "Metadata-Version: 2.1\nName: t\nVersion: 1\n"


def special(kind: bytes, name: str = "t-1/member", link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def tar_of(file: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(file, "w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return file


def regular(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = 1
    return info


def zip_of(file: Path, *names: str) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("t-1.dist-info/METADATA", METADATA)
        for name in names:
            archive.writestr(name, "x")
    return file


def nothing_left(tmp_path: Path) -> bool:
    return not list(tmp_path.rglob("*evil*")) and not Path("/tmp/evil-of-vtrain").exists()


@pytest.mark.parametrize("name", LEADING_OUT)
def test_names_that_lead_out_of_a_tar_file(tmp_path: Path, name: str) -> None:
    archive = tar_of(tmp_path / "t-1.tar.gz", regular("t-1/fine"), regular(name))
    with pytest.raises(PackagingError, match=r"t-1\.tar\.gz holds"):
        unpack_tar(archive, tmp_path / "deep" / "site")
    assert nothing_left(tmp_path) and not (tmp_path / "deep").exists()


@pytest.mark.parametrize(
    "member",
    [
        special(tarfile.SYMTYPE, link="/etc/passwd"),
        special(tarfile.SYMTYPE, link="../../evil"),
        special(tarfile.SYMTYPE, name="t-1/a/b", link="../../../evil"),
        special(tarfile.LNKTYPE, link="../evil"),
        special(tarfile.LNKTYPE, link="/etc/passwd"),
        special(tarfile.CHRTYPE),
        special(tarfile.BLKTYPE),
        special(tarfile.FIFOTYPE),
    ],
)
def test_links_and_devices_of_a_tar_file(tmp_path: Path, member: tarfile.TarInfo) -> None:
    archive = tar_of(tmp_path / "t-1.tar.gz", member)
    with pytest.raises(
        PackagingError, match=r"t-1\.tar\.gz is not a readable package: .*(outside|link|special)"
    ):
        unpack_tar(archive, tmp_path / "site")
    assert not any(path.is_file() or path.is_symlink() for path in (tmp_path / "site").rglob("*"))


def test_a_link_inside_is_fine(tmp_path: Path) -> None:
    archive = tar_of(
        tmp_path / "t-1.tar.gz", regular("t-1/a"), special(tarfile.SYMTYPE, name="t-1/b", link="a")
    )
    unpack_tar(archive, tmp_path / "site")
    assert (tmp_path / "site" / "t-1" / "a").read_bytes() == b"x"


def test_a_chain_of_links_leads_nowhere(tmp_path: Path) -> None:
    archive = tar_of(
        tmp_path / "t-1.tar.gz",
        special(tarfile.SYMTYPE, name="here", link="."),
        special(tarfile.SYMTYPE, name="up", link="here/.."),
        regular("up/evil"),
    )
    with pytest.raises(PackagingError):
        unpack_tar(archive, tmp_path / "site")
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("name", LEADING_OUT)
@pytest.mark.parametrize("how", ["zip", "wheel", "container"])
def test_names_that_lead_out_of_a_wheel(tmp_path: Path, name: str, how: str) -> None:
    wheel = zip_of(tmp_path / "t-1-py3-none-any.whl", "t/__init__.py", name)
    site = tmp_path / "deep" / "site"
    unpack: dict[str, Callable[[], object]] = {
        "zip": lambda: unpack_zip(wheel, site),
        "wheel": lambda: lay(wheel, site),
        "container": lambda: PackagePlan(steps=(), overlays=(wheel,)).unpack(site),
    }
    with pytest.raises(PackagingError, match=r"t-1-py3-none-any\.whl holds"):
        unpack[how]()
    assert nothing_left(tmp_path) and not list(tmp_path.rglob("__init__.py"))


@pytest.mark.parametrize(
    "fields",
    [
        "Name: ../../evil\nVersion: 1",
        "Name: /tmp/evil-of-vtrain\nVersion: 1",
        "Name: t\nVersion: 1/../../evil",
    ],
)
def test_metadata_that_leads_out(tmp_path: Path, fields: str) -> None:
    archive = tmp_path / "t-1.tar.gz"
    texts = {
        "t-1/setup.cfg": MARKER,
        "t-1/PKG-INFO": f"Metadata-Version: 2.2\n{fields}\n",
        "t-1/site/t.py": "",
    }
    with tarfile.open(archive, "w:gz") as tar:
        for name, text in texts.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    assert is_direct(archive)
    with pytest.raises(PackagingError, match="metadata"):
        unpack_direct(archive, tmp_path / "deep" / "site")
    assert nothing_left(tmp_path) and not list(tmp_path.rglob("*.dist-info"))


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    write_direct(
        tmp_path / "t.tar.gz",
        name="t",
        version="1",
        requirements=(),
        members=[Member(name="a", content=b""), Member(name="a/b", content=b"")],
    )
    with pytest.raises(PackagingError, match="not a readable package"):
        unpack_direct(tmp_path / "t.tar.gz", tmp_path / "site")


@pytest.mark.parametrize("damage", [b"", b"no archive", b"PK\x03\x04broken", b"\x1f\x8b\x08broken"])
def test_damaged_archives(tmp_path: Path, damage: bytes) -> None:
    for name, unpack in (("t.whl", unpack_zip), ("t.tar.gz", unpack_tar)):
        (tmp_path / name).write_bytes(damage)
        with pytest.raises(PackagingError, match="not a readable package"):
            unpack(tmp_path / name, tmp_path / "site")


def test_metadata_without_an_end_is_read_in_part(tmp_path: Path) -> None:
    archive = tmp_path / "t-1.tar.gz"
    text = b"Metadata-Version: 2.2\nName: t\nVersion: 1\n\n" + bytes(8 * METADATA_LIMIT)
    with tarfile.open(archive, "w:gz") as tar:
        info = tarfile.TarInfo("t-1/PKG-INFO")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
    assert read_metadata(archive).name == "t"
    assert len(_metadata(archive)) == METADATA_LIMIT
