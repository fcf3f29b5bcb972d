"""Messages on whether a replica gets the GPUs that its pool requests.

A replica gets whatever NVIDIA GPUs this machine has; their model is not compared with the spec's.
"""

from __future__ import annotations

from vtrain.errors import ConfigError
from vtrain.messages.custom_job import MachineSpec
from vtrain.messages.hardware import is_tpu

NO_ACCELERATOR = ("", "ACCELERATOR_TYPE_UNSPECIFIED")
TPUS_ELSEWHERE = "as only Google's machines have TPUs"
TOO_FEW = "as this machine has fewer GPUs than replicas that ask for them"


def gpu_count(machine: MachineSpec) -> int:
    """How many GPUs a replica of that machine asks for. TPUs do not count: only Google has them."""
    if machine.accelerator_type in NO_ACCELERATOR or is_tpu(machine):
        return 0
    return max(machine.accelerator_count, 1)


def process_notice(machine: MachineSpec | None, leased: tuple[str, ...] | None, *, required: bool) -> str:
    """A sentence on GPUs that a pool's processes lack, or on those that stand in for them; may be empty.

    Raises ConfigError where there are fewer GPUs than asked for and `required`.
    """
    machine = machine or MachineSpec()
    asked = accelerators_of(machine)
    if not asked:
        return ""
    if is_tpu(machine):
        return none_notice(asked, TPUS_ELSEWHERE, required=required)
    if not leased:
        why = TOO_FEW if leased == () else "as nvidia-smi lists no GPU here"
        return none_notice(asked, why, required=required)
    count = gpu_count(machine)
    return short_notice(asked, count, len(leased), required=required) or stand_in_notice(asked)


def accelerators_of(machine: MachineSpec) -> str:
    """The accelerators of a machine in words, `2 x NVIDIA_L4`; empty without any."""
    if machine.accelerator_type not in NO_ACCELERATOR:
        return f"{max(machine.accelerator_count, 1)} x {machine.accelerator_type}"
    return f"the TPU of {machine.machine_type}" if is_tpu(machine) else ""


def short_notice(asked: str, count: int, given: int, *, required: bool) -> str:
    """A sentence where a replica gets some of what it asks for; raises ConfigError if all is `required`."""
    if given >= count:
        return ""
    if required:
        raise refused_accelerators(asked, f"as this machine has {given} for each replica")
    return f"{asked}: this machine has {given} for each replica."


def stand_in_notice(asked: str) -> str:
    """A sentence that this machine's GPUs stand in for those of the spec; empty where it asks for none."""
    return f"{asked}: the GPUs of this machine stand in for them, whatever their model." if asked else ""


def none_notice(asked: str, why: str, *, required: bool, hint: str = "") -> str:
    """A sentence where a replica gets none; raises ConfigError if they are `required`."""
    if required:
        raise refused_accelerators(asked, why, hint)
    return f"NO ACCELERATOR: {asked} cannot be had here, {why}; its replicas run on the CPU."


def refused_accelerators(asked: str, why: str, hint: str = "") -> ConfigError:
    """The error for a job that requires accelerators which are not here."""
    return ConfigError(
        f"{asked} cannot be had here, {why}.", hint=hint or "Leave out --require-accelerators to do without."
    )
