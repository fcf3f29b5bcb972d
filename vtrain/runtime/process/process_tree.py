"""The processes of a replica: which there are, and signals to them. Standard library only: part of the shim.

A process is named by its id and the time at which it began, in ticks since the machine was started: the id
alone may be another process's by now. Without /proc a replica is one process group, named by a negative id.
"""

# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import os
import signal
import sys
import time

LINUX = sys.platform.startswith("linux")
PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

Process = tuple[int, int]
"""Process id and start time. The time is 0 where the kernel does not tell it."""


class Stat:
    """The fields of /proc/PID/stat that vtrain reads."""

    __slots__ = ("name", "parent", "session", "start", "state")

    def __init__(self, line: bytes) -> None:
        head, _, tail = line.rpartition(b")")  # the last one: a name may hold brackets and spaces
        fields = tail.split()
        self.name = head.partition(b"(")[2].decode("utf-8", "replace")
        self.state = fields[0].decode()
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.start = int(fields[19])

    @property
    def has_ended(self) -> bool:
        """Whether only its parent has not asked for its exit code yet."""
        return self.state in ("Z", "X")


def read_stat(pid: int) -> Stat | None:
    """A process as the kernel describes it; None for one that is gone, and where there is no /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return Stat(file.read())
    except (OSError, IndexError, ValueError):
        return None


def snapshot() -> dict[int, Stat]:
    """All living processes of this machine by their ids; none where there is no /proc."""
    try:
        names = os.listdir("/proc") if LINUX else []
    except OSError:
        return {}
    found = ((int(name), read_stat(int(name))) for name in names if name.isdigit())
    return {pid: stat for pid, stat in found if stat is not None and not stat.has_ended}


def descendants(child: int) -> set[Process]:
    """The living processes that came from this one. Without /proc: whether the child's group lives."""
    if not LINUX:
        return {(-child, 0)} if group_lives(child) else set()
    return offspring(os.getpid())


def offspring(parent: int) -> set[Process]:
    """The children of a process, their children, and so on; not the parent itself."""
    living = snapshot()
    return {(pid, living[pid].start) for pid in with_children({parent: ""}, living) if pid != parent}


def with_children(owners: dict[int, str], living: dict[int, Stat]) -> dict[int, str]:
    """The owners of these processes, and of their children, and so on; those that live."""
    children: dict[int, list[int]] = {}
    for pid, stat in living.items():
        children.setdefault(stat.parent, []).append(pid)
    found = {pid: owner for pid, owner in owners.items() if pid in living}
    waiting = [*owners.items()]
    while waiting:
        parent, owner = waiting.pop()
        new = {pid: owner for pid in children.pop(parent, ()) if pid not in found}
        found |= new
        waiting += new.items()
    return found


def identify(pid: int) -> Process:
    """The process that has this id now."""
    stat = read_stat(pid)
    return pid, stat.start if stat is not None else 0


def set_process_control(option: int, value: int) -> None:
    """Linux's prctl(2); elsewhere nothing."""
    if LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants that lose their own; only on Linux."""
    set_process_control(_PR_SET_CHILD_SUBREAPER, 1)


def is_alive(process: Process) -> bool:
    """Whether this very process still runs; without /proc, whether the group that it leads has members."""
    pid, start = process
    if not LINUX:
        return group_lives(pid)
    stat = read_stat(pid)
    return stat is not None and not stat.has_ended and stat.start == start


def group_lives(group: int) -> bool:
    """Whether a process group has members."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def signal_all(processes: set[Process], number: int) -> set[Process]:
    """Send a signal to processes, some of which may be gone by now; those that this user may not signal."""
    return {process for process in processes if not _send(process, number)}


def _send(process: Process, number: int) -> bool:
    """Whether the process has the signal, or is gone."""
    pid, start = process
    handle = _open(pid) if start else -1
    try:
        # Asked only now: while the descriptor is open, it is this process or none.
        if start and identify(pid)[1] != start:
            return True  # the id is another process's by now
        if handle >= 0:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        if handle >= 0:
            os.close(handle)
    return True


def _open(pid: int) -> int:
    """A descriptor that means this process, also when another has its id later; -1 where none can be had."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_id() -> str:
    """Different after each start of the machine; empty where the kernel does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def boot_seconds() -> float:
    """Seconds since the machine was started, the same for all processes, whatever is done to its clock."""
    return time.clock_gettime(_CLOCK)
