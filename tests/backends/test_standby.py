"""A supervisor that waits for its job: it takes it, or ends and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from lib.local_jobs import ended, folder_of, kill, lines, processes_of, scripted, submit
from lib.supervisors import supervisor_of
from lib.waiting import wait_until

from vtrain.__main__ import _anticipate
from vtrain.backends import SUPERVISE
from vtrain.backends.local import LocalBackend
from vtrain.messages import states
from vtrain.runtime import supervisor_process
from vtrain.runtime.process.process_tree import identify, is_alive
from vtrain.runtime.supervisor_process import (
    Standby,
    dismiss_standby,
    new_job_id,
    stand_by,
)
from vtrain.testing.script import Script

pytestmark = pytest.mark.end_to_end


def waiting() -> Standby:
    assert supervisor_process._waiting is not None
    return supervisor_process._waiting


def test_the_supervisor_that_waits_takes_the_job(process_backend: LocalBackend, home: Path) -> None:
    stand_by(SUPERVISE, home, "process")
    standby = waiting()
    name = submit(process_backend, scripted(Script().write("x\n").hang()))
    folder = folder_of(home, name)
    assert name.endswith(f"/{standby.folder.name}")
    assert supervisor_of(folder) == standby.process
    wait_until(lambda: lines(process_backend, name) == ["x"])
    process_backend.cancel(name)
    assert ended(process_backend, name).state == states.CANCELLED
    assert (folder.path / "supervisor.log").read_bytes() == b""


def test_only_the_next_job_gets_it(process_backend: LocalBackend, home: Path) -> None:
    stand_by(SUPERVISE, home, "process")
    first = waiting().folder.name
    assert new_job_id(home.parent) != first
    names = [submit(process_backend, scripted(Script().exit(0))) for _ in range(2)]
    assert [name.endswith(first) for name in names] == [True, False]
    assert [ended(process_backend, name).state for name in names] == [states.SUCCEEDED] * 2


def test_another_one_waits_where_its_job_did_not_come(process_backend: LocalBackend, home: Path) -> None:
    stand_by(SUPERVISE, home, "process")
    first = waiting()
    assert new_job_id(home) == first.folder.name
    stand_by(SUPERVISE, home, "process")
    second = waiting()
    assert not is_alive(identify(first.process))
    name = submit(process_backend, scripted(Script().exit(0)))
    assert name.endswith(f"/{second.folder.name}")
    assert ended(process_backend, name).state == states.SUCCEEDED


def test_a_job_whose_standby_was_killed_gets_another_supervisor(
    process_backend: LocalBackend, home: Path
) -> None:
    stand_by(SUPERVISE, home, "process")
    kill(waiting().process)
    wait_until(lambda: not is_alive(identify(waiting().process)))
    name = submit(process_backend, scripted(Script().exit(0)))
    assert ended(process_backend, name).state == states.SUCCEEDED


def test_a_standby_without_a_job_is_dismissed(home: Path) -> None:
    stand_by(SUPERVISE, home, "docker")
    process = identify(waiting().process)
    dismiss_standby()
    assert not is_alive(process)
    assert supervisor_process._waiting is None
    assert not home.exists()


def test_a_standby_ends_with_its_command(home: Path) -> None:
    program = (
        "import os, pathlib, sys\n"
        "from vtrain.backends import SUPERVISE\n"
        "from vtrain.runtime import supervisor_process as own\n"
        "own.stand_by(SUPERVISE, pathlib.Path(sys.argv[1]), 'process')\n"
        "print(own._waiting.process, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    told = subprocess.run([sys.executable, "-c", program, str(home)], capture_output=True, text=True)
    assert told.stdout.strip().isdigit(), told.stderr
    wait_until(lambda: processes_of(home) == {})
    assert not home.exists()


@pytest.mark.parametrize("flag", ["--no-such-flag", "--local-package-path=/nonexistent"])
def test_a_command_that_fails_leaves_no_process(home: Path, flag: str) -> None:
    argv = [sys.executable, "-m", "vtrain", "custom-jobs", "local-run", "--python-module=a.b", flag]
    assert subprocess.run(argv, capture_output=True).returncode in (1, 2)
    assert processes_of(home) == {}
    assert not (home / "jobs").exists()


@pytest.mark.parametrize(
    ("line", "backend"),
    [
        ("custom-jobs local-run --backend=docker --python-module=a", "docker"),
        ("--verbosity=debug custom-jobs local-run", ""),
        ("custom-jobs local-run --dry-run", None),
        ("custom-jobs local-run --help", None),
        ("custom-jobs create --backend=docker", "docker"),
        ("custom-jobs create --backend=vertex", None),
        ("custom-jobs create", None),
        ("custom-jobs list --backend=docker", None),
        ("", None),
    ],
)
def test_a_local_job_is_anticipated(
    home: Path, monkeypatch: pytest.MonkeyPatch, line: str, backend: str | None
) -> None:
    started: list[tuple[Path, Path, str]] = []
    monkeypatch.setattr(supervisor_process, "stand_by", lambda *order: started.append(order))
    _anticipate(line.split())
    assert started == ([] if backend is None else [(SUPERVISE, home, backend)])
