"""The usage of containers: their peak memory and processor time, read from the kernel while they run.

The kernel forgets both as soon as a container has ended, so that they are looked at again and again: every
second, more often at first, and once more right when the end is seen. Where this machine does not show the
control groups of the engine (a virtual machine, a rootless engine), the engine is asked.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

GROUPS = Path("/sys/fs/cgroup")
PLACES = ("docker/{id}", "system.slice/docker-{id}.scope")
"""The control group of a container, by the engine's cgroup driver: cgroupfs, systemd."""
FIRST_SECONDS = 0.1
LONGEST_SECONDS = 1.0
MOST = 2**63
"""More than any counter of a kernel holds."""
ASKED_SECONDS = 5.0
"""The pause between two requests to the engine, which cost more."""

Ask = Callable[[str], Any]
"""The engine's statistics of a container, by its id: an object of any shape, or what else it answers."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of memory at the most (0: not known), without files that the kernel can drop; and seconds."""

    peak_memory_bytes: int = 0
    cpu_seconds: float = 0.0

    def most(self, other: Usage) -> Usage:
        """The larger of both: the kernel's numbers only grow, what is dropped from them does not count."""
        return Usage(
            peak_memory_bytes=max(self.peak_memory_bytes, other.peak_memory_bytes),
            cpu_seconds=max(self.cpu_seconds, other.cpu_seconds),
        )


class Meter(threading.Thread):
    """One thread for all containers of a job."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(name="meter", daemon=True)
        self._ask = ask
        self._lock = threading.Lock()
        self._more = threading.Event()
        self._found: dict[str, Usage] = {}
        self._due: dict[str, tuple[float, float]] = {}
        self._shown: set[str] = set()

    def add(self, container: str) -> None:
        """Measure a container from now on."""
        with self._lock:
            self._due[container] = (time.monotonic() + FIRST_SECONDS, FIRST_SECONDS)
            if self.ident is None:
                self.start()
        self._more.set()

    def look(self, container: str) -> None:
        """Measure it at this moment too, where the kernel shows it."""
        usage = kernel_usage(container)
        if usage is not None:
            self._note(container, usage)

    def usage(self, container: str) -> Usage:
        """The container's usage until now, as far as it was seen."""
        with self._lock:
            return self._found.get(container, Usage())

    def drop(self, container: str) -> None:
        """Measure it no more."""
        with self._lock:
            self._due.pop(container, None)
            self._found.pop(container, None)
            self._shown.discard(container)

    def run(self) -> None:
        """Measure for as long as the process lives."""
        while True:
            with self._lock:
                first_due = min((due for due, _ in self._due.values()), default=None)
            self._more.wait(max(first_due - time.monotonic(), 0.0) if first_due is not None else None)
            self._more.clear()
            with self._lock:
                all_due = tuple(self._due.items())
            for container, (due, pause) in all_due:
                if due <= time.monotonic():
                    self._measure(container, pause)

    def _measure(self, container: str, pause: float) -> None:
        usage = kernel_usage(container)
        next_pause = min(pause * 2, LONGEST_SECONDS)
        if usage is not None:
            self._shown.add(container)
        elif container not in self._shown:  # the kernel shows no longer what has ended
            usage, next_pause = self._ask_usage(container), ASKED_SECONDS
        self._note(container, usage or Usage())
        with self._lock:
            if container in self._due:
                self._due[container] = (time.monotonic() + next_pause, next_pause)

    def _ask_usage(self, container: str) -> Usage:
        """The engine's answer; an engine that cannot answer for one container is asked for the others."""
        try:
            return asked_usage(self._ask(container))
        except Exception:  # this thread serves all containers of the job
            traceback.print_exc()
            return Usage()

    def _note(self, container: str, usage: Usage) -> None:
        with self._lock:
            if container in self._due:
                self._found[container] = self._found.get(container, Usage()).most(usage)


def kernel_usage(container: str, groups: Path = GROUPS) -> Usage | None:
    """The kernel's counters of a running container; None where this machine does not show them."""
    for place in PLACES:
        inside = place.format(id=container)
        try:
            return (
                _first_version(groups, inside) if (groups / "memory").is_dir() else _second(groups / inside)
            )
        except (OSError, ValueError):  # another place, or it has just ended
            continue
    return None


def asked_usage(told: Any) -> Usage:
    """The same, from the engine's statistics; what they leave out, or null, is not known."""
    used = max(number_at(told, "memory_stats", "max_usage"), number_at(told, "memory_stats", "usage"))
    nanoseconds = number_at(told, "cpu_stats", "cpu_usage", "total_usage")
    return Usage(peak_memory_bytes=max(int(used) - droppable_bytes(told), 0), cpu_seconds=nanoseconds / 1e9)


def droppable_bytes(told: Any) -> int:
    """The files in the memory of the engine's statistics, which the kernel can drop.

    Control groups of version 1 have the first name, those of version 2 the second.
    """
    counts = (number_at(told, "memory_stats", "stats", f"{prefix}inactive_file") for prefix in ("total_", ""))
    return int(next(filter(None, counts), 0))


def number_at(document: Any, *path: str) -> float:
    """The number at a place in a document; 0 where there is none that counts anything."""
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    if isinstance(document, bool) or not isinstance(document, int | float):
        return 0
    return document if 0 <= document < MOST and math.isfinite(document) else 0


def _first_version(groups: Path, inside: str) -> Usage:
    memory = groups / "memory" / inside
    used = int((memory / "memory.max_usage_in_bytes").read_text())
    dropped = _field(memory / "memory.stat", "total_inactive_file")
    nanoseconds = int((groups / "cpuacct" / inside / "cpuacct.usage").read_text())
    return Usage(peak_memory_bytes=max(used - dropped, 0), cpu_seconds=nanoseconds / 1e9)


def _second(group: Path) -> Usage:
    peak = group / "memory.peak"  # since Linux 5.19
    used = int((peak if peak.exists() else group / "memory.current").read_text())
    dropped = _field(group / "memory.stat", "inactive_file")
    microseconds = _field(group / "cpu.stat", "usage_usec")
    return Usage(peak_memory_bytes=max(used - dropped, 0), cpu_seconds=microseconds / 1e6)


def _field(file: Path, name: str) -> int:
    """One number of a file of names and numbers. Raises ValueError where it is not there."""
    for line in file.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    raise ValueError(f"{file} has no {name}")
