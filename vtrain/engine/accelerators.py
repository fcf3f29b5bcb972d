"""Whether a container gets the GPUs that its pool asks for: pure, from what the engine says of itself.

The engine hands out whatever NVIDIA GPUs this machine has; their model is not compared with the spec's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from vtrain.engine.container_options import ContainerOptions
from vtrain.errors import ConfigError
from vtrain.messages.custom_job import MachineSpec

NO_ACCELERATOR = ("", "ACCELERATOR_TYPE_UNSPECIFIED")
NVIDIA_RUNTIME = "nvidia"
NVIDIA_DEVICE = "nvidia.com/gpu="
"""How the Container Device Interface (CDI) names NVIDIA's GPUs: by index, by UUID, and `all`."""
TPU_MACHINES = ("cloud-tpu", "ct5lp-", "ct6e-", "tpu7x-")
"""From v5e on, TPUs come with the machine type, and `acceleratorType` is not set."""
TOOLKIT_HINT = (
    "For NVIDIA GPUs, install the NVIDIA Container Toolkit and tell the engine of it: "
    "nvidia-ctk runtime configure --runtime=docker"
)


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The Engine API's DeviceRequests, and what to say where they are not what the job asks for."""

    device_requests: tuple[dict[str, Any], ...] = ()
    notice: str = ""


def grant(machine: MachineSpec | None, options: ContainerOptions, info: dict[str, Any]) -> Grant:
    """The GPUs of a pool's containers. `info` is the engine's answer to `GET /info`.

    Raises ConfigError where there are fewer than asked for and `--require-accelerators` is given.
    """
    machine = machine or MachineSpec()
    wanted = _wanted(machine)
    if not wanted and not options.gpus:
        return Grant()
    what = wanted or "GPUs (--gpu)"
    if _is_tpu(machine):
        return _without(what, "as only Google's machines have TPUs", options)
    count = max(machine.accelerator_count, 1) if wanted else 0
    if devices := _cdi_devices(info):
        return _from_devices(what, count, devices, options)
    if NVIDIA_RUNTIME in (info.get("Runtimes") or {}):
        # An empty driver, as `docker run --gpus` has it: the engine chooses by the capability.
        request = {"Driver": "", "Count": count or -1, "Capabilities": [["gpu"]]}
        return Grant(device_requests=(request,), notice=_stand_in(wanted))
    return _without(what, "as the Docker engine has no NVIDIA runtime", options, TOOLKIT_HINT)


def _wanted(machine: MachineSpec) -> str:
    """The accelerators of a machine in words, `2 x NVIDIA_L4`; empty without any."""
    if machine.accelerator_type not in NO_ACCELERATOR:
        return f"{max(machine.accelerator_count, 1)} x {machine.accelerator_type}"
    return f"the TPU of {machine.machine_type}" if _is_tpu(machine) else ""


def _is_tpu(machine: MachineSpec) -> bool:
    return machine.accelerator_type.startswith("TPU") or machine.machine_type.startswith(TPU_MACHINES)


def _cdi_devices(info: dict[str, Any]) -> tuple[str, ...]:
    """The GPUs that the engine found by CDI (API 1.50), by index; `all` where only that has a name."""
    names = [str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or ()]
    names = [name for name in names if name.startswith(NVIDIA_DEVICE)]
    numbers = sorted(int(index) for name in names if (index := name.removeprefix(NVIDIA_DEVICE)).isdecimal())
    return tuple(f"{NVIDIA_DEVICE}{number}" for number in numbers) or tuple(
        names[:1] and [f"{NVIDIA_DEVICE}all"]
    )


def _from_devices(what: str, count: int, devices: tuple[str, ...], options: ContainerOptions) -> Grant:
    """The first `count` GPUs by name, or all (0, or there are fewer)."""
    counted = devices[0] != f"{NVIDIA_DEVICE}all"
    short = counted and len(devices) < count
    if short and options.require_accelerators:
        raise _refusal(what, f"as this machine has {len(devices)}")
    notice = f"{what}: this machine has {len(devices)}, which its replicas get." if short else ""
    request = {"Driver": "cdi", "DeviceIDs": list(devices[:count] if count else devices)}
    return Grant(device_requests=(request,), notice=notice or (_stand_in(what) if count else ""))


def _stand_in(wanted: str) -> str:
    return f"{wanted}: the GPUs of this machine stand in for them, whatever their model." if wanted else ""


def _without(what: str, why: str, options: ContainerOptions, hint: str = "") -> Grant:
    if options.require_accelerators:
        raise _refusal(what, why, hint)
    return Grant(notice=f"NO ACCELERATOR: {what} cannot be had here, {why}; its replicas run on the CPU.")


def _refusal(what: str, why: str, hint: str = "") -> ConfigError:
    return ConfigError(
        f"{what} cannot be had here, {why}.", hint=hint or "Leave out --require-accelerators to do without."
    )
