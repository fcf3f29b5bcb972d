"""Messages on whether a replica gets the GPUs that its pool requests.

A replica gets whatever NVIDIA GPUs this machine has; their model is not compared with the spec's.
"""

from __future__ import annotations

import msgspec

from vtrain.errors import ConfigError
from vtrain.messages.custom_job import NO_ACCELERATOR, MachineSpec
from vtrain.messages.hardware import is_tpu


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
