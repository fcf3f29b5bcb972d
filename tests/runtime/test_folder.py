"""A job's folder: locks that are handed to children, and the supervisor's wake-up call."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from vtrain.atomic import UNPUBLISHED
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.locks import hold_lock, lock_holder
from vtrain.runtime.spawning import spawn_holding

WAIT = "import os, sys; open(sys.argv[1]).read()"


@pytest.mark.child
def test_a_child_holds_the_lock_and_no_other_can_inherit_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever another thread starts meanwhile would keep the lock from being free again."""
    path = tmp_path / "lock"
    lock = hold_lock(path)
    assert lock is not None
    inheritable = []
    spawn = os.posix_spawn

    def watched(*arguments: Any, **options: Any) -> int:
        inheritable.append(os.get_inheritable(lock))
        return spawn(*arguments, **options)

    monkeypatch.setattr(os, "posix_spawn", watched)
    os.mkfifo(tmp_path / "end")
    argv = [sys.executable, "-c", WAIT, str(tmp_path / "end")]
    child = spawn_holding(lock, argv, dict(os.environ), tmp_path / "log")
    assert inheritable == [False]
    assert lock_holder(path) != 0
    (tmp_path / "end").write_bytes(b"")
    assert os.waitpid(child, 0)[1] == 0, (tmp_path / "log").read_text()
    assert lock_holder(path) == 0


@pytest.mark.child
def test_a_child_holds_nothing_else_that_this_process_has_inherited(tmp_path: Path) -> None:
    """A caller's lock would be held, and its pipe would stay open, as long as the job runs."""
    lock = hold_lock(tmp_path / "lock")
    assert lock is not None
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    os.mkfifo(tmp_path / "end")
    argv = [sys.executable, "-c", WAIT, str(tmp_path / "end")]
    child = spawn_holding(lock, argv, dict(os.environ), tmp_path / "log")
    os.close(writing)
    assert os.read(reading, 1) == b"", "the child still runs, and the pipe has ended"
    (tmp_path / "end").write_bytes(b"")
    assert os.waitpid(child, 0)[1] == 0
    os.close(reading)


@pytest.mark.child
@pytest.mark.parametrize("number", [3, 4])
def test_any_descriptor_can_be_handed_on(tmp_path: Path, number: int) -> None:
    program = (
        "import os, sys; from vtrain.runtime.locks import hold_lock\n"
        "from vtrain.runtime.spawning import spawn_holding\n"
        "lock = hold_lock(sys.argv[1]); number = int(sys.argv[2])\n"
        "held = os.dup2(lock, number, inheritable=False) if lock != number else lock\n"
        "child = spawn_holding(held, [sys.executable, '-c', 'import os, sys; os.fstat(int(sys.argv[1]))'],"
        " dict(os.environ), sys.argv[3])\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    argv = [sys.executable, "-c", program, str(tmp_path / "lock"), str(number), str(tmp_path / "log")]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    child = os.posix_spawn(argv[0], argv, environment)
    assert os.waitpid(child, 0)[1] == 0


def test_nobody_hears_a_call_without_a_supervisor(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    assert not folder.wake()
    os.mkfifo(folder.wake_fifo)
    assert not folder.wake()
    reader = os.open(folder.wake_fifo, os.O_RDONLY | os.O_NONBLOCK)
    assert folder.wake()
    assert os.read(reader, 10) == b"."
    os.close(reader)


def test_what_a_killed_supervisor_had_begun_to_write_goes(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    attempts = [folder.replica("workerpool0-0").path, folder.replica("workerpool0-0", 2).path]
    for place in (tmp_path, tmp_path / "trials", *attempts):
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{UNPUBLISHED}12-ab").touch()
        (place / f"{UNPUBLISHED}34-cd" / "of-a-trainer").mkdir(parents=True)
        (place / "spec.json").touch()
    folder.clear_unpublished()
    left = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert left == ["spec.json"] * 4
    assert not list(tmp_path.rglob(f"{UNPUBLISHED}*"))


@pytest.mark.parametrize("attempt", [0, 2])
def test_what_a_killed_shim_had_begun_to_write_goes_with_its_exit(tmp_path: Path, attempt: int) -> None:
    """Also when the supervisor that stored the exit was killed before it removed the rest."""
    replica = JobFolder(tmp_path).replica("workerpool0-0", attempt)
    replica.path.mkdir(parents=True)
    begun = {"exited.json", "exit.json.tmp", "started.json.tmp", "processes.json.tmp"}
    for name in begun:
        (replica.path / name).touch()
    JobFolder(tmp_path).clear_unpublished()
    assert {path.name for path in replica.path.iterdir() if path.is_file()} == begun  # its shim may live
    (replica.path / "exit.json").touch()
    JobFolder(tmp_path).clear_unpublished()
    assert [path.name for path in replica.path.iterdir() if path.is_file()] == ["exit.json"]
