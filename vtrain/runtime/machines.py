"""Machine types of Vertex AI Training: how many processors and how much memory a replica has there.

Source: Vertex AI's documentation as of `AS_OF`, "Configure compute resources for custom training" for the
types, and the page of the same name for inference for their vCPUs and memory. What stands on neither
(n4, m1, the largest n1, a3-megagpu) is computed from the GB per vCPU of Compute Engine's machine families.
Google writes GB and means GiB: an n1-standard-4 has 15 * 2**30 bytes.

A replica gets whatever NVIDIA GPUs this machine has; their model is not compared with the spec's.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from vtrain.errors import ConfigError
from vtrain.messages.custom_job import NO_ACCELERATOR, CustomJobSpec, MachineSpec, WorkerPoolSpec
from vtrain.messages.hardware import GPUS, TPU_HOST, TPU_TOPOLOGIES, is_tpu
from vtrain.messages.nearest import did_you_mean
from vtrain.messages.rules import unknown_names
from vtrain.sizes import GIB as GIB
from vtrain.sizes import memory_in_words

AS_OF = "2026-08-22"
HOST_MEMORY_PART = 0.95
"""How much of this machine's memory a container may have: the rest keeps the machine alive."""


class Machine(msgspec.Struct, frozen=True):
    """A machine type's vCPUs and its memory in GiB."""

    cpus: int
    memory_gib: float


class HostResources(msgspec.Struct, frozen=True, kw_only=True):
    """Processors and bytes of memory of the machine that containers run on."""

    cpus: int
    memory_bytes: int


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a container; 0: none. `sentence` says which are less than asked for, or unknown."""

    cpus: float = 0.0
    memory_bytes: int = 0
    sentence: str = ""


def machine(machine_type: str) -> Machine | None:
    """The machine of that type; None for one that this table does not know."""
    return _MACHINES.get(machine_type)


def machine_memory(pool: WorkerPoolSpec) -> int:
    """The memory of a pool's machine type, in bytes; an unknown type needs none."""
    known = machine(pool.machine_spec.machine_type) if pool.machine_spec is not None else None
    return int(known.memory_gib * GIB) if known is not None else 0


def machine_types() -> tuple[str, ...]:
    """The machine types of the table."""
    return tuple(_MACHINES)


def notices_about_names(spec: CustomJobSpec) -> tuple[str, ...]:
    """Sentences about names that no table has, with the nearest one.

    A name may be newer than the tables, so that nothing is refused for it, not even with `--strict`.
    """
    machines = _MACHINES.keys() | GPUS.keys() | TPU_TOPOLOGIES.keys() | {TPU_HOST}
    given = [(pool.machine_spec or MachineSpec()).machine_type for pool in spec.worker_pool_specs]
    types = (
        f"workerPoolSpecs[{index}].machineSpec.machineType: {_unknown(name, machines)}"
        for index, name in enumerate(given)
        if name and name not in machines
    )
    return (*types, *(f"{place}: {_unknown(value, names)}" for place, value, names in unknown_names(spec)))


def several_primaries(spec: CustomJobSpec) -> tuple[str, ...]:
    """A sentence about several replicas in the only pool. Beside other pools `check_job` refuses them."""
    first, *others = spec.worker_pool_specs or (WorkerPoolSpec(),)
    if first.replica_count <= 1 or any(pool.task for pool in others):
        return ()
    found = f"the first pool is the primary replica, found {first.replica_count}."
    return (f"workerPoolSpecs[0].replicaCount: {found} Others belong into a second pool.",)


def _unknown(name: str, names: Iterable[str]) -> str:
    hint = did_you_mean(name, names, otherwise="It may be newer than that.", cutoff=0.8)
    return f"vtrain does not know {name} (its table is of {AS_OF}). {hint}"


def limits(machine_type: str, host: HostResources, *, cpus: float = 0.0, memory_bytes: int = 0) -> Limits:
    """The limits of a machine type, as far as this machine has that much. Without a type there are none.

    `cpus` and `memory_bytes`, where they are not 0, take the place of the type's.
    """
    known = machine(machine_type)
    if known is None:
        wanted = Limits(cpus=cpus, memory_bytes=memory_bytes)
    else:
        wanted = Limits(cpus=cpus or known.cpus, memory_bytes=memory_bytes or int(known.memory_gib * GIB))
    given = Limits(
        cpus=min(wanted.cpus, host.cpus),
        memory_bytes=min(wanted.memory_bytes, int(host.memory_bytes * HOST_MEMORY_PART)),
    )
    sentence = ""
    if given != wanted:
        words = _in_words(wanted)
        asked = f"{words} are asked for" if cpus or memory_bytes else f"{machine_type} has {words}"
        sentence = f"{asked}; this machine gives {_in_words(given)}."
    elif machine_type and known is None and not (cpus and memory_bytes):
        sentence = f"the machine type {machine_type} is not known here; it sets no limits."
    return msgspec.structs.replace(given, sentence=sentence)


def _in_words(limits: Limits) -> str:
    """`2 CPUs and 22.4 GB`, without what is not limited."""
    cpus = f"{limits.cpus:g} {'CPU' if limits.cpus == 1 else 'CPUs'}" if limits.cpus else ""
    memory = memory_in_words(limits.memory_bytes) if limits.memory_bytes else ""
    return " and ".join(filter(None, (cpus, memory)))


def _sizes(family: str, sizes: tuple[int, ...], gib_per_cpu: float) -> dict[str, Machine]:
    return {f"{family}-{cpus}": Machine(cpus, cpus * gib_per_cpu) for cpus in sizes}


_N = (2, 4, 8, 16, 32, 48, 64, 80)
_MACHINES = {
    **_sizes("n1-standard", (4, 8, 16, 32, 64, 96), 3.75),
    **_sizes("n1-highmem", (2, 4, 8, 16, 32, 64, 96), 6.5),
    **_sizes("n1-highcpu", (16, 32, 64, 96), 0.9),
    **_sizes("n2-standard", (4, 8, 16, 32, 48, 64, 80), 4),
    **_sizes("n2-highmem", _N, 8),
    **_sizes("n2-highcpu", (16, 32, 48, 64, 80), 1),
    **_sizes("n4-standard", _N, 4),
    **_sizes("n4-highmem", _N, 8),
    **_sizes("n4-highcpu", _N, 2),
    **_sizes("e2-standard", (4, 8, 16, 32), 4),
    **_sizes("e2-highmem", (2, 4, 8, 16), 8),
    **_sizes("e2-highcpu", (16, 32), 1),
    **_sizes("c2-standard", (4, 8, 16, 30, 60), 4),
    "m1-ultramem-40": Machine(40, 961),
    "m1-ultramem-80": Machine(80, 1922),
    "m1-ultramem-160": Machine(160, 3844),
    "m1-megamem-96": Machine(96, 1433.6),
    "a2-highgpu-1g": Machine(12, 85),
    "a2-highgpu-2g": Machine(24, 170),
    "a2-highgpu-4g": Machine(48, 340),
    "a2-highgpu-8g": Machine(96, 680),
    "a2-megagpu-16g": Machine(96, 1360),
    "a2-ultragpu-1g": Machine(12, 170),
    "a2-ultragpu-2g": Machine(24, 340),
    "a2-ultragpu-4g": Machine(48, 680),
    "a2-ultragpu-8g": Machine(96, 1360),
    "a3-highgpu-1g": Machine(26, 234),
    "a3-highgpu-2g": Machine(52, 468),
    "a3-highgpu-4g": Machine(104, 936),
    "a3-highgpu-8g": Machine(208, 1872),
    "a3-megagpu-8g": Machine(208, 1872),
    "a3-ultragpu-8g": Machine(224, 2952),
    "a4-highgpu-8g": Machine(224, 3968),
    "a4x-highgpu-4g": Machine(140, 884),
    **_sizes("g2-standard", (4, 8, 12, 16, 24, 32, 48, 96), 4),
    **_sizes("g4-standard", (48, 96, 192, 384), 3.75),
    "ct5lp-hightpu-1t": Machine(24, 48),
    "ct5lp-hightpu-4t": Machine(112, 192),
    "ct5lp-hightpu-8t": Machine(224, 384),
    "ct6e-standard-1t": Machine(44, 48),
    "ct6e-standard-4t": Machine(180, 720),
    "ct6e-standard-8t": Machine(180, 1440),
}


class Devices(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs that a replica gets."""

    count: int = 0
    are_shared: bool = False
    """Whether all replicas get the same ones."""
    why: str = ""
    """Why it gets none."""
    hint: str = ""


def gpu_count(machine: MachineSpec) -> int:
    """How many GPUs a replica of that machine asks for. TPUs do not count: only Google has them."""
    if machine.accelerator_type in NO_ACCELERATOR or is_tpu(machine):
        return 0
    return max(machine.accelerator_count, 1)


def leased_devices(leased: tuple[str, ...], why: str = "", hint: str = "") -> Devices:
    """The GPUs that a replica has for itself. `why` says that it cannot be given them."""
    if not leased:
        return Devices(why="as this machine has fewer GPUs than replicas that ask for them")
    return Devices(count=len(leased), why=why, hint=hint)


def accelerator_notice(
    machine: MachineSpec | None, devices: Devices, *, required: bool, all_gpus: bool = False
) -> str:
    """A sentence on GPUs that a pool's replicas lack, or on those that stand in for them; may be empty.

    With `all_gpus` replicas ask for every GPU where their machine has none. Raises ConfigError where there
    are fewer than asked for and they are `required`.
    """
    machine = machine or MachineSpec()
    asked, count = accelerators_of(machine), gpu_count(machine)
    if not (asked or all_gpus):
        return ""
    if is_tpu(machine):
        devices = Devices(why="as only Google's machines have TPUs")
    asked = asked or "GPUs (--gpu)"
    each = "" if devices.are_shared else " for each replica"
    why = devices.why or (f"as this machine has {devices.count}{each}" if devices.count < count else "")
    if why and required:
        hint = devices.hint or "Leave out --require-accelerators to do without."
        raise ConfigError(f"{asked} cannot be had here, {why}.", hint=hint)
    if devices.why:
        return f"NO ACCELERATOR: {asked} cannot be had here, {why}; its replicas run on the CPU."
    if why:
        return f"{asked}: this machine has {devices.count}{each or ', which its replicas get'}."
    return f"{asked}: the GPUs of this machine stand in for them, whatever their model." if count else ""


def machine_in_words(machine: MachineSpec) -> str:
    """`n1-standard-4, 1 x NVIDIA_TESLA_T4`; empty for a machine that is left to the backend."""
    return ", ".join(filter(None, (machine.machine_type, accelerators_of(machine))))


def accelerators_of(machine: MachineSpec) -> str:
    """The accelerators of a machine in words, `2 x NVIDIA_L4`; empty without any."""
    if machine.accelerator_type not in NO_ACCELERATOR:
        return f"{max(machine.accelerator_count, 1)} x {machine.accelerator_type}"
    return f"the TPU of {machine.machine_type}" if is_tpu(machine) else ""
