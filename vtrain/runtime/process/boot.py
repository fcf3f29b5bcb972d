"""The boot id and a monotonic clock. Standard library only, and little of it: part of the shim."""

# ruff: noqa: PTH123

from __future__ import annotations

import time

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
