"""The GPUs of a container, in the Engine API's words: from what is leased, and what an engine says. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from vtrain.backends.replica_options import ReplicaOptions
from vtrain.messages.custom_job import MachineSpec
from vtrain.messages.hardware import is_tpu
from vtrain.runtime.accelerators import (
    TOO_FEW,
    TPUS_ELSEWHERE,
    accelerators_of,
    gpu_count,
    none_notice,
    refused_accelerators,
    short_notice,
    stand_in_notice,
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
    wanted = accelerators_of(machine)
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
        return Grant(device_requests=(request,), notice=stand_in_notice(wanted))
    return _without(what, "as the Docker engine has no NVIDIA runtime", options, TOOLKIT_HINT)


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


def _from_lease(
    what: str, count: int, leased: tuple[str, ...], options: ReplicaOptions, info: dict[str, Any]
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
    notice = short_notice(what, count, len(leased), required=options.require_accelerators) or (
        stand_in_notice(what) if count else ""
    )
    return Grant(device_requests=(request,), notice=notice)


def _from_devices(what: str, count: int, devices: tuple[str, ...], options: ReplicaOptions) -> Grant:
    """The first `count` GPUs by name, or all (0, or there are fewer)."""
    counted = devices[0] != f"{NVIDIA_DEVICE}all"
    short = counted and len(devices) < count
    if short and options.require_accelerators:
        raise refused_accelerators(what, f"as this machine has {len(devices)}")
    notice = f"{what}: this machine has {len(devices)}, which its replicas get." if short else ""
    request = {"Driver": "cdi", "DeviceIDs": list(devices[:count] if count else devices)}
    return Grant(device_requests=(request,), notice=notice or (stand_in_notice(what) if count else ""))


def _without(what: str, why: str, options: ReplicaOptions, hint: str = "") -> Grant:
    return Grant(notice=none_notice(what, why, required=options.require_accelerators, hint=hint))
