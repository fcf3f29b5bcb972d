"""Orphaned processes of a replica whose shim is gone, and the lines in its pipes that nobody has read.

The replica's cgroup tells all its processes: none can leave it. Where there is no cgroup, the shim's list
tells which there were: every process in the session of one of them, or that came from one of them, is the
replica's too. The rest is found by TMPDIR in the environment of a process, which names its replica's folder.

The supervisor opens a second reading end of the pipes in /proc while the shim lives, and reads from it only
when the shim is gone. Where the kernel has no /proc, or both die together, unread lines are lost.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from vtrain.atomic import discard
from vtrain.retry import wait_until
from vtrain.runtime.folder import DamagedFileError, ReplicaFolder, read_struct, require_struct
from vtrain.runtime.job_order import ReplicaOrder
from vtrain.runtime.process.cgroup import find_groups, kill_group, members, remove_group
from vtrain.runtime.process.journal import STDERR, STDOUT, JournalWriter
from vtrain.runtime.process.process_tree import Process, Stat, boot_id, signal_all, snapshot, with_children

KILL_SECONDS = 2.0
"""How long processes may take to be gone that have been sent SIGKILL."""
PAUSE_SECONDS = 0.01
LISTED = "processes.json"
"""The shim's list, in the folder of an attempt, where there is no cgroup."""
PATIENCE_SECONDS = 2.0
"""How long the writers, which were killed, may take to be gone."""
_BLOCK_BYTES = 65536

Find = Callable[[], set[Process]]


class ListedProcesses(msgspec.Struct, frozen=True):
    """The processes that a shim has seen, on that start of the machine."""

    boot_id: str = ""
    processes: tuple[tuple[int, int], ...] = ()


def kill_orphans(attempts: Sequence[ReplicaFolder]) -> set[Process]:
    """Kill every process of these attempts that this user may kill; those that are left. Needs /proc."""
    found = {attempt: find_groups(attempt.group) for attempt in attempts}
    groups = {folder: attempt.name for attempt, folders in found.items() for folder in folders}
    others = {attempt.path: attempt.name for attempt, folders in found.items() if not folders}
    marks = {attempt / "tmp": name for attempt, name in others.items()}

    def orphans() -> set[Process]:
        processes = find_processes(groups, others, (lambda mark: marks.get(mark, "")) if marks else None)
        return {process for process in processes if process[0] != os.getpid()}

    left = end_all(orphans, groups)
    if not left:
        for attempt in attempts:
            discard(attempt.path / LISTED)
    return left


def end_all(find: Find, groups: Iterable[str]) -> set[Process]:
    """Kill what is found until nothing more is, and remove the groups; what cannot be ended."""
    refused: set[Process] = set()
    for folder in groups:
        kill_group(folder)

    def all_gone() -> bool:
        left = find() - refused
        refused.update(signal_all(left, signal.SIGKILL))
        kept = [folder for folder in groups if not remove_group(folder)]
        return not left and not kept

    wait_until(all_gone, KILL_SECONDS, PAUSE_SECONDS)
    return find()


def find_processes(
    groups: Mapping[str, str], attempts: Mapping[Path, str], owner_of: Callable[[Path], str] | None
) -> dict[Process, str]:
    """The living processes of replicas and all that came from them, each with its owner. Needs /proc.

    `groups` has the owners of cgroups, and `attempts` those of folders in which a shim may have left its
    list. `owner_of` answers for a TMPDIR, nothing for anybody else's; with None no process is asked for its.
    """
    living = snapshot()
    found: dict[Process, str] = {}
    for folder, owner in groups.items():
        found |= dict.fromkeys(((pid, living[pid].start) for pid in members(folder) if pid in living), owner)
    for attempt, owner in attempts.items():
        listed = _listed(attempt, living)
        sessions = {living[pid].session for pid, _ in listed} - {0, os.getsid(0)}
        peers = ((pid, stat.start) for pid, stat in living.items() if stat.session in sessions)
        found |= dict.fromkeys((*listed, *peers), owner)
    if owner_of is not None:
        owners = ((pid, owner_of(own)) for pid in living if (own := _temporary_folder(pid)))
        found |= {(pid, living[pid].start): owner for pid, owner in owners if owner}
    owned = {pid: owner for (pid, _), owner in found.items()}
    return {(pid, living[pid].start): owner for pid, owner in with_children(owned, living).items()}


def _listed(attempt: Path, living: dict[int, Stat]) -> set[Process]:
    try:
        listed = read_struct(attempt / LISTED, ListedProcesses)
    except DamagedFileError:
        return set()
    if listed is None or listed.boot_id != boot_id():
        return set()  # the same numbers are other processes' since the machine was started anew
    return {(pid, start) for pid, start in listed.processes if pid in living and living[pid].start == start}


def _temporary_folder(pid: int) -> Path | None:
    """The TMPDIR that a process began with; None where its environment has none, or may not be read."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    mark = next((entry for entry in environment if entry.startswith(b"TMPDIR=")), b"")
    return Path(os.fsdecode(mark.partition(b"=")[2])) if mark else None


def open_pipes(replica: ReplicaFolder, shim: int) -> dict[int, int]:
    """Stream by descriptor of a living shim's pipes; empty where they cannot be had."""
    found: dict[int, int] = {}
    for number, stream in zip(replica.shim_pipes, (STDOUT, STDERR), strict=False):
        path = Path(f"/proc/{shim}/fd/{number}")
        try:
            if str(path.readlink()).startswith("pipe:"):  # its number may be another file's by now
                found[os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)] = stream
        except OSError:
            continue
    return found


def salvage(replica: ReplicaFolder, pipes: dict[int, int]) -> None:
    """Store what is left in the pipes of a shim that is gone, as are all that could write to them.

    Raises DamagedFileError where the replica's order cannot be read; the pipes are closed then.
    """
    try:
        order = require_struct(replica.path / "spec.json", ReplicaOrder)
    except DamagedFileError:
        close_pipes(pipes)
        raise
    poller = select.poll()  # not select(), which takes no descriptor above 1023: a job may have many replicas
    for pipe in pipes:
        poller.register(pipe, select.POLLIN)
    with closing(JournalWriter(order.log, order.attempt)) as journal:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while pipes and (left := deadline - time.monotonic()) > 0:
            for pipe, _ in poller.poll(left * 1000):
                block = os.read(pipe, _BLOCK_BYTES)
                if block:
                    journal.write(block, pipes[pipe])
                else:
                    poller.unregister(pipe)
                    os.close(pipe)
                    del pipes[pipe]
    close_pipes(pipes)


def close_pipes(pipes: dict[int, int]) -> None:
    """Let the pipes go."""
    while pipes:
        os.close(pipes.popitem()[0])
