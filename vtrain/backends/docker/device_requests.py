"""The GPUs of a container, in the Engine API's words: from what is leased, and what an engine says. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from vtrain.backends import ReplicaOptions
from vtrain.messages.custom_job import MachineSpec
from vtrain.messages.hardware import is_tpu
from vtrain.runtime.machines import (
    Devices,
    accelerator_notice,
    accelerators_of,
    gpu_count,
    leased_devices,
)

NVIDIA_RUNTIME = "nvidia"
NVIDIA_DEVICE = "nvidia.com/gpu="
"""The Container Device Interface's (CDI) names of NVIDIA's GPUs: by index, by UUID, and `all`."""
UUID_HINT = "List them by UUID, too: nvidia-ctk cdi generate --device-name-strategy=uuid"
TOOLKIT_HINT = (
    "For NVIDIA GPUs, install the NVIDIA Container Toolkit and tell the engine of it: "
    "nvidia-ctk runtime configure --runtime=docker"
)


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The Engine API's DeviceRequests, and what to say where they are not what the job asks for."""

    device_requests: tuple[dict[str, Any], ...] = ()
    notice: str = ""


def grant(
    machine: MachineSpec | None,
    options: ReplicaOptions,
    info: dict[str, Any],
    leased: tuple[str, ...] | None = None,
) -> Grant:
    """The GPUs of a container. `info` is the engine's answer to `GET /info`.

    `leased` are the UUIDs that the replica has for itself; None where only the engine knows what there is.
    Raises ConfigError where there are fewer than asked for and `--require-accelerators` is given.
    """
    machine = machine or MachineSpec()
    request, devices = _request(gpu_count(machine), info, leased)
    notice = accelerator_notice(
        machine, devices, required=options.require_accelerators, all_gpus=options.gpus
    )
    is_wanted = (accelerators_of(machine) or options.gpus) and not is_tpu(machine)
    return Grant(device_requests=(request,) if request and is_wanted else (), notice=notice)


def _request(
    count: int, info: dict[str, Any], leased: tuple[str, ...] | None
) -> tuple[dict[str, Any], Devices]:
    """The request for `count` GPUs (0: all that there are), or for those that are leased; what it gives."""
    found, has_runtime = _cdi_devices(info), NVIDIA_RUNTIME in (info.get("Runtimes") or {})
    # An empty driver, as `docker run --gpus` has it: the engine chooses by the capability.
    by_runtime = {"Driver": "", "Capabilities": [["gpu"]]}
    if leased is not None:
        names = [f"{NVIDIA_DEVICE}{uuid}" for uuid in leased]
        there = {str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or ()}
        if not leased or there.issuperset(names):
            return {"Driver": "cdi", "DeviceIDs": names} if leased else {}, leased_devices(leased)
        if has_runtime:
            return by_runtime | {"DeviceIDs": list(leased)}, leased_devices(leased)
        if found:
            why = "as the Docker engine does not know the GPUs by UUID"
            return {}, leased_devices(leased, why, UUID_HINT)
    elif found:
        given = len(found) if found[0] != f"{NVIDIA_DEVICE}all" else count
        request = {"Driver": "cdi", "DeviceIDs": list(found[:count] if count else found)}
        return request, Devices(count=given, are_shared=True)
    elif has_runtime:
        return by_runtime | {"Count": count or -1}, Devices(count=count)
    return {}, Devices(why="as the Docker engine has no NVIDIA runtime", hint=TOOLKIT_HINT)


def offers_gpus(info: dict[str, Any]) -> bool:
    """Whether an engine that describes itself so can give a container GPUs."""
    return bool(_cdi_devices(info)) or NVIDIA_RUNTIME in (info.get("Runtimes") or {})


def _cdi_devices(info: dict[str, Any]) -> tuple[str, ...]:
    """The GPUs that the engine found by CDI (API 1.50), by index; `all` where only that has a name."""
    names = [str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or ()]
    names = [name for name in names if name.startswith(NVIDIA_DEVICE)]
    numbers = sorted(int(index) for name in names if (index := name.removeprefix(NVIDIA_DEVICE)).isdecimal())
    return tuple(f"{NVIDIA_DEVICE}{number}" for number in numbers) or tuple(
        names[:1] and [f"{NVIDIA_DEVICE}all"]
    )
