"""vtrain's home is its owner's alone."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from vtrain.atomic import publish_file
from vtrain.errors import HomeError
from vtrain.privacy import close_to_others, home_label, make_private, secure_home
from vtrain.runtime.store import Store


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> set[str]:
    """The modes of a folder and of what lies directly in it."""
    return {stat.filemode(path.lstat().st_mode) for path in (folder, *folder.iterdir())}


def test_what_is_made_is_private(umask: None, tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b")
    publish_file(tmp_path / "a" / "file", b"x")
    assert modes(tmp_path / "a") == {"drwx------", "-rw-------"}


def test_a_new_home(umask: None, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "home")
    assert modes(tmp_path / "home") == {"drwx------", "-rw-------"}
    store.close()


def test_an_old_home_is_closed(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    Store.open(home).close()
    opened = {"jobs": 0o755, "logs": 0o750, "store.db": 0o644, ".": 0o777}
    for name, mode in opened.items():
        if not (home / name).exists():
            (home / name).mkdir()
        (home / name).chmod(mode)
    elsewhere.mkdir()
    elsewhere.chmod(0o755)
    (home / "buckets").symlink_to(elsewhere)
    secure_home(home)
    found = {name: stat.S_IMODE((home / name).stat().st_mode) for name in opened}
    assert found == {"jobs": 0o700, "logs": 0o700, "store.db": 0o600, ".": 0o700}
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o755, "a link was followed"


def test_a_folder_that_holds_other_things_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "notes.txt").chmod(0o644)
    tmp_path.chmod(0o755)
    Store.open(tmp_path).close()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path, *tmp_path.iterdir())}
    assert modes == {tmp_path.name: 0o755, "notes.txt": 0o644, "store.db": 0o600}


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_folder_of_everybody_is_refused_and_left_alone(tmp_path: Path, mode: int) -> None:
    (tmp_path / "notes.txt").write_text("")
    tmp_path.chmod(mode)
    with pytest.raises(HomeError) as caught:
        Store.open(tmp_path)
    assert caught.value.message == f"Other users can write to {tmp_path}."
    assert caught.value.hint == (
        "Choose a folder of your own with VTRAIN_HOME, on a file system that keeps modes."
    )
    assert stat.S_IMODE(tmp_path.stat().st_mode) == mode
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_home_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    (tmp_path / "home").symlink_to(tmp_path / "elsewhere")
    secure_home(tmp_path / "home")
    assert stat.S_IMODE((tmp_path / "elsewhere").stat().st_mode) == 0o700


def test_a_file_in_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError) as caught:
        make_private(tmp_path / "file")
    assert str(caught.value) == f"[Errno {errno.ENOTDIR}] Not a directory: '{tmp_path / 'file'}'"


def test_a_path_through_a_folder_that_is_made_on_the_way(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / ".." / "a" / "b")
    assert modes(tmp_path / "a") == {"drwx------"}


def test_the_label_of_a_home(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "home")
    assert re.fullmatch("[0-9a-f]{16}", home_label(tmp_path / "home"))
    assert home_label(tmp_path / "link") == home_label(tmp_path / "home") != home_label(tmp_path)


def test_everything_that_a_job_leaves(umask: None, vtrain, vtrain_home: Path, tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text("print('trained')\n")
    pool = f"replica-count=1,machine-type=n1-standard-4,local-package-path={tmp_path},script=trainer.py"
    create = ["create", "--backend=process", "--display-name=a", "--base-output-dir=gs://bucket/run"]
    ended = vtrain("custom-jobs", *create, f"--worker-pool-spec={pool}", "--wait")
    assert ended.code == 0, ended.err
    top = {path: stat.S_IMODE(path.stat().st_mode) for path in (vtrain_home, *vtrain_home.iterdir())}
    assert {path.name for path, mode in top.items() if mode & 0o077} == set()
    inside = [path for place in ("jobs", "logs", "packages") for path in (vtrain_home / place).rglob("*")]
    files = [path for path in inside if path.is_file()]
    logs = [path for path in files if path.suffix in (".log", ".gz") or path.parent.name == "logs"]
    assert len(logs) > 4
    folders = [path for path in inside if path.is_dir()]
    assert [path for path in (*logs, *folders) if path.stat().st_mode & 0o077] == []


def test_what_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for mode, left in ((0o777, 0o700), (0o641, 0o600), (0o604, 0o600), (0o400, 0o400), (0o1750, 0o1700)):
        (tmp_path / "file").chmod(mode)
        close_to_others(tmp_path / "link")
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode
        close_to_others(tmp_path / "file")
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == left
    close_to_others(tmp_path / "gone")
    with pytest.raises(NotADirectoryError):
        close_to_others(tmp_path / "file" / "below")


def test_a_home_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(HomeError) as caught:
        secure_home(tmp_path)
    assert caught.value.message.startswith(f"{tmp_path} belongs to another user (uid {owner}), and vtrain")
    assert caught.value.hint == "Choose another folder with VTRAIN_HOME."


@pytest.mark.parametrize("names", [[], ["jobs", "logs"], ["store.db", "notes.txt"]])
def test_a_home_of_vtrain_s_own_is_closed(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o644)
    tmp_path.chmod(0o755)
    secure_home(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    found = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names}
    assert found == {name: 0o644 if name == "notes.txt" else 0o600 for name in names}
