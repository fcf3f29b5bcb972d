"""Processes of a replica whose shim is gone.

The replica's cgroup tells them all. Where there is none, the shim's list tells which processes there were:
whatever shares a session with one of them, or came from one of them, is the replica's too. At last the
temporary folder in a process's environment tells whose it is.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from vtrain.engine.boot import boot_id
from vtrain.engine.cgroup import find_groups, kill_group, members, remove_group
from vtrain.engine.folder import DamagedFileError, ReplicaFolder, read_struct
from vtrain.engine.process_tree import Process, Stat, offspring, signal_all, snapshot

KILL_SECONDS = 2.0
"""How long processes may take to be gone that have been sent SIGKILL."""
PAUSE_SECONDS = 0.01
LISTED = "processes.json"
"""The shim's list, in the folder of an attempt, where there is no cgroup."""

Find = Callable[[], set[Process]]


class Listed(msgspec.Struct, frozen=True):
    """The processes that a shim has seen, on that start of the machine."""

    boot_id: str = ""
    processes: tuple[tuple[int, int], ...] = ()


def kill_strays(attempt: ReplicaFolder) -> set[Process]:
    """Kill every process of this attempt that this user may kill; those that are left. Needs /proc."""
    groups = find_groups(attempt.group)
    left = end_all(lambda: _strays(attempt.path, groups), groups)
    if not left:
        (attempt.path / LISTED).unlink(missing_ok=True)
    return left


def end_all(find: Find, groups: Iterable[str]) -> set[Process]:
    """Kill what is found until nothing more is, and remove the groups; what cannot be ended."""
    deadline = time.monotonic() + KILL_SECONDS
    refused: set[Process] = set()
    for folder in groups:
        kill_group(folder)
    while time.monotonic() < deadline:
        left = find() - refused
        refused |= signal_all(left, signal.SIGKILL)
        if not left and not [folder for folder in groups if not remove_group(folder)]:
            break
        time.sleep(PAUSE_SECONDS)
    return find()


def group_members(folder: str, living: dict[int, Stat]) -> set[Process]:
    """The living members of a group."""
    return {(pid, living[pid].start) for pid in members(folder) if pid in living}


def listed_strays(attempt: Path, living: dict[int, Stat]) -> set[Process]:
    """The living processes that the shim's list tells of, and those that are in their sessions."""
    known = _listed(attempt, living)
    sessions = {living[pid].session for pid, _ in known} - {0, os.getsid(0)}
    peers = {(pid, stat.start) for pid, stat in living.items() if stat.session in sessions}
    return known | peers


def _strays(attempt: Path, groups: list[str]) -> set[Process]:
    living = snapshot()
    found = listed_strays(attempt, living)
    for folder in groups:
        found |= group_members(folder, living)
    marker = f"TMPDIR={attempt / 'tmp'}".encode()
    found |= {(pid, stat.start) for pid, stat in living.items() if marker in _environment(pid)}
    found |= offspring({pid for pid, _ in found}, living)
    return {process for process in found if process[0] != os.getpid()}


def _listed(attempt: Path, living: dict[int, Stat]) -> set[Process]:
    try:
        told = read_struct(attempt / LISTED, Listed)
    except DamagedFileError:
        return set()
    if told is None or told.boot_id != boot_id():
        return set()  # the same numbers are other processes' since the machine was started anew
    return {(pid, start) for pid, start in told.processes if pid in living and living[pid].start == start}


def _environment(pid: int) -> list[bytes]:
    """The environment that a process began with; nothing where it may not be read."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
