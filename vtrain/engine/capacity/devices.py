"""The GPUs of this machine, as NVIDIA's own tool lists them."""

from __future__ import annotations

import subprocess

import msgspec

TOOL = "nvidia-smi"
TOOL_SECONDS = 30.0
"""A driver that answers no more must not hold up the jobs that can run without it."""
_QUERY = ("--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader")
_FIELDS = 4


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. `index` may change when the machine starts again; the UUID does not. `memory` is in words."""

    index: str
    uuid: str
    name: str = ""
    memory: str = ""


def find_devices() -> tuple[Device, ...] | None:
    """The GPUs of this machine, in the order of their index; None where nothing here can list them."""
    try:
        done = subprocess.run(
            [TOOL, *_QUERY],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            errors="replace",
            timeout=TOOL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _read(done.stdout) if done.returncode == 0 else None


def _read(table: str) -> tuple[Device, ...]:
    """Rows such as `0, GPU-c5ae6bf1-…, NVIDIA L4, 23034 MiB`."""
    rows = [[field.strip() for field in line.split(",")] for line in table.splitlines()]
    devices = [
        Device(index=row[0], uuid=row[1], name=row[2], memory=row[3])
        for row in rows
        if len(row) == _FIELDS and row[0].isdecimal() and row[1]
    ]
    return tuple(sorted(devices, key=lambda device: int(device.index)))
