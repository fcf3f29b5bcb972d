"""Processes of a replica whose shim is gone, found by the temporary folder in their environment."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def kill_strays(tmp: Path) -> int:
    """Kill every process of this user whose TMPDIR is `tmp`; how many there were. Needs /proc."""
    marker = f"TMPDIR={tmp}".encode()
    strays = [pid for pid in processes() if marker in _environment(pid)]
    for pid in strays:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(strays)


def processes() -> list[int]:
    """The ids of all processes of this machine; none where there is no /proc."""
    proc = Path("/proc")
    if not (proc / "self" / "environ").exists():
        return []
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
