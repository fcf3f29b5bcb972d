"""Atomic publishing: whole or not at all, through crashes and full disks."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from lib.privileges import mounted_tmpfs, run_bound

from vtrain import atomic
from vtrain.atomic import (
    UNPUBLISHED,
    publish_file,
    publishing_file,
    publishing_folder,
    remove_folder,
    scratch_folder,
)

KILLED_BETWEEN = """
import os, signal, sys
from pathlib import Path
from vtrain.atomic import publish_file, publishing_folder

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

os.replace = os.rename = die
target = Path(sys.argv[2])
if sys.argv[1] == "file":
    publish_file(target, b"new" * 1000)
else:
    with publishing_folder(target) as folder:
        (folder / "file").write_bytes(b"new" * 1000)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def killed_while_publishing(kind: str, target: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED_BETWEEN, kind, str(target)], timeout=60)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.parametrize("before", [None, b"old"])
def test_a_crash_before_the_rename_leaves_the_file_as_it_was(before: bytes | None, tmp_path: Path) -> None:
    target = tmp_path / "file"
    if before is not None:
        target.write_bytes(before)
    killed_while_publishing("file", target)
    assert (target.read_bytes() if target.exists() else None) == before
    left = [name for name in names(tmp_path) if name != "file"]
    assert len(left) == 1
    assert left[0].startswith(UNPUBLISHED)
    publish_file(target, b"next")
    assert target.read_bytes() == b"next"


def test_a_crash_before_the_rename_publishes_no_folder(tmp_path: Path) -> None:
    killed_while_publishing("folder", tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    with publishing_folder(tmp_path / "folder") as folder:
        (folder / "file").write_bytes(b"whole")
    assert (tmp_path / "folder" / "file").read_bytes() == b"whole"


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    with mounted_tmpfs(tmp_path / "small", "size=64k") as disk:
        publish_file(disk / "file", b"old")
        with pytest.raises(OSError, match="No space left"):
            publish_file(disk / "file", bytes(1 << 20))
        with pytest.raises(OSError, match="No space left"), publishing_folder(disk / "folder") as folder:
            (folder / "file").write_bytes(bytes(1 << 20))
        assert names(disk) == ["file"]
        assert (disk / "file").read_bytes() == b"old"


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_modes_are_those_asked_for(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        publish_file(tmp_path / "private", b"")
        publish_file(tmp_path / "program", b"", 0o755)
        publish_file(tmp_path / "fixed", b"", 0o400)
        with publishing_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"private": 0o600, "program": 0o755, "fixed": 0o400, "folder": 0o700}


def test_an_error_in_the_block_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), publishing_file(tmp_path / "file") as file:
        file.write_bytes(b"half")
        raise KeyError
    with pytest.raises(KeyError), publishing_folder(tmp_path / "folder") as folder:
        (folder / "half").touch()
        raise KeyError
    assert names(tmp_path) == []


def interrupted(work: Callable[[], None], step: int) -> bool:
    """Send Ctrl-C before one of the instructions of `atomic`, and of `with`; False once there are no more."""
    left = step

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        frame.f_trace_opcodes = frame.f_code.co_filename in (atomic.__file__, contextlib.__file__, __file__)
        if event == "opcode":
            left -= 1
            if left == 0:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 tells of opcodes only if it knows before settrace
    try:
        sys.settrace(trace)
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def write_in_folder(target: Path) -> None:
    with publishing_folder(target) as folder:
        (folder / "file").write_bytes(b"new")


def use_scratch(target: Path) -> None:
    with scratch_folder(target) as folder:
        (folder / "file").write_bytes(b"new")


@pytest.mark.parametrize("work", [lambda target: publish_file(target, b"new"), write_in_folder, use_scratch])
def test_an_interrupt_at_any_moment_leaves_nothing(
    work: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    work(tmp_path / "target")  # imports what it needs
    remove_folder(tmp_path / "target")
    step = 1
    while interrupted(lambda: work(tmp_path / "target"), step):
        assert set(names(tmp_path)) <= {"target"}, f"after {step} instructions"
        remove_folder(tmp_path / "target")
        step += 1
    assert step > 100


def test_a_folder_does_not_replace_another(tmp_path: Path) -> None:
    with publishing_folder(tmp_path / "folder") as first:
        (first / "file").write_bytes(b"first")
    (tmp_path / "taken").touch()
    for name in ("folder", "taken"):
        with pytest.raises(FileExistsError), publishing_folder(tmp_path / name) as second:
            (second / "file").write_bytes(b"second")
    assert (tmp_path / "folder" / "file").read_bytes() == b"first"
    assert names(tmp_path) == ["folder", "taken"]


def test_writers_at_once_never_mix(tmp_path: Path) -> None:
    target = tmp_path / "file"
    contents = [bytes([number]) * 100_000 for number in range(8)]
    threads = [threading.Thread(target=publish_file, args=(target, content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_bytes() in contents
    assert names(tmp_path) == ["file"]


def test_all_that_is_published_reaches_the_disk_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of the system's calls, which no crash of a process can show."""
    calls: list[str] = []
    sync, replace, rename = os.fsync, os.replace, os.rename

    def synced(descriptor: int) -> None:
        sync(descriptor)
        calls.append(f"sync {stat.filemode(os.fstat(descriptor).st_mode)[0]}")

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", lambda *paths: (replace(*paths), calls.append("rename")))
    monkeypatch.setattr(os, "rename", lambda *paths: (rename(*paths), calls.append("rename")))
    publish_file(tmp_path / "file", b"x")
    assert calls == ["sync -", "rename", "sync d"]
    calls.clear()
    with publishing_folder(tmp_path / "folder") as folder:
        (folder / "file").touch()
    assert calls == ["sync -", "sync d", "rename", "sync d"]


@pytest.mark.parametrize("times", [1, 1000])
def test_two_removals_of_one_folder_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """The other one moves a folder up when this one has emptied the top; what goes on for ever is told."""
    top, empty, count = tmp_path / "top", atomic.empty_folder, 0
    (top / "a" / "b").mkdir(parents=True)

    def meet(folder: Path | str, above: int | None = None) -> None:
        nonlocal count
        empty(folder, above)
        count += 1
        if count <= times:
            (Path(folder) / "moved" / "c").mkdir(parents=True)

    monkeypatch.setattr(atomic, "empty_folder", meet)
    if times == 1:
        atomic.remove_folder(top)
        assert list(tmp_path.iterdir()) == []
    else:
        with pytest.raises(OSError, match="not empty"):
            atomic.remove_folder(top)


def test_folders_that_a_program_has_closed_are_removed_too(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o500)
    folder = tmp_path / "job"
    for name, mode in (("read-only", 0o500), ("unreadable", 0o300), ("closed", 0)):
        (folder / name / "below").mkdir(parents=True)
        (folder / name / "below" / "file").touch()
        (folder / name / "link").symlink_to(mine)
        (folder / name / "below").chmod(0)
        (folder / name).chmod(mode)
    program = "import sys, pathlib, vtrain.atomic as atomic; atomic.remove_folder(pathlib.Path(sys.argv[1]))"
    removed = run_bound([sys.executable, "-c", program, str(folder)])
    assert (removed.returncode, removed.stderr) == (0, "")
    assert names(tmp_path) == ["mine"]
    assert stat.S_IMODE(mine.stat().st_mode) == 0o500
