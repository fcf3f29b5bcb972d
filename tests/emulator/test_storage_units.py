"""The parts of the service that are functions of their arguments."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vtrain.emulator.storage.catalog import BucketRecord, Catalog
from vtrain.emulator.storage.object_files import BucketFolders, ObjectFile, Partial
from vtrain.emulator.storage.object_listing import NamePage, ObjectSelection, Position, read_glob, select
from vtrain.emulator.storage.storage_refusals import StorageRefusal
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


def test_an_object_reaches_the_disk_before_its_name_and_then_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        sync(descriptor)
        calls.append(f"sync {stat.filemode(os.fstat(descriptor).st_mode)[0]}")

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", lambda *paths, **to: (replace(*paths, **to), calls.append("rename")))
    with Partial(tmp_path / "uploads") as partial:
        partial.write(b"x")
        partial.move_to(ObjectFile(Root(tmp_path), "a", is_aside=False), 1)
    assert calls == ["sync -", "rename", "sync d"]


NAMES = st.lists(st.text("ab/", min_size=1, max_size=6), max_size=30)


def pick(names: list[str], **asked: Any) -> NamePage:
    return select(lambda position: filter(position.reaches, sorted(set(names))), ObjectSelection(**asked))


@given(NAMES, st.text("ab/", max_size=2), st.sampled_from(["", "/", "ab"]), st.integers(1, 5), st.booleans())
def test_pages_together_are_the_whole_list(
    names: list[str], prefix: str, delimiter: str, limit: int, trailing: bool
) -> None:
    asked = {"prefix": prefix, "delimiter": delimiter, "trailing": trailing}
    whole = pick(names, **asked)
    pages: list[NamePage] = []
    while not pages or pages[-1].token:
        token = pages[-1].token if pages else ""
        pages.append(pick(names, **asked, limit=limit, token=token))
        assert len(pages[-1].names) + len(pages[-1].prefixes) <= limit
    assert tuple(name for page in pages for name in page.names) == whole.names
    assert tuple(group for page in pages for group in page.prefixes) == whole.prefixes
    assert len(set(whole.prefixes)) == len(whole.prefixes)


@given(NAMES, st.text("ab/", max_size=2))
def test_every_name_is_listed_or_below_a_prefix(names: list[str], prefix: str) -> None:
    page = pick(names, prefix=prefix, delimiter="/")
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
    pattern = read_glob(glob)
    assert all(pattern.matches(name) for name in matching)
    assert not any(pattern.matches(name) for name in others)


def test_a_glob_is_matched_in_time_that_grows_with_the_name() -> None:
    """A pattern of `re` would try every way to share the letters among the stars."""
    assert not read_glob("**a" * 340 + "b").matches("a" * 1024)
    assert not read_glob("{a,aa}" * 170 + "b").matches("a" * 1024)


@pytest.mark.parametrize("glob", ["[z-a]", "[]", "{a", "a}", "{{a}", "*" * 1025])
def test_what_is_no_glob_is_refused(glob: str) -> None:
    with pytest.raises(StorageRefusal):
        read_glob(glob)


@pytest.mark.parametrize("head", [b"--" + b" " * (1 << 20), b"--b\n\n" + b"\n--b\nh" * 200_000])
def test_a_head_that_never_ends_is_refused_at_once(head: bytes) -> None:
    """A pattern with nested repetition needed hours for it."""
    body = MultipartBody()
    with pytest.raises(StorageRefusal):
        body.feed(head)
        body.close()


@example(b"\r\n", [1] * 99, b"\r\n")
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
    with pytest.raises(StorageRefusal):
        body.feed(data)
        body.close()


def test_a_page_reads_no_more_names_than_it_has() -> None:
    """Names that a delimiter gathers are skipped, and nothing behind the page is asked for."""
    asked: list[str] = []

    def names(position: Position) -> Iterator[str]:
        for name in sorted(f"{folder}/{number}" for folder in range(1000) for number in range(10)):
            if position.reaches(name):
                asked.append(name)
                yield name

    page = select(names, ObjectSelection(delimiter="/", limit=5))
    assert page.prefixes == ("0/", "1/", "10/", "100/", "101/")
    assert asked == ["0/0", "1/0", "10/0", "100/0", "101/0", "102/0"]
    asked.clear()
    assert select(names, ObjectSelection(limit=3, token=page.token)).names == ("102/0", "102/1", "102/2")
    assert asked == ["102/0", "102/1", "102/2", "102/3"]


@pytest.mark.parametrize("last", ["a", "\ud7ff", "\U0010ffff"])
def test_a_page_goes_on_behind_any_prefix(last: str) -> None:
    names = sorted(["b", f"x{last}1", f"x{last}2", "y", "\U0010ffff"])
    pages = [pick(names, delimiter=last, limit=1)]
    while pages[-1].token:
        pages.append(pick(names, delimiter=last, limit=1, token=pages[-1].token))
    groups = (name[: name.find(last) + 1] if last in name else name for name in names)
    assert [(*page.names, *page.prefixes) for page in pages] == [(group,) for group in dict.fromkeys(groups)]


def test_names_come_in_order_and_folders_behind_the_page_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = BucketFolders(tmp_path, tmp_path / "aside")
    paths = ["a.txt", "a/b", "a/c/d", "a-b/x", "b", "c/.unpublished-1", "c/d", "é/x", "日本/y"]
    for path in paths:
        (tmp_path / "bucket" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "bucket" / path).touch()
    (tmp_path / "bucket" / "link").symlink_to(tmp_path)
    kept = sorted(path for path in paths if ".unpublished" not in path)
    assert [*folders.names("bucket", "", Position(""))] == kept
    for start in (*kept, "a/c", "a/c/", "b0"):
        assert [*folders.names("bucket", "", Position(start))] == [name for name in kept if name >= start]
    for prefix in ("a", "a/", "a/c", "a//", "/", "none/x"):
        assert [*folders.names("bucket", prefix, Position(""))] == [
            name for name in kept if name.startswith(prefix)
        ]
    read: list[object] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda place: (read.append(place), scan(place))[1])
    names = folders.names("bucket", "", Position(""))
    assert (next(names), len(read)) == ("a-b/x", 2)


def test_a_full_disk_is_told_and_the_next_writer_goes_on(tmp_path: Path) -> None:
    """SQLite has ended the transaction by then: there is nothing to roll back."""
    catalog = Catalog(tmp_path)
    catalog._execute("PRAGMA max_page_count = 16")
    with pytest.raises(sqlite3.OperationalError, match="full"), catalog.writing():
        catalog.save_bucket("b", BucketRecord(created=1, updated=1, fields={"x": "y" * 1_000_000}))
    with catalog.writing():
        catalog.save_bucket("b", BucketRecord(created=1, updated=1))
    assert catalog.bucket("b") is not None
    catalog.close()


def test_each_folder_is_read_once_for_a_page_of_prefixes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = BucketFolders(tmp_path, tmp_path / "aside")
    for number in range(300):
        (tmp_path / "bucket" / f"run-{number:03}" / "model").mkdir(parents=True)
        (tmp_path / "bucket" / f"run-{number:03}" / "model" / "a").touch()
    read: list[object] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda place: (read.append(place), scan(place))[1])
    page = select(lambda position: folders.names("bucket", "", position), ObjectSelection(delimiter="/"))
    assert (len(page.prefixes), len(read)) == (300, 1 + 300 * 2)


@pytest.mark.parametrize("token", ["cA==", "aQ==", "eHg=", "!"])
def test_a_page_token_that_is_none_is_refused(token: str) -> None:
    with pytest.raises(StorageRefusal, match="page token"):
        pick(["a", "b"], token=token)


def test_a_page_goes_on_behind_a_prefix_of_the_last_characters() -> None:
    last = chr(0x10FFFF) * 1000
    assert pick(["a", last], delimiter=chr(0x10FFFF)).prefixes == (chr(0x10FFFF),)
