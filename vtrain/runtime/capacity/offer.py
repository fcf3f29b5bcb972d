"""The memory and GPUs of this machine for all jobs together, as measured or limited by the user, and the part
that a job needs for itself alone."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path

import msgspec

from vtrain.errors import ConfigError
from vtrain.messages.custom_job import CustomJobSpec, MachineSpec
from vtrain.runtime.capacity.leases import Claim
from vtrain.runtime.machines import HOST_MEMORY_PART, gpu_count, machine_memory
from vtrain.runtime.replica.vertex_view import replica_ids
from vtrain.settings import machine_setting
from vtrain.sizes import MIB, read_size

TOOL = "nvidia-smi"
TOOL_SECONDS = 30.0
"""A driver that answers no more must not hold up the jobs that can run without it."""
_QUERY = ("--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader")
_USE_QUERY = (
    "--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total",
    "--format=csv,noheader,nounits",
)
_FIELDS = 4
NONE = "none"
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""The files in which a container, such as a CI runner, sees its own memory limit (cgroup 2 and 1)."""
_DEVICE = re.compile(r"[0-9]+|[A-Za-z]+-[0-9A-Za-z/-]+")


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. `index` may change when the machine starts again; the UUID does not. `memory` is in words."""

    index: str
    uuid: str
    name: str = ""
    memory: str = ""


def find_devices() -> tuple[Device, ...] | None:
    """The GPUs of this machine, in the order of their index; None where nothing here can list them."""
    rows = _rows(_QUERY)
    if rows is None:
        return None
    devices = [  # rows such as `0, GPU-c5ae6bf1-…, NVIDIA L4, 23034 MiB`
        Device(index=row[0], uuid=row[1], name=row[2], memory=row[3])
        for row in rows
        if len(row) == _FIELDS and row[0].isdecimal() and row[1]
    ]
    return tuple(sorted(devices, key=lambda device: int(device.index)))


class DeviceUse(msgspec.Struct, frozen=True, kw_only=True):
    """The present use of one GPU: per cent of its time, and MiB of its memory."""

    index: str
    uuid: str
    percent: float
    memory_mib: float
    memory_total_mib: float


def device_uses() -> tuple[DeviceUse, ...]:
    """The GPUs of this machine as nvidia-smi sees them now; none where it lists none."""
    found = []
    for row in _rows(_USE_QUERY) or ():
        with suppress(ValueError):  # `[N/A]`: this GPU does not tell
            index, uuid, *figures = row
            percent, used, total = map(float, figures)
            found.append(
                DeviceUse(index=index, uuid=uuid, percent=percent, memory_mib=used, memory_total_mib=total)
            )
    return tuple(found)


def _rows(query: tuple[str, ...]) -> list[list[str]] | None:
    """The fields of a query's rows; None where nvidia-smi is not there, or does not answer."""
    try:
        done = subprocess.run(
            [TOOL, *query],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            errors="replace",
            timeout=TOOL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return [[field.strip() for field in line.split(",")] for line in done.stdout.splitlines()]


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """`memory_bytes` 0: memory is not leased. `accelerators` by UUID; None: nothing here can list them."""

    memory_bytes: int = 0
    accelerators: tuple[str, ...] | None = None


def machine_offer(*, accelerators: bool) -> Offer:
    """The memory and GPUs that jobs may lease now.

    GPUs are looked for only where `accelerators` says that a job wants some.
    Raises ConfigError for a limit that cannot be meant (`VTRAIN_MEMORY`, `VTRAIN_ACCELERATORS`).
    """
    return Offer(memory_bytes=_memory(), accelerators=_accelerators(looks=accelerators))


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


def _accelerators(*, looks: bool) -> tuple[str, ...] | None:
    """The UUIDs that may be leased; None where nobody `looks` for them, or nothing here can list them."""
    limit = machine_setting("VTRAIN_ACCELERATORS", "accelerators")
    if limit is not None and limit.value == NONE:
        return ()
    names = [part.strip() for part in limit.value.split(",")] if limit is not None else []
    if limit is not None and not all(_DEVICE.fullmatch(name) for name in names):
        raise ConfigError(
            f"{limit.origin}: {limit.value!r} is not a list of GPUs.",
            hint="Write none, indexes (0,1) or UUIDs (GPU-…), as `nvidia-smi -L` shows them.",
        )
    devices = find_devices() if looks else None
    if limit is None or not looks:
        return None if devices is None else tuple(device.uuid for device in devices)
    known = {name: device.uuid for device in devices or () for name in (device.index, device.uuid)}
    for name in names:
        if name not in known:
            here = ", ".join(device.uuid for device in devices or ()) or "none that nvidia-smi lists"
            raise ConfigError(
                f"{limit.origin}: this machine has no GPU {name}.", hint=f"Its GPUs are: {here}."
            )
    return tuple(dict.fromkeys(known[name] for name in names))


def claim_of(spec: CustomJobSpec, offer: Offer, *, memory_bytes: int = 0, all_gpus: bool = False) -> Claim:
    """The claim of a job. It never exceeds the offer, so that each job can run when it is alone.

    `memory_bytes` (0: not given) takes the place of the machine types' memory; with `all_gpus` replicas ask
    for every GPU where their machine type has none.
    """
    available = len(offer.accelerators or ())
    pools = (spec.worker_pool_specs[member.pool] for member in replica_ids(spec))
    needed = sum(memory_bytes or machine_memory(pool) for pool in pools)
    return Claim(
        memory_bytes=min(needed, offer.memory_bytes),
        memory_limit=offer.memory_bytes,
        counts=_shares(_wanted(spec, all_gpus, available), available),
        accelerators=offer.accelerators,
    )


def wants_accelerators(spec: CustomJobSpec, *, all_gpus: bool = False) -> bool:
    """Whether any replica asks for a GPU."""
    return bool(_wanted(spec, all_gpus, 1))


def _wanted(spec: CustomJobSpec, all_gpus: bool, available: int) -> dict[str, int]:
    """How many GPUs each replica asks for; `--gpu` asks for all."""
    found = {}
    for member in replica_ids(spec):
        asked = gpu_count(spec.worker_pool_specs[member.pool].machine_spec or MachineSpec())
        found[member.name] = asked or (available if all_gpus else 0)
    return {name: count for name, count in found.items() if count}


def _shares(wanted: dict[str, int], available: int) -> dict[str, int]:
    """The share of each replica: as many as it asks for, else an equal part of those that there are.

    Replicas never share a GPU. With fewer GPUs than replicas that ask for some, no replica gets any.
    """
    if sum(wanted.values()) <= available:
        return wanted
    share = available // len(wanted)
    return {name: min(count, share) for name, count in wanted.items()} if share else {}
