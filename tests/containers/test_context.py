"""The build context: one archive for the same files, whatever their names."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrain.containers.build import ContextFile, write_archive
from vtrain.errors import ImageError

NAME = st.text(st.characters(exclude_characters="/\0", exclude_categories=()), min_size=1, max_size=300)
NAMES = (
    st.lists(NAME, min_size=1, max_size=3)
    .map("/".join)
    .filter(lambda name: not name.startswith("/") and ".." not in name)
)


def _archive(*files: ContextFile) -> bytes:
    archive = io.BytesIO()
    write_archive(files, archive)
    return archive.getvalue()


@given(st.dictionaries(NAMES, st.binary(max_size=2000), max_size=5), st.booleans())
def test_names_and_contents_survive(contents: dict[str, bytes], executable: bool) -> None:
    files = [
        ContextFile(name=name, content=content, executable=executable) for name, content in contents.items()
    ]
    try:
        archive = _archive(*files)
    except UnicodeEncodeError:
        assert any("\ud800" <= character <= "\udfff" for name in contents for character in name)
        return
    assert archive == _archive(*reversed(files))
    with tarfile.open(fileobj=io.BytesIO(archive), errors="surrogateescape") as tar:
        found = {}
        for member in tar:
            source = tar.extractfile(member)
            assert source is not None
            found[member.name] = source.read()
            assert (member.mtime, member.uid, member.gid, member.uname) == (0, 0, 0, "")
            assert member.mode == (0o755 if executable else 0o644)
    assert found == contents


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(b"0123456789" * 300_000)
    with tarfile.open(fileobj=io.BytesIO(_archive(ContextFile(name="large", content=file)))) as tar:
        member = tar.extractfile("large")
        assert member is not None
        assert member.read() == file.read_bytes()


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"gone cannot be read \(No such file or directory\)"):
        _archive(ContextFile(name="gone", content=tmp_path / "gone"))
