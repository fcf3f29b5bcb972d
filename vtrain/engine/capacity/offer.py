"""What this machine gives to all jobs together: measured, or as the user has limited it."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import msgspec

from vtrain.engine.capacity.devices import Device, find_devices
from vtrain.engine.machines import HOST_MEMORY_PART
from vtrain.engine.sizes import MIB, read_size
from vtrain.errors import ConfigError
from vtrain.settings import Choice, machine_setting

NONE = "none"
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container, such as a CI runner, sees the memory that it has itself (cgroup 2 and 1)."""
_DEVICE = re.compile(r"[0-9]+|[A-Za-z]+-[0-9A-Za-z/-]+")


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """`memory_bytes` 0: memory is not leased. `accelerators` by UUID; None: nothing here can list them."""

    memory_bytes: int = 0
    accelerators: tuple[str, ...] | None = None


def machine_offer(*, accelerators: bool) -> Offer:
    """What jobs may lease now. GPUs are looked for only where `accelerators` says that a job wants some.

    Raises ConfigError for a limit that cannot be meant (`VTRAIN_MEMORY`, `VTRAIN_ACCELERATORS`).
    """
    limit = machine_setting("VTRAIN_ACCELERATORS", "accelerators")
    wanted = _device_names(limit)
    found: tuple[str, ...] | None = None
    if accelerators and wanted != ():
        found = _allowed(find_devices(), wanted, limit)
    return Offer(memory_bytes=_memory(), accelerators=() if wanted == () else found)


def physical_memory() -> int:
    """Bytes of memory that this machine has, or the container that we are in."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # no such limit, or the word `max`
            sizes.append(int(Path(path).read_text()))
    return min(sizes)


def _memory() -> int:
    limit = machine_setting("VTRAIN_MEMORY", "memory")
    if limit is None:
        return int(physical_memory() * HOST_MEMORY_PART)
    if limit.value == NONE:
        return 0
    hint = "Write 16g, or none where jobs should not wait for memory."
    try:
        size = read_size(limit.value)
    except ValueError:
        raise ConfigError(f"{limit.origin}: {limit.value!r} is not a size.", hint=hint) from None
    if size < MIB:
        raise ConfigError(f"{limit.origin}: {limit.value!r} is less than any job needs.", hint=hint)
    return size


def _device_names(limit: Choice | None) -> tuple[str, ...] | None:
    """The GPUs that are named; () for none at all, None where nothing is said."""
    if limit is None:
        return None
    if limit.value == NONE:
        return ()
    names = tuple(part.strip() for part in limit.value.split(","))
    if not all(_DEVICE.fullmatch(name) for name in names):
        raise ConfigError(
            f"{limit.origin}: {limit.value!r} is not a list of GPUs.",
            hint="Write none, indexes (0,1) or UUIDs (GPU-…), as `nvidia-smi -L` shows them.",
        )
    return names


def _allowed(
    devices: tuple[Device, ...] | None, wanted: tuple[str, ...] | None, limit: Choice | None
) -> tuple[str, ...] | None:
    """The UUIDs that may be leased. Raises ConfigError for a GPU that is named and not here."""
    if wanted is None or limit is None:
        return None if devices is None else tuple(device.uuid for device in devices)
    known = {name: device.uuid for device in devices or () for name in (device.index, device.uuid)}
    for name in wanted:
        if name not in known:
            here = ", ".join(device.uuid for device in devices or ()) or "none that nvidia-smi lists"
            raise ConfigError(
                f"{limit.origin}: this machine has no GPU {name}.", hint=f"Its GPUs are: {here}."
            )
    return tuple(dict.fromkeys(known[name] for name in wanted))
