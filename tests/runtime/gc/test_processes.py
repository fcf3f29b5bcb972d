"""Daemons of jobs that do not live, without an environment: found by cgroup, or by their shim's list."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lib.waiting import wait_until

import vtrain
from vtrain.privacy import make_private
from vtrain.runtime.folder import JobFolder, ReplicaFolder
from vtrain.runtime.gc.candidate import Candidate, Search
from vtrain.runtime.gc.sweep import orphaned_cgroups, orphaned_processes
from vtrain.runtime.job_order import ReplicaOrder
from vtrain.runtime.locks import hold_lock
from vtrain.runtime.orphans import LISTED
from vtrain.runtime.process.cgroup import find_groups, make_group
from vtrain.runtime.process.process_tree import identify, is_alive, snapshot

pytestmark = pytest.mark.child

SHIM = Path(vtrain.__file__).parent / "runtime" / "process" / "shim.py"
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"], {})
time.sleep(600)
"""


def leave_daemon(replica: ReplicaFolder, *, groups: str) -> tuple[int, int]:
    """A daemon whose trainer and shim were killed."""
    make_private(replica.job.logs)
    log = str(replica.job.logs / replica.name)
    argv = (sys.executable, "-c", DAEMON)
    wake = str(replica.job.wake_fifo)
    replica.order(ReplicaOrder(argv=argv, env={}, log=log, wake=wake, grace_seconds=1.0, groups=groups))
    lock = hold_lock(replica.lock)
    assert lock is not None
    shim = subprocess.Popen(
        [sys.executable, "-I", "-S", str(SHIM), str(replica.path), str(lock)], pass_fds=[lock]
    )
    os.close(lock)
    found: list[int] = []
    wait_until(lambda: found.extend(daemons_of(shim.pid)) or found)
    daemon = identify(found[0])
    wait_until(lambda: groups or str(daemon[0]) in (replica.path / LISTED).read_text())
    trainers = [identify(pid) for pid in children(shim.pid)]
    shim.send_signal(signal.SIGKILL)
    shim.wait()
    wait_until(lambda: not any(map(is_alive, trainers)))  # which the kernel ends with their shim
    return daemon


def daemons_of(shim: int) -> list[int]:
    """Processes below the trainer that have an environment of nothing."""
    found = []
    for trainer in children(shim):
        for pid in children(trainer):
            if Path(f"/proc/{pid}/environ").read_bytes() == b"":
                found += [pid] if b"-I" in Path(f"/proc/{pid}/cmdline").read_bytes() else []
    return found


def children(parent: int) -> list[int]:
    return [pid for pid, stat in snapshot().items() if stat.parent == parent]


@pytest.mark.parametrize("way", ["cgroup", "list"])
def test_gc_ends_daemons_that_nothing_else_tells_of(tmp_path: Path, way: str) -> None:
    home = tmp_path / "home"
    replica = JobFolder(home / "jobs" / "1234567890123456789").replica("workerpool0-0")
    if way == "cgroup":
        folder = make_group(replica.group)
        if not folder:
            pytest.skip("this user may make no cgroup here")
    daemon = leave_daemon(replica, groups=replica.groups if way == "cgroup" else "")
    other = Search(home=tmp_path / "other", older_than=0.0, now=time.time())
    assert list(orphaned_processes(other)) == []
    found = swept(home)
    assert [(candidate.kind, candidate.id) for candidate in found if candidate.kind == "process"] == [
        ("process", str(daemon[0]))
    ]
    assert {candidate.kind for candidate in found} == {"process"} | ({"cgroup"} if way == "cgroup" else set())
    wait_until(lambda: not is_alive(daemon))
    wait_until(lambda: not swept(home))
    assert find_groups(replica.group) == []


def swept(home: Path) -> list[Candidate]:
    """What was found, and removed."""
    found = []
    for find in (orphaned_processes, orphaned_cgroups):
        for candidate in find(Search(home=home, older_than=0.0, now=time.time())):
            assert candidate.discard() in ("", "it has a process")
            found.append(candidate)
    return found
