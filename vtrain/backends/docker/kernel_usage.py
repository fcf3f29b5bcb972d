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


class KernelUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of memory at the most (0: not known), without files that the kernel can drop; and seconds."""

    peak_memory_bytes: int = 0
    cpu_seconds: float = 0.0

    def most(self, other: KernelUsage) -> KernelUsage:
        """The larger of both: the kernel's numbers only grow, what is dropped from them does not count."""
        return KernelUsage(
            peak_memory_bytes=max(self.peak_memory_bytes, other.peak_memory_bytes),
            cpu_seconds=max(self.cpu_seconds, other.cpu_seconds),
        )


def kernel_usage(container: str, groups: Path = GROUPS) -> KernelUsage | None:
    """The kernel's counters of a running container; None where this machine does not show them."""
    for place in PLACES:
        inside = place.format(id=container)
        try:
            if (groups / "memory").is_dir():  # the first version of control groups
                memory = groups / "memory" / inside
                used, dropped = memory / "memory.max_usage_in_bytes", "total_inactive_file"
                seconds = int((groups / "cpuacct" / inside / "cpuacct.usage").read_text()) / 1e9
            else:
                memory, dropped = groups / inside, "inactive_file"
                peak = memory / "memory.peak"  # since Linux 5.19
                used = peak if peak.exists() else memory / "memory.current"
                seconds = int(_field(memory / "cpu.stat", "usage_usec")) / 1e6
            held = int(used.read_text()) - int(_field(memory / "memory.stat", dropped))
        except (OSError, ValueError):  # another place, or it has just ended
            continue
        return KernelUsage(peak_memory_bytes=max(held, 0), cpu_seconds=seconds)
    return None


def _field(file: Path, name: str) -> str:
    """The text behind a name in a file of names and numbers; empty if the name is not there."""
    return dict(line.split(" ", 1) for line in file.read_text().splitlines()).get(name, "")
