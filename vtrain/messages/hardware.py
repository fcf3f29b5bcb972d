"""The hardware that Vertex AI has: the accelerators of each machine type, TPUs, boot disks.

Source of the tables: Vertex AI's documentation as of `AS_OF`, "Configure compute resources for custom
training" and "Training with Cloud TPU VMs". Machine types and accelerators that vtrain does not know are
accepted, as the service gets new ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vtrain.errors import FieldError, UsageError
from vtrain.messages.custom_job import NO_ACCELERATOR, CustomJobSpec, DiskSpec, MachineSpec
from vtrain.messages.nearest import did_you_mean
from vtrain.messages.rules import ACCELERATORS, DISK_GB

AS_OF = "2026-08-22"
BOOT_DISK_TYPES = ("pd-ssd", "pd-standard", "hyperdisk-balanced")
WITHOUT_GPUS = ("e2-", "n2-", "n4-", "c2-", "m1-")
GONE = ("NVIDIA_TESLA_K80",)
TPU_TYPES = ("TPU_V2", "TPU_V3")
TPU_HOST = "cloud-tpu"
TPU_POD_COUNT = 32
"""A slice of a TPU pod has this many cores or, of v2, a multiple of it; one device has 8."""


class ImpossibleError(FieldError):
    """Hardware with which the service refuses a job in any case."""


def check_hardware(spec: CustomJobSpec, *, certain_only: bool = False) -> None:
    """Raise FieldError for the first mismatch; or for the first that is certain."""
    for error in mismatches(spec):
        if isinstance(error, ImpossibleError) or not certain_only:
            raise error


def mismatches(spec: CustomJobSpec) -> Iterator[FieldError]:
    """The hardware in a job that Vertex AI does not have, as errors to raise or to show."""
    for index, pool in enumerate(spec.worker_pool_specs):
        path = f"workerPoolSpecs[{index}]"
        if pool.machine_spec is not None:
            yield from _of_machine(pool.machine_spec, f"{path}.machineSpec")
        if pool.disk_spec is not None:
            yield from _of_disk(pool.disk_spec, f"{path}.diskSpec")
    yield from _of_tpu_job(spec)


def machines_with(accelerator: str, count: int = 0) -> tuple[str, ...]:
    """The machine types that take or have so many of an accelerator; without `count` any number of them."""
    if accelerator in TPU_TYPES:
        return (TPU_HOST,)
    found = ((kind, choices.get(accelerator, ())) for kind, choices in GPUS.items())
    return tuple(kind for kind, counts in found if (count in counts if count else counts))


def smallest_machine_with(accelerator: str, count: int) -> str:
    """The machine type for so many of an accelerator; empty where no family of types, or several, have them.

    Of the n1 family, which takes GPUs on many types, it is the smallest `standard` one.
    Raises FieldError for a number that no type has, where others have other numbers.
    """
    found = machines_with(accelerator, count)
    if not found and (others := machines_with(accelerator)):
        least, *more = sorted({number for name in others for number in GPUS[name][accelerator]})
        also = f", or with {' or '.join(map(str, more))}" if more else ""
        raise FieldError(
            "workerPoolSpecs[0].machineSpec.acceleratorCount",
            f"no machine type has {count} {accelerator}.",
            hint=f"Write --gpus={accelerator}:{least}{also}.",
        )
    standard = [name for name in found if "-standard-" in name] or found
    return standard[0] if len({name.partition("-")[0] for name in found}) == 1 else ""


def accelerator_named(text: str, name: str) -> dict[str, str | int]:
    """The MachineSpec's part that `T4:2` or `NVIDIA_TESLA_T4:2` names; an empty text names none.

    `name` is what was given. Raises UsageError for anything else.
    """
    if not text:
        return {"acceleratorType": "", "acceleratorCount": 0}
    given, colon, count = text.partition(":")
    kind = SHORT_NAMES.get(given.upper(), given.upper().replace("-", "_"))
    if kind not in ACCELERATORS:
        every = f"Write {', '.join(SHORT_NAMES)}, or the API's name."
        if given.isdecimal():
            every = (
                f"Write its type before the number: T4:{given}. This machine's GPUs stand in for any type."
            )
        hint = did_you_mean(given.upper(), (*SHORT_NAMES, *ACCELERATORS), otherwise=every)
        raise UsageError(f"{name}: there is no accelerator {given!r}.", hint=hint)
    if colon and not (count.isascii() and count.isdecimal() and 0 < len(count.lstrip("0")) < 10):
        raise UsageError(f"{name}: expected a number from 1 after the colon, found {count!r}.")
    return {"acceleratorType": kind, "acceleratorCount": int(count) if colon else 1}


def is_tpu(machine: MachineSpec) -> bool:
    """Whether a machine has TPUs, by its type or by its accelerator."""
    return machine.accelerator_type.startswith("TPU") or machine.machine_type.startswith(TPU_FAMILIES)


def _of_tpu_job(spec: CustomJobSpec) -> Iterator[FieldError]:
    pools = [(index, pool) for index, pool in enumerate(spec.worker_pool_specs) if pool.task is not None]
    tpus = [(index, pool) for index, pool in pools if pool.machine_spec and is_tpu(pool.machine_spec)]
    hint = "A slice of a TPU pod, too, is asked for by one replica: it says how many cores it wants."
    if tpus and len(pools) > 1:
        problem = f"a job with TPUs has one pool, found {len(pools)}."
        yield ImpossibleError("workerPoolSpecs", problem, hint=hint)
    for index, pool in tpus:
        if pool.replica_count > 1:
            problem = f"a pool with TPUs has 1 replica, found {pool.replica_count}."
            yield ImpossibleError(f"workerPoolSpecs[{index}].replicaCount", problem, hint=hint)


def _of_machine(machine: MachineSpec, path: str) -> Iterator[FieldError]:
    kind, asked = machine.machine_type, machine.accelerator_type
    if kind in TPU_TOPOLOGIES:
        yield from _of_tpu_machine(machine, path)
    elif kind == TPU_HOST or asked in TPU_TYPES:
        yield from _of_tpu_host(machine, path)
    elif asked in GONE:
        yield FieldError(f"{path}.acceleratorType", f"{asked} is gone.")
    elif kind.startswith(WITHOUT_GPUS) and asked not in NO_ACCELERATOR:
        hint = "n1 machines take GPUs; a2, a3, a4, g2 and g4 machines have some."
        yield FieldError(f"{path}.acceleratorType", f"{kind} takes no accelerator, found {asked}.", hint=hint)
    elif kind in GPUS:
        yield from _of_gpus(machine, GPUS[kind], path)


def _of_gpus(machine: MachineSpec, choices: dict[str, tuple[int, ...]], path: str) -> Iterator[FieldError]:
    kind, asked, count = machine.machine_type, machine.accelerator_type, max(machine.accelerator_count, 1)
    hint = f"{kind} takes {_in_words(choices)}."
    if asked in NO_ACCELERATOR:
        if not kind.startswith("n1-"):
            yield FieldError(f"{path}.acceleratorType", f"{kind} needs its accelerator named.", hint=hint)
    elif asked not in ACCELERATORS:
        return  # `notices_about_names` tells of it
    elif asked not in choices:
        carriers = ", ".join(machines_with(asked))
        hint = f"{hint}\n{asked} comes with {carriers}." if carriers else hint
        yield FieldError(f"{path}.acceleratorType", f"{kind} does not take {asked}.", hint=hint)
    elif count not in choices[asked] and not machine.gpu_partition_size:
        hint = f"{kind} takes {_in_words({asked: choices[asked]})}."
        yield FieldError(f"{path}.acceleratorCount", f"{kind} does not take {count} {asked}.", hint=hint)


def _of_tpu_host(machine: MachineSpec, path: str) -> Iterator[FieldError]:
    """TPU v2 and v3: the machine is always `cloud-tpu`."""
    kind, asked, count = machine.machine_type, machine.accelerator_type, machine.accelerator_count
    if kind != TPU_HOST:
        yield FieldError(f"{path}.machineType", f"{asked} goes with {TPU_HOST}, found {kind or 'none'}.")
    elif asked not in TPU_TYPES:
        problem = f"{TPU_HOST} takes {' or '.join(TPU_TYPES)}, found {asked or 'none'}."
        yield FieldError(f"{path}.acceleratorType", problem)
    elif count != 8 and (count < TPU_POD_COUNT or (asked == "TPU_V2" and count % TPU_POD_COUNT)):
        slices = "a multiple of 32" if asked == "TPU_V2" else "32 and more"
        problem = f"{asked} comes by 8, or as a slice of {slices}, found {count}."
        yield FieldError(f"{path}.acceleratorCount", problem)


def _of_tpu_machine(machine: MachineSpec, path: str) -> Iterator[FieldError]:
    """TPU v5e and later: the machine type includes the TPUs, and the topology gives their number."""
    kind, asked, topology = machine.machine_type, machine.accelerator_type, machine.tpu_topology
    allowed = TPU_TOPOLOGIES[kind]
    hint = f"Its topologies are {', '.join(allowed)}." if allowed else "It has three numbers, such as 2x2x1."
    if asked not in NO_ACCELERATOR:
        yield FieldError(f"{path}.acceleratorType", f"{kind} brings its TPUs; leave out {asked}.")
    if not topology:
        yield FieldError(f"{path}.tpuTopology", f"{kind} needs a topology.", hint=hint)
    elif topology not in allowed and (allowed or not _CUBE.fullmatch(topology)):
        yield FieldError(f"{path}.tpuTopology", f"{kind} does not have the topology {topology}.", hint=hint)


def _of_disk(disk: DiskSpec, path: str) -> Iterator[FieldError]:
    size, kind = disk.boot_disk_size_gb, disk.boot_disk_type
    if size and size not in DISK_GB:
        problem = f"expected {DISK_GB[0]} to {DISK_GB[-1]}, found {size}."
        yield ImpossibleError(f"{path}.bootDiskSizeGb", problem)
    if kind and kind not in BOOT_DISK_TYPES:
        hint = f"Types are {', '.join(BOOT_DISK_TYPES)}."
        yield FieldError(f"{path}.bootDiskType", f"there is no {kind}.", hint=hint)


def _in_words(choices: dict[str, tuple[int, ...]]) -> str:
    """`1, 2 or 4 NVIDIA_TESLA_T4; 8 NVIDIA_TESLA_V100`."""
    found = []
    for name, counts in choices.items():
        *others, last = (str(count) for count in counts)
        found.append(f"{', '.join(others)} or {last} {name}" if others else f"{last} {name}")
    return "; ".join(found)


def _n1(p4: tuple[int, ...], p100: tuple[int, ...], v100: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The accelerators of an n1 machine; T4 are allowed in the numbers of P4."""
    found = {
        "NVIDIA_TESLA_P4": p4,
        "NVIDIA_TESLA_P100": p100,
        "NVIDIA_TESLA_T4": p4,
        "NVIDIA_TESLA_V100": v100,
    }
    return {name: counts for name, counts in found.items() if counts}


_N1_SMALL = _n1((1, 2, 4), (1, 2, 4), (1, 2, 4, 8))
_N1_16 = _n1((1, 2, 4), (1, 2, 4), (2, 4, 8))
_N1_32 = _n1((2, 4), (2, 4), (4, 8))
_N1_LARGE = _n1((4,), (), (8,))
GPUS: dict[str, dict[str, tuple[int, ...]]] = {
    **{
        f"n1-{size}": _N1_SMALL
        for size in ("standard-4", "standard-8", "highmem-2", "highmem-4", "highmem-8")
    },
    **{f"n1-{size}": _N1_16 for size in ("standard-16", "highmem-16", "highcpu-16")},
    **{f"n1-{size}": _N1_32 for size in ("standard-32", "highmem-32", "highcpu-32")},
    **{f"n1-{size}": _N1_LARGE for size in ("standard-64", "standard-96", "highmem-64", "highmem-96")},
    "n1-highcpu-64": _n1((4,), (4,), (8,)),
    "n1-highcpu-96": _N1_LARGE,
    **{f"a2-highgpu-{count}g": {"NVIDIA_TESLA_A100": (count,)} for count in (1, 2, 4, 8)},
    "a2-megagpu-16g": {"NVIDIA_TESLA_A100": (16,)},
    **{f"a2-ultragpu-{count}g": {"NVIDIA_A100_80GB": (count,)} for count in (1, 2, 4, 8)},
    **{f"a3-highgpu-{count}g": {"NVIDIA_H100_80GB": (count,)} for count in (1, 2, 4, 8)},
    "a3-megagpu-8g": {"NVIDIA_H100_MEGA_80GB": (8,)},
    "a3-ultragpu-8g": {"NVIDIA_H200_141GB": (8,)},
    "a4-highgpu-8g": {"NVIDIA_B200": (8,)},
    "a4x-highgpu-4g": {"NVIDIA_GB200": (4,)},
    **{f"g2-standard-{cpus}": {"NVIDIA_L4": (1,)} for cpus in (4, 8, 12, 16, 32)},
    **{f"g2-standard-{cpus}": {"NVIDIA_L4": (count,)} for cpus, count in ((24, 2), (48, 4), (96, 8))},
    **{f"g4-standard-{48 * count}": {"NVIDIA_RTX_PRO_6000": (count,)} for count in (1, 2, 4, 8)},
}
"""Machine types that take or have GPUs: which, and how many. Empty cells of the n1 table are inferred."""

SHORT_NAMES = {
    "T4": "NVIDIA_TESLA_T4",
    "L4": "NVIDIA_L4",
    "V100": "NVIDIA_TESLA_V100",
    "P100": "NVIDIA_TESLA_P100",
    "A100": "NVIDIA_TESLA_A100",
    "A100-80": "NVIDIA_A100_80GB",
    "H100": "NVIDIA_H100_80GB",
    "H200": "NVIDIA_H200_141GB",
    "B200": "NVIDIA_B200",
}
"""GPUs as people call them, by which flags name them."""

_CUBE = re.compile(r"[1-9][0-9]*x[1-9][0-9]*x[1-9][0-9]*")
_FLAT = ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
TPU_TOPOLOGIES: dict[str, tuple[str, ...]] = {
    **{f"{family}-1t": ("1x1",) for family in ("ct5lp-hightpu", "ct6e-standard")},
    **{f"{family}-4t": _FLAT for family in ("ct5lp-hightpu", "ct6e-standard")},
    **{f"{family}-8t": ("2x4",) for family in ("ct5lp-hightpu", "ct6e-standard")},
    "tpu7x-standard-4t": (),
}
"""Machine types that bring TPUs, and their topologies; of v7 only the form is known (2x2x1 to 8x8x16)."""
TPU_FAMILIES = (TPU_HOST, "ct5lp-", "ct6e-", "tpu7x-")
