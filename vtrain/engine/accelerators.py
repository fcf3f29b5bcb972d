"""Whether a replica gets the GPUs that its pool asks for: pure, from what is leased, and what an engine says.

A replica gets whatever NVIDIA GPUs this machine has; their model is not compared with the spec's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from vtrain.engine.container_options import ContainerOptions
from vtrain.engine.hardware import is_tpu
from vtrain.errors import ConfigError
from vtrain.messages.custom_job import MachineSpec

NO_ACCELERATOR = ("", "ACCELERATOR_TYPE_UNSPECIFIED")
NVIDIA_RUNTIME = "nvidia"
NVIDIA_DEVICE = "nvidia.com/gpu="
"""How the Container Device Interface (CDI) names NVIDIA's GPUs: by index, by UUID, and `all`."""
TPUS_ELSEWHERE = "as only Google's machines have TPUs"
TOO_FEW = "as this machine has fewer GPUs than replicas that ask for them"
UUID_HINT = "List them by UUID, too: nvidia-ctk cdi generate --device-name-strategy=uuid"
TOOLKIT_HINT = (
    "For NVIDIA GPUs, install the NVIDIA Container Toolkit and tell the engine of it: "
    "nvidia-ctk runtime configure --runtime=docker"
)


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The Engine API's DeviceRequests, and what to say where they are not what the job asks for."""

    device_requests: tuple[dict[str, Any], ...] = ()
    notice: str = ""


def gpu_count(machine: MachineSpec) -> int:
    """How many GPUs a replica of that machine asks for. TPUs do not count: only Google has them."""
    if machine.accelerator_type in NO_ACCELERATOR or is_tpu(machine):
        return 0
    return max(machine.accelerator_count, 1)


def grant(
    machine: MachineSpec | None,
    options: ContainerOptions,
    info: dict[str, Any],
    leased: tuple[str, ...] | None = None,
) -> Grant:
    """The GPUs of a container. `info` is the engine's answer to `GET /info`.

    `leased` are the UUIDs that the replica has for itself; None where only the engine knows what there is.
    Raises ConfigError where there are fewer than asked for and `--require-accelerators` is given.
    """
    machine = machine or MachineSpec()
    wanted = _wanted(machine)
    if not wanted and not options.gpus:
        return Grant()
    what = wanted or "GPUs (--gpu)"
    if is_tpu(machine):
        return _without(what, TPUS_ELSEWHERE, options)
    count = gpu_count(machine)
    if leased is not None:
        return _from_lease(what, count, leased, options, info)
    if devices := _cdi_devices(info):
        return _from_devices(what, count, devices, options)
    if NVIDIA_RUNTIME in (info.get("Runtimes") or {}):
        # An empty driver, as `docker run --gpus` has it: the engine chooses by the capability.
        request = {"Driver": "", "Count": count or -1, "Capabilities": [["gpu"]]}
        return Grant(device_requests=(request,), notice=_stand_in(wanted))
    return _without(what, "as the Docker engine has no NVIDIA runtime", options, TOOLKIT_HINT)


def process_notice(machine: MachineSpec | None, leased: tuple[str, ...] | None, *, required: bool) -> str:
    """What the processes of a pool get less of than it asks for, or what stands in for it; empty for nothing.

    Raises ConfigError where there are fewer GPUs than asked for and `required`.
    """
    machine = machine or MachineSpec()
    what, options = _wanted(machine), ContainerOptions(require_accelerators=required)
    if not what:
        return ""
    if is_tpu(machine):
        return _without(what, TPUS_ELSEWHERE, options).notice
    if not leased:
        return _without(what, TOO_FEW if leased == () else "as nvidia-smi lists no GPU here", options).notice
    return _short_notice(what, gpu_count(machine), len(leased), options) or _stand_in(what)


def _wanted(machine: MachineSpec) -> str:
    """The accelerators of a machine in words, `2 x NVIDIA_L4`; empty without any."""
    if machine.accelerator_type not in NO_ACCELERATOR:
        return f"{max(machine.accelerator_count, 1)} x {machine.accelerator_type}"
    return f"the TPU of {machine.machine_type}" if is_tpu(machine) else ""


def _cdi_devices(info: dict[str, Any]) -> tuple[str, ...]:
    """The GPUs that the engine found by CDI (API 1.50), by index; `all` where only that has a name."""
    names = [str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or ()]
    names = [name for name in names if name.startswith(NVIDIA_DEVICE)]
    numbers = sorted(int(index) for name in names if (index := name.removeprefix(NVIDIA_DEVICE)).isdecimal())
    return tuple(f"{NVIDIA_DEVICE}{number}" for number in numbers) or tuple(
        names[:1] and [f"{NVIDIA_DEVICE}all"]
    )


def _from_lease(
    what: str, count: int, leased: tuple[str, ...], options: ContainerOptions, info: dict[str, Any]
) -> Grant:
    """Exactly the GPUs that are leased, by UUID."""
    if not leased:
        return _without(what, TOO_FEW, options)
    names = [f"{NVIDIA_DEVICE}{uuid}" for uuid in leased]
    there = {str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or ()}
    request: dict[str, Any]
    if there.issuperset(names):
        request = {"Driver": "cdi", "DeviceIDs": names}
    elif NVIDIA_RUNTIME in (info.get("Runtimes") or {}):
        request = {"Driver": "", "DeviceIDs": list(leased), "Capabilities": [["gpu"]]}
    elif _cdi_devices(info):
        return _without(what, "as the Docker engine does not know the GPUs by UUID", options, UUID_HINT)
    else:
        return _without(what, "as the Docker engine has no NVIDIA runtime", options, TOOLKIT_HINT)
    notice = _short_notice(what, count, len(leased), options) or (_stand_in(what) if count else "")
    return Grant(device_requests=(request,), notice=notice)


def _short_notice(what: str, count: int, given: int, options: ContainerOptions) -> str:
    """What to say where a replica gets some of what it asks for, but not all."""
    if given >= count:
        return ""
    if options.require_accelerators:
        raise _refusal(what, f"as this machine has {given} for each replica")
    return f"{what}: this machine has {given} for each replica."


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
