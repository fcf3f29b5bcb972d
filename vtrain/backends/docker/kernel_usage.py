"""The usage of a running container, as the kernel counts it: its peak memory and processor time.

The kernel forgets both as soon as the container has ended. A machine does not show the control groups of an
engine that runs in a virtual machine or without root.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

GROUPS = Path("/sys/fs/cgroup")
PLACES = ("docker/{id}", "system.slice/docker-{id}.scope")
"""The control group of a container, by the engine's cgroup driver: cgroupfs, systemd."""


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
