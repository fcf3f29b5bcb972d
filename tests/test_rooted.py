"""What is done below a root stays there, whatever links stand in the way or appear meanwhile."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from lib.link_swapper import swapped_with_link

from vtrain.rooted import Root

SECRET = b"the secret of this machine"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir(mode=0o700)
    (folder / "file").write_bytes(SECRET)
    (folder / "empty").mkdir()
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "root" / "folder").mkdir(parents=True)
    (tmp_path / "root" / "folder" / "file").write_bytes(b"own")
    return Root(tmp_path / "root")


def read(root: Root, place: str) -> bytes:
    with root.open(place) as file:
        return file.read()


def write(root: Root, place: str) -> None:
    with root.publishing(place, make_mode=0o777) as file:
        file.write(b"new")


ACTS: dict[str, Callable[[Root, str], object]] = {
    "open": read,
    "publish": write,
    "status": Root.status,
    "remove": Root.remove_file,
    "remove empty": lambda root, place: root.remove_empty(place.replace("file", "empty")),
    "list": lambda root, place: root.entries(place.rpartition("/")[0]),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("place", ["link/file", "folder/link/file", "folder/up/../outside/file"])
def test_a_link_in_the_way_ends_it(root: Root, outside: Path, act: str, place: str) -> None:
    for link in (root.path / "link", root.path / "folder" / "link", root.path / "folder" / "up"):
        link.symlink_to(outside)
    with pytest.raises(OSError):
        ACTS[act](root, place)
    assert (outside / "file").read_bytes() == SECRET and (outside / "empty").is_dir()


def test_a_link_that_appears_meanwhile_leads_nowhere(root: Root, outside: Path) -> None:
    mine = (outside / "file").stat().st_ino
    with swapped_with_link(root.path / "folder", outside):
        for number in range(300):
            with suppress(OSError):
                assert read(root, "folder/file") != SECRET
            with suppress(OSError):
                assert root.status("folder/file").st_ino != mine
            with suppress(OSError):
                write(root, f"folder/new-{number}/file")
            with suppress(OSError):
                root.remove_empty("folder/empty")
            assert not any(found.status.st_ino == mine for found in root.walk())
            with suppress(OSError):
                root.remove_file("folder/file")
    assert sorted(path.name for path in outside.iterdir()) == ["empty", "file"]
    assert (outside / "file").read_bytes() == SECRET


@pytest.mark.parametrize(
    "place", ["..", "../outside/file", "a//b", "folder/.", "./folder/file", "fol\0der", "/"]
)
def test_a_place_that_is_no_path_below_is_not_there(root: Root, outside: Path, place: str) -> None:
    for act in (read, write, Root.status, Root.remove_file, Root.entries):
        with pytest.raises(FileNotFoundError):
            act(root, place)


def test_only_a_file_is_opened(root: Root) -> None:
    os.mkfifo(root.path / "pipe")
    (root.path / "dangling").symlink_to("nothing")
    for place in ("folder", "pipe", "dangling", "nothing", "folder/file/x"):
        with pytest.raises(OSError):
            read(root, place)
    assert read(root.below("folder").below("file"), "") == b"own"


def test_an_error_while_a_file_is_written_leaves_what_was_there(root: Root) -> None:
    with pytest.raises(KeyboardInterrupt), root.publishing("folder/file") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert [found.name for found in root.entries("folder")] == ["file"]
    assert read(root, "folder/file") == b"own"


def test_only_folders_are_removed_as_empty(root: Root) -> None:
    (root.path / "deep" / "er").mkdir(parents=True)
    root.remove_empty("deep")
    assert not (root.path / "deep").exists()
    with pytest.raises(OSError):
        root.remove_empty()
    assert read(root, "folder/file") == b"own"
    root.remove_file("folder/file")
    root.remove_empty()
    assert not root.path.exists()


def test_a_deep_tree_is_walked(root: Root) -> None:
    deep = root.path
    for _ in range(900):
        deep = deep / "d"
    deep.mkdir(parents=True)
    assert len(list(root.walk("d"))) == 899
    root.remove_empty("d")
    assert not (root.path / "d").exists()


def test_what_vanishes_while_a_tree_is_walked_is_left_out(root: Root) -> None:
    for number in range(3):
        (root.path / f"folder{number}").mkdir()
        (root.path / f"folder{number}" / "part").touch()
    found = root.walk()
    first = next(found)
    for folder in root.path.iterdir():
        shutil.rmtree(folder)
    assert {each.place for each in (first, *found)} == {"folder", "folder0", "folder1", "folder2"}
