"""Extra packages that are damaged, encrypted or packed in another way: named or left to pip, and no crash."""

from __future__ import annotations

import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from vtrain.errors import PackagingError
from vtrain.packaging.archive import is_direct, read_metadata
from vtrain.packaging.sdist import plan_sdist
from vtrain.packaging.source import TrainerSource

METADATA = "Metadata-Version: {}\nName: kit\nVersion: 1\n"


def encrypted(file: Path) -> Path:
    """A zip archive whose only file says that it is encrypted."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("kit-1.dist-info/METADATA", METADATA.format("2.1"))
    content = bytearray(file.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    file.write_bytes(content)
    return file


def damaged_xz(file: Path) -> Path:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("kit-1/" + "x" * 90))
    packed = bytearray(lzma.compress(content.getvalue()))
    packed[30:70] = bytes(40)
    file.write_bytes(packed)
    return file


def with_metadata_version(file: Path, version: str) -> Path:
    with tarfile.open(file, "w:gz") as tar:
        content = METADATA.format(version).encode()
        info = tarfile.TarInfo("kit-1/PKG-INFO")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return file


@pytest.mark.parametrize("name", ["kit-1-py3-none-any.whl", "kit-1.zip", "kit-1.tar.gz"])
def test_an_extra_package_that_cannot_be_decoded_is_left_to_pip(make_tree, name):
    folder = make_tree({"trainer/task.py": "import kit\n"})
    (damaged_xz if name.endswith(".tar.gz") else encrypted)(folder / name)
    source = TrainerSource(folder=folder, python_module="trainer.task", extra_packages=(name,))
    assert plan_sdist(source).extra_packages[0].path.name == name


def test_a_damaged_archive_is_not_one_of_vtrain(tmp_path):
    file = damaged_xz(tmp_path / "kit-1.tar.gz")
    assert not is_direct(file)
    with pytest.raises(PackagingError, match="not a readable package"):
        read_metadata(file)


@pytest.mark.parametrize("version", ["²", "9" * 5000, "2", "two", "2.²", ""])
def test_a_metadata_version_of_any_text(tmp_path, version):
    assert read_metadata(with_metadata_version(tmp_path / "kit-1.tar.gz", version)).requires_dist in (
        None,
        (),
    )
