"""The parts of the service that are functions of their arguments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrain.emulator.storage.listing import Glob, NamePage, Selection, select
from vtrain.emulator.storage.object_files import ObjectFile
from vtrain.emulator.storage.refusals import Refusal
from vtrain.emulator.storage.uploads import MultipartBody
from vtrain.rooted import Root


def test_only_a_file_is_opened_as_an_object(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    with ObjectFile(Root(tmp_path), "file", is_aside=False).open() as file:
        assert file.read() == b"content"
    for place in ("link", "pipe", "none", "file/x"):
        found = ObjectFile(Root(tmp_path), place, is_aside=False)
        with pytest.raises(FileNotFoundError), found.open():
            pass
        assert not found.exists()


NAMES = st.lists(st.text("ab/", min_size=1, max_size=6), max_size=30)


@given(NAMES, st.text("ab/", max_size=2), st.sampled_from(["", "/", "ab"]), st.integers(1, 5), st.booleans())
def test_pages_together_are_the_whole_list(
    names: list[str], prefix: str, delimiter: str, limit: int, trailing: bool
) -> None:
    asked = {"prefix": prefix, "delimiter": delimiter, "trailing": trailing}
    whole = select(names, Selection(**asked))
    pages: list[NamePage] = []
    while not pages or pages[-1].token:
        token = pages[-1].token if pages else ""
        pages.append(select(names, Selection(**asked, limit=limit, token=token)))
        assert len(pages[-1].names) + len(pages[-1].prefixes) <= limit
    assert tuple(name for page in pages for name in page.names) == whole.names
    assert tuple(group for page in pages for group in page.prefixes) == whole.prefixes
    assert len(set(whole.prefixes)) == len(whole.prefixes)


@given(NAMES, st.text("ab/", max_size=2))
def test_every_name_is_listed_or_below_a_prefix(names: list[str], prefix: str) -> None:
    page = select(names, Selection(prefix=prefix, delimiter="/"))
    for name in names:
        below = any(name.startswith(group) for group in page.prefixes)
        assert (name in page.names or below) == name.startswith(prefix)


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("*", ("a", ""), ("a/b",)),
        ("**", ("a", "a/b/c"), ()),
        ("**/x", ("x", "a/b/x"), ("ax",)),
        ("a/**/x", ("a/x", "a/b/c/x"), ("x",)),
        ("?.txt", ("a.txt",), ("/.txt", "ab.txt")),
        ("[a-c]1", ("b1",), ("d1",)),
        ("[!a]", ("b",), ("a",)),
        ("{a,b}.{txt,md}", ("a.txt", "b.md"), ("c.txt", "a,b.txt")),
        ("a,b", ("a,b",), ("a", "b")),
        ("a.b+(c)", ("a.b+(c)",), ("aXb+(c)",)),
        ("\\*", ("*",), ("a",)),
    ],
)
def test_globs(glob: str, matching: tuple[str, ...], others: tuple[str, ...]) -> None:
    pattern = Glob(glob)
    assert all(pattern.matches(name) for name in matching)
    assert not any(pattern.matches(name) for name in others)


def test_a_glob_is_matched_in_time_that_grows_with_the_name() -> None:
    """A pattern of `re` would try every way to share the letters among the stars."""
    assert not Glob("**a" * 340 + "b").matches("a" * 1024)
    assert not Glob("{a,aa}" * 170 + "b").matches("a" * 1024)


@pytest.mark.parametrize("glob", ["[z-a]", "[]", "{a", "a}", "{{a}", "*" * 1025])
def test_what_is_no_glob_is_refused(glob: str) -> None:
    with pytest.raises(Refusal):
        Glob(glob)


@pytest.mark.parametrize("head", [b"--" + b" " * (1 << 20), b"--b\n\n" + b"\n--b\nh" * 200_000])
def test_a_head_that_never_ends_is_refused_at_once(head: bytes) -> None:
    """A pattern with nested repetition needed hours for it."""
    body = MultipartBody()
    with pytest.raises(Refusal):
        body.feed(head)
        body.close()


@given(st.binary(max_size=300), st.lists(st.integers(1, 60)), st.sampled_from([b"\r\n", b"\n"]))
def test_a_body_is_read_alike_however_it_is_cut(content: bytes, cuts: list[int], newline: bytes) -> None:
    if newline + b"--cut" in content:
        return
    parts = [b"--cut", b"", b'{"name": "x"}', b"--cut", b"content-type: a/b", b"", content, b"--cut--", b""]
    whole = newline.join(parts)
    body, received = MultipartBody(), b""
    for length in [*cuts, len(whole)]:
        received += body.feed(whole[:length])
        whole = whole[length:]
    body.close()
    assert (received, body.document, body.content_type) == (content, {"name": "x"}, "a/b")


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader_of_bodies(data: bytes) -> None:
    body = MultipartBody()
    with pytest.raises(Refusal):
        body.feed(data)
        body.close()
