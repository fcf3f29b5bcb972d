"""Which processes came from this one. Standard library only: part of the shim."""

# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import os
import sys


def descendants(child: int) -> set[int]:
    """The living processes that came from this one. Without /proc: whether the child's group lives."""
    if not sys.platform.startswith("linux"):
        return {-child} if group_lives(child) else set()
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        state, parent = read_stat(name)
        if state not in ("Z", "X"):
            children.setdefault(parent, []).append(int(name))
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            found.add(pid)
            waiting.append(pid)
    return found


def read_stat(pid: str) -> tuple[str, int]:
    """State and parent of a process; ("X", 0) for one that is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return "X", 0
    return fields[0].decode(), int(fields[1])


def group_lives(group: int) -> bool:
    """Whether a process group has members."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def signal_all(pids: set[int], number: int) -> None:
    """Send a signal to processes (negative: groups), some of which may be gone by now."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
