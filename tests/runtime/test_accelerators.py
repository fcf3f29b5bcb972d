"""Which GPUs a container gets, by what engines say of themselves.

No machine of the tests has a GPU: the answers to `GET /info` are shaped like those of engines that have some.
"""

from __future__ import annotations

from typing import Any

import pytest

from vtrain.backends import ReplicaOptions
from vtrain.backends.docker.device_requests import grant
from vtrain.errors import ConfigError
from vtrain.messages.custom_job import MachineSpec
from vtrain.runtime.machines import accelerator_notice, gpu_count, leased_devices

RUNC = {"io.containerd.runc.v2": {"path": "runc"}, "runc": {"path": "runc"}}
PLAIN: dict[str, Any] = {"Runtimes": RUNC, "DefaultRuntime": "runc"}
NVIDIA = {"Runtimes": {**RUNC, "nvidia": {"path": "nvidia-container-runtime"}}, "DefaultRuntime": "runc"}
CDI = {
    **PLAIN,
    "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
    "DiscoveredDevices": [
        {"Source": "cdi", "ID": "nvidia.com/gpu=1"},
        {"Source": "cdi", "ID": "nvidia.com/gpu=0"},
        {"Source": "cdi", "ID": "nvidia.com/gpu=GPU-c5ae6bf1-edf7-7955-815c-2e758f022392"},
        {"Source": "cdi", "ID": "nvidia.com/gpu=all"},
        {"Source": "cdi", "ID": "vendor.example/nic=0"},
    ],
}
NO_DEVICES = {**PLAIN, "CDISpecDirs": ["/etc/cdi"], "DiscoveredDevices": None}
T4 = MachineSpec(machine_type="n1-standard-4", accelerator_type="NVIDIA_TESLA_T4", accelerator_count=2)
STRICT = ReplicaOptions(require_accelerators=True)


@pytest.mark.parametrize(
    "machine",
    [
        None,
        MachineSpec(machine_type="n1-standard-4"),
        MachineSpec(machine_type="n1-standard-4", accelerator_type="ACCELERATOR_TYPE_UNSPECIFIED"),
    ],
)
@pytest.mark.parametrize("info", [PLAIN, NVIDIA, CDI])
def test_who_asks_for_none_gets_none(machine: MachineSpec | None, info: dict[str, Any]) -> None:
    granted = grant(machine, STRICT, info)
    assert (granted.device_requests, granted.notice) == ((), "")


def test_the_nvidia_runtime_gives_as_many_as_the_pool_asks_for() -> None:
    granted = grant(T4, STRICT, NVIDIA)
    assert granted.device_requests == ({"Driver": "", "Count": 2, "Capabilities": [["gpu"]]},)
    assert granted.notice == (
        "2 x NVIDIA_TESLA_T4: the GPUs of this machine stand in for them, whatever their model."
    )


def test_a_type_without_count_is_one() -> None:
    (request,) = grant(MachineSpec(accelerator_type="NVIDIA_L4"), STRICT, NVIDIA).device_requests
    assert request["Count"] == 1


def test_the_flag_alone_gives_all() -> None:
    options = ReplicaOptions(gpus=True)
    assert grant(None, options, NVIDIA).device_requests[0]["Count"] == -1
    assert grant(None, options, CDI).device_requests == (
        {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]},
    )
    assert grant(None, options, NVIDIA).notice == ""


def test_devices_that_the_engine_found_are_named() -> None:
    one = MachineSpec(accelerator_type="NVIDIA_L4", accelerator_count=1)
    assert grant(one, STRICT, CDI).device_requests == ({"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]},)


def test_fewer_devices_than_asked_for_are_all_given_and_said() -> None:
    eight = MachineSpec(accelerator_type="NVIDIA_TESLA_A100", accelerator_count=8)
    granted = grant(eight, ReplicaOptions(), CDI)
    assert granted.device_requests[0]["DeviceIDs"] == ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]
    assert granted.notice == "8 x NVIDIA_TESLA_A100: this machine has 2, which its replicas get."
    with pytest.raises(ConfigError, match="8 x NVIDIA_TESLA_A100 cannot be had here, as this machine has 2"):
        grant(eight, STRICT, CDI)


def test_devices_without_numbers_are_given_together() -> None:
    info = {**PLAIN, "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}]}
    assert grant(T4, STRICT, info).device_requests == (
        {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]},
    )


@pytest.mark.parametrize("info", [PLAIN, NO_DEVICES, {}, {"Runtimes": None}])
def test_without_gpus_a_job_runs_on_the_cpu_and_hears_of_it(info: dict[str, Any]) -> None:
    granted = grant(T4, ReplicaOptions(), info)
    assert granted.device_requests == ()
    assert granted.notice == (
        "NO ACCELERATOR: 2 x NVIDIA_TESLA_T4 cannot be had here, as the Docker engine has no NVIDIA runtime; "
        "its replicas run on the CPU."
    )
    assert "GPUs (--gpu)" in grant(None, ReplicaOptions(gpus=True), info).notice


def test_a_job_that_requires_gpus_is_refused_without() -> None:
    with pytest.raises(ConfigError) as caught:
        grant(T4, STRICT, PLAIN)
    assert caught.value.message.startswith("2 x NVIDIA_TESLA_T4 cannot be had here")
    assert "nvidia-ctk runtime configure" in caught.value.hint


@pytest.mark.parametrize(
    "machine",
    [
        MachineSpec(machine_type="cloud-tpu", accelerator_type="TPU_V3", accelerator_count=8),
        MachineSpec(machine_type="ct5lp-hightpu-4t", tpu_topology="2x2"),
        MachineSpec(machine_type="ct6e-standard-1t"),
    ],
)
@pytest.mark.parametrize("info", [PLAIN, NVIDIA, CDI])
def test_tpus_are_never_here(machine: MachineSpec, info: dict[str, Any]) -> None:
    granted = grant(machine, ReplicaOptions(gpus=True), info)
    assert granted.device_requests == ()
    assert "only Google's machines have TPUs" in granted.notice
    with pytest.raises(ConfigError, match="only Google's machines have TPUs"):
        grant(machine, STRICT, info)


LEASED = ("GPU-c5ae6bf1-edf7-7955-815c-2e758f022392", "GPU-d5ae6bf1-edf7-7955-815c-2e758f022392")
BY_UUID = {**PLAIN, "DiscoveredDevices": [{"ID": f"nvidia.com/gpu={uuid}"} for uuid in LEASED]}


def test_leased_gpus_are_named_by_uuid() -> None:
    granted = grant(T4, STRICT, NVIDIA, LEASED)
    assert granted.device_requests == ({"Driver": "", "DeviceIDs": [*LEASED], "Capabilities": [["gpu"]]},)
    granted = grant(T4, STRICT, {**NVIDIA, **BY_UUID}, LEASED)
    assert granted.device_requests == (
        {"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={uuid}" for uuid in LEASED]},
    )
    assert granted.notice.startswith("2 x NVIDIA_TESLA_T4: the GPUs of this machine stand in for them")
    assert grant(None, ReplicaOptions(gpus=True), NVIDIA, LEASED[:1]).device_requests[0]["DeviceIDs"] == [
        LEASED[0]
    ]


def test_a_share_is_said_and_may_be_refused() -> None:
    granted = grant(T4, ReplicaOptions(), NVIDIA, LEASED[:1])
    assert granted.device_requests[0]["DeviceIDs"] == [LEASED[0]]
    assert granted.notice == "2 x NVIDIA_TESLA_T4: this machine has 1 for each replica."
    with pytest.raises(ConfigError, match="2 x NVIDIA_TESLA_T4 cannot be had here, as this machine has 1"):
        grant(T4, STRICT, NVIDIA, LEASED[:1])


@pytest.mark.parametrize(
    ("info", "leased", "why"),
    [
        (NVIDIA, (), "fewer GPUs than replicas"),
        (PLAIN, LEASED, "no NVIDIA runtime"),
        (CDI, ("GPU-0",), "does not know the GPUs by UUID"),
    ],
)
def test_what_is_leased_and_cannot_be_given(info: dict[str, Any], leased: tuple[str, ...], why: str) -> None:
    granted = grant(T4, ReplicaOptions(), info, leased)
    assert granted.device_requests == ()
    assert granted.notice.startswith("NO ACCELERATOR: 2 x NVIDIA_TESLA_T4 cannot be had here")
    assert why in granted.notice
    with pytest.raises(ConfigError, match=why):
        grant(T4, STRICT, info, leased)


@pytest.mark.parametrize(
    ("machine", "leased", "said"),
    [
        (None, (), ""),
        (MachineSpec(machine_type="n1-standard-4"), (), ""),
        (T4, (), "fewer GPUs than replicas that ask for them"),
        (T4, LEASED[:1], "this machine has 1 for each replica."),
        (T4, LEASED, "stand in for them, whatever their model."),
        (MachineSpec(machine_type="ct6e-standard-1t"), LEASED, "only Google's machines have TPUs"),
    ],
)
def test_processes_hear_what_they_get(
    machine: MachineSpec | None, leased: tuple[str, ...], said: str
) -> None:
    notice = accelerator_notice(machine, leased_devices(leased), required=False)
    assert said in notice
    assert bool(said) == bool(notice)
    if said and leased != LEASED:
        with pytest.raises(ConfigError, match="cannot be had here"):
            accelerator_notice(machine, leased_devices(leased), required=True)


def test_tpus_are_no_gpus() -> None:
    assert gpu_count(T4) == 2
    assert gpu_count(MachineSpec(accelerator_type="NVIDIA_L4")) == 1
    assert gpu_count(MachineSpec(machine_type="cloud-tpu", accelerator_type="TPU_V3")) == 0
