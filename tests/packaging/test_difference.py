"""The diff of the files in two packages."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from vtrain.errors import PackagingError
from vtrain.packaging.difference import LARGEST_TEXT, MOST_LINES, difference

NAMES = ("a", "b")


def sdist(path: Path, **files: bytes) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"trainer-1/{name.replace('_', '.')}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def test_changed_new_and_removed_files(tmp_path: Path) -> None:
    made = {"PKG-INFO": b"Name: a\n", "src/a.egg-info/SOURCES.txt": b"task.py\n"}
    before = sdist(tmp_path / "a.tar.gz", same_py=b"1\n", old_py=b"x\n", task_py=b"one\ntwo\n", **made)
    after = sdist(tmp_path / "b.tar.gz", same_py=b"1\n", new_py=b"y\n", task_py=b"one\n2\n")
    found = difference(before, after, names=NAMES)
    assert found.left_out == 0
    assert found.lines == [
        *("--- /dev/null", "+++ b/new.py", "@@ -0,0 +1 @@", "+y"),
        *("--- a/old.py", "+++ /dev/null", "@@ -1 +0,0 @@", "-x"),
        *("--- a/task.py", "+++ b/task.py", "@@ -1,2 +1,2 @@", " one", "-two", "+2"),
    ]


def test_what_is_no_text_or_too_large_is_named_by_its_digest(tmp_path: Path) -> None:
    before = sdist(tmp_path / "a.tar.gz", data_bin=b"\0\1", big_py=b"x" * (LARGEST_TEXT + 1))
    after = sdist(tmp_path / "b.tar.gz", data_bin=b"\0\2", big_py=b"y" * (LARGEST_TEXT + 1))
    lines = difference(before, after, names=NAMES).lines
    assert sum("bytes, SHA-256" in line for line in lines) == 4 and max(map(len, lines)) < 80


def test_a_long_diff_is_cut(tmp_path: Path) -> None:
    before = sdist(tmp_path / "a.tar.gz", task_py=b"x\n" * 1000)
    after = sdist(tmp_path / "b.tar.gz", task_py=b"y\n" * 1000 + b"z" * 5000)
    found = difference(before, after, names=NAMES)
    assert len(found.lines) == MOST_LINES and found.left_out == 2004 - MOST_LINES


def test_a_wheel_has_files_too(tmp_path: Path) -> None:
    for name in NAMES:
        with zipfile.ZipFile(tmp_path / f"{name}.whl", "w") as packed:
            packed.writestr("task.py", f"{name}\n")
    found = difference(tmp_path / "a.whl", tmp_path / "b.whl", names=NAMES)
    assert found.lines[-2:] == ["-a", "+b"]


@pytest.mark.parametrize("name", ["a.tar.gz", "a.whl"])
def test_a_damaged_package(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"no archive")
    with pytest.raises(PackagingError):
        difference(tmp_path / name, tmp_path / name, names=NAMES)
