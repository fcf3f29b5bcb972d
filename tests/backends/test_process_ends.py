"""Ends of process replicas that remove their own folders, or leave daemons behind."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lib.local_jobs import (
    PRIMARY,
    ended,
    folder_of,
    info,
    kill,
    kill_shim,
    kill_supervisor,
    lines,
    reason,
    snippet_job,
    submit,
)
from lib.waiting import wait_until

from vtrain.backends.local import LocalBackend
from vtrain.backends.process import process_launcher
from vtrain.backends.process.process_launcher import ProcessLauncher
from vtrain.messages import states
from vtrain.messages.custom_job import Scheduling
from vtrain.privacy import make_private
from vtrain.runtime.folder import JobFolder, LeftProcess, ReplicaExit, ReplicaFolder, write_struct
from vtrain.runtime.job_order import ReplicaOrder
from vtrain.runtime.log.service_log import ServiceLog
from vtrain.runtime.orphans import kill_orphans
from vtrain.runtime.process.cgroup import find_groups
from vtrain.runtime.process.process_tree import identify, is_alive, signal_all
from vtrain.testing.script import Script, script_job

pytestmark = pytest.mark.end_to_end

REMOVING = """
import os, pathlib, shutil, sys, time
what, code = sys.argv[1], int(sys.argv[2])
replica = pathlib.Path(os.environ["TMPDIR"]).parent
while not (replica / "started.json").exists():
    time.sleep(0.01)
shutil.rmtree({"work": os.getcwd(), "tmp": os.environ["TMPDIR"], "replica": replica}[what])
print("gone", flush=True)
time.sleep(600 if code < 0 else 0.7)
os._exit(code)
"""
DAEMON = """
import os, signal, sys, time
program = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", program], {})
time.sleep(600)
"""
ONCE = Scheduling(disable_retries=True)


@pytest.mark.parametrize(("what", "code"), [("work", 0), ("tmp", 7), ("replica", 0), ("replica", 134)])
def test_a_trainer_that_removes_its_folder_has_its_exit_code(
    process_backend: LocalBackend, tmp_path: Path, what: str, code: int
) -> None:
    name = submit(process_backend, snippet_job(tmp_path / "src", REMOVING, what, str(code)))
    job = ended(process_backend, name)
    assert job.state == (states.FAILED if code else states.SUCCEEDED), job.error
    assert code == 0 or info(job)["exitCode"] == str(code)
    assert lines(process_backend, name) == ["gone"]


def test_a_trainer_that_removed_its_folder_and_lost_its_shim(
    process_backend: LocalBackend, home: Path, tmp_path: Path
) -> None:
    name = submit(process_backend, snippet_job(tmp_path / "src", REMOVING, "replica", "-1"))
    folder = folder_of(home, name)
    lock = folder.replica(PRIMARY).lock
    wait_until(lambda: lock.exists() and lock.read_text() != "")
    shim = int(lock.read_text())
    wait_until(lambda: lines(process_backend, name) == ["gone"])
    kill_supervisor(folder)
    kill(shim)
    job = ended(process_backend, name)
    assert job.error is not None
    assert (
        job.error.message
        == f"The folder of the replica {PRIMARY} was removed while it ran: how it ended is not known."
    )
    assert (job.state, reason(job)) == (states.FAILED, "SUPERVISION_LOST")


@pytest.mark.parametrize("alone", [False, True], ids=["supervised", "alone"])
def test_a_daemon_ends_with_its_shim(
    process_backend: LocalBackend, home: Path, tmp_path: Path, alone: bool
) -> None:
    name = submit(process_backend, snippet_job(tmp_path / "src", DAEMON, scheduling=ONCE))
    folder = folder_of(home, name)
    wait_until(
        lambda: process_backend.get(name).state == states.RUNNING and lines(process_backend, name) != []
    )
    daemon = identify(int(lines(process_backend, name)[0]))
    if alone:
        kill_supervisor(folder)
    kill_shim(folder)
    job = ended(process_backend, name)
    assert (job.state, reason(job)) == (states.FAILED, "SUPERVISION_LOST")
    wait_until(lambda: not is_alive(daemon))
    assert find_groups(folder.replica(PRIMARY).group) == []


def test_a_daemon_ends_with_a_job_whose_folder_was_removed(
    process_backend: LocalBackend, home: Path, tmp_path: Path
) -> None:
    name = submit(process_backend, snippet_job(tmp_path / "src", DAEMON))
    folder = folder_of(home, name)
    wait_until(
        lambda: process_backend.get(name).state == states.RUNNING and lines(process_backend, name) != []
    )
    daemon = identify(int(lines(process_backend, name)[0]))
    folder.path.rename(home / "aside")
    shutil.rmtree(home / "aside")
    assert reason(ended(process_backend, name)) == "SUPERVISION_LOST"
    wait_until(lambda: not is_alive(daemon))


def test_a_program_that_has_ended_did_not_outlive_a_later_end(tmp_path: Path) -> None:
    """Its shim still ends what it left. The ends of replicas are compared by the times of their programs."""
    replica = folder_of(tmp_path, "projects/p/locations/l/customJobs/1").replica(PRIMARY)
    make_private(replica.path)
    write_struct(replica.path / "exited.json", ReplicaExit(code=3, started=1.0, ended=5.0))
    launcher = ProcessLauncher()
    assert [launcher.outlived(replica, moment) for moment in (4.0, 5.0, 6.0)] == [True, True, False]


COUNTING = """
import fcntl, os, signal, sys, time
heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
os.write(lock, str(os.getpid()).encode())
print("here", flush=True)
sys.stdin.read()
print(len(heard))
"""


def test_a_shim_is_asked_once_to_stop_its_replica(tmp_path: Path) -> None:
    """One that has not begun yet is asked when it has."""
    replica, launcher = ReplicaFolder(tmp_path / "workerpool0-0"), ProcessLauncher()
    replica.path.mkdir()
    launcher.stop(replica)
    argv = [sys.executable, "-c", COUNTING, str(replica.lock)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shim:
        assert shim.stdout is not None
        assert shim.stdout.readline() == "here\n"
        for _ in range(100):
            launcher.stop(replica)
            time.sleep(0.002)
        assert shim.communicate()[0] == "1\n"
    assert not launcher.lives(replica)


def sleeping(home: Path) -> ReplicaFolder:
    """A replica that was ordered, and will sleep."""
    replica = JobFolder(home / "jobs" / "1").replica(PRIMARY)
    order = ReplicaOrder(
        argv=("sleep", "600"),
        env={"PATH": os.environ["PATH"]},
        log=str(home / "jobs" / "1" / "logs" / PRIMARY),
        wake=str(home / "wake"),
        grace_seconds=1,
    )
    replica.order(order)
    return replica


def test_a_replica_that_is_killed_has_its_exit_code(tmp_path: Path) -> None:
    replica, launcher = sleeping(tmp_path), ProcessLauncher()
    launcher.start(replica)
    wait_until(replica.started)
    assert launcher.kill([replica]) == {}
    end = replica.exit()
    assert end is not None and (end.code, end.stopped, end.interruption) == (137, True, "")


@pytest.mark.parametrize("seconds", [0.5, 600])
def test_a_replica_that_is_killed_while_its_shim_starts_never_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """The shim has not said its number yet: on a busy machine that takes long."""
    monkeypatch.setattr(process_launcher, "SHIM_KILL_SECONDS", 2.0)
    slow = tmp_path / "python"
    begin = f'sleep {seconds}\nexec {sys.executable} "$@"' if seconds < 1 else f"exec sleep {seconds}"
    slow.write_text(f"#!/bin/sh\n{begin}\n")
    slow.chmod(0o755)
    replica, launcher = sleeping(tmp_path), ProcessLauncher()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", str(slow))
        launcher.start(replica)
    launcher.kill([replica])
    assert not launcher.lives(replica)
    time.sleep(min(seconds, 1.0))
    assert not launcher.lives(replica) and kill_orphans([replica]) == set()


def test_a_process_with_the_id_of_a_shim_is_left_alone(tmp_path: Path) -> None:
    """The id in a lock may be another process's by now: whoever holds the lock is the shim."""
    replica, launcher = (
        ReplicaFolder(tmp_path / "jobs" / "1" / "replicas" / "workerpool0-0"),
        ProcessLauncher(),
    )
    replica.path.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1) as other:
        replica.lock.write_text(str(other.pid))
        launcher.stop(replica)
        launcher.kill([replica])
        assert not launcher.lives(replica)
        held = os.open(replica.lock, os.O_RDWR)
        fcntl.flock(held, fcntl.LOCK_EX)
        assert launcher.lives(replica)
        launcher._shims[replica] = (other.pid, 1)  # as an earlier process of that id was known
        launcher.stop(replica)
        os.close(held)
        assert other.communicate() == (None, None)
    assert other.returncode == 0


def test_processes_that_could_not_be_ended_are_named(process_backend: LocalBackend, home: Path) -> None:
    name = submit(process_backend, script_job(Script()))
    job = ended(process_backend, name)
    attempt = folder_of(home, job.name).replica(PRIMARY)
    left = (LeftProcess(pid=12, name="sleep", user=0), LeftProcess(pid=13))
    write_struct(attempt.path / "exit.json", ReplicaExit(code=0, started=1.0, ended=2.0, left=left))
    log = ServiceLog(folder_of(home, name))
    log.tell_losses((attempt,))
    log.close()
    assert lines(process_backend, name, "service")[-2:] == [
        f"The process 12 (sleep, of the user root) of {PRIMARY} could not be ended, and goes on.",
        f"The process 13 of {PRIMARY} could not be ended, and goes on.",
    ]


def test_a_signal_is_not_sent_to_a_later_process_of_that_id() -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1) as other:
        pid, start = identify(other.pid)
        assert signal_all({(pid, start - 1)}, signal.SIGKILL) == set()
        other.communicate()
        assert other.returncode == 0
