"""The boot id and a monotonic clock."""

from __future__ import annotations

import time
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_id() -> str:
    """Different after each start of the machine; empty where the kernel does not say."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def boot_seconds() -> float:
    """Seconds since the machine was started, the same for all processes, whatever is done to its clock."""
    return time.clock_gettime(_CLOCK)
