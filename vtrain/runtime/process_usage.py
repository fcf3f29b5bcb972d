"""The resources that a process and its descendants use now, from /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from vtrain.runtime.process_tree import LINUX, offspring, snapshot

_CPU_FIELDS = slice(11, 15)
"""utime, stime, and those of the children that have ended, counted from the field behind the name."""


class TreeUsage(NamedTuple):
    """Seconds of processor time so far, bytes of memory now, and the number of processes."""

    cpu_seconds: float
    memory_bytes: int
    processes: int


def tree_usage(parent: int) -> TreeUsage | None:
    """The use of all descendants of a process, without itself; None where there is no /proc.

    Memory that several processes share is counted once, where the kernel tells the shares.
    """
    if not LINUX:
        return None
    seconds, memory, count = 0.0, 0, 0
    for pid, _ in offspring({parent}, snapshot()):
        try:
            seconds += _cpu_seconds(pid)
            memory += _memory(pid)
        except (OSError, ValueError, IndexError):  # it has just ended
            continue
        count += 1
    return TreeUsage(seconds, memory, count)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return sum(map(int, fields[_CPU_FIELDS])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> int:
    """The proportional set size in bytes; the resident set size where this user may not read that."""
    try:
        shares = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    line = next(line for line in [*shares.splitlines(), "Pss: 0 kB"] if line.startswith("Pss:"))
    return int(line.split()[1]) * 1024
