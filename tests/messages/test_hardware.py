"""Which hardware Vertex AI has: what passes, what is refused, and what only raises a doubt."""

from __future__ import annotations

import pytest

from vtrain.errors import ConfigError
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJobSpec,
    DiskSpec,
    MachineSpec,
    WorkerPoolSpec,
)
from vtrain.messages.hardware import GPUS, TPU_TOPOLOGIES, check_hardware, mismatches
from vtrain.runtime.machines import machine_types

IMAGE = ContainerSpec(image_uri="an/image")


def pool(
    machine: MachineSpec | None = None, replicas: int = 1, disk: DiskSpec | None = None
) -> WorkerPoolSpec:
    return WorkerPoolSpec(container_spec=IMAGE, machine_spec=machine, replica_count=replicas, disk_spec=disk)


def spec(*pools: WorkerPoolSpec) -> CustomJobSpec:
    return CustomJobSpec(worker_pool_specs=pools)


def machine(kind: str, accelerator: str = "", count: int = 0, topology: str = "") -> MachineSpec:
    return MachineSpec(
        machine_type=kind, accelerator_type=accelerator, accelerator_count=count, tpu_topology=topology
    )


@pytest.mark.parametrize(
    "given",
    [
        machine(""),
        machine("n1-standard-4"),
        machine("n1-standard-4", "ACCELERATOR_TYPE_UNSPECIFIED"),
        machine("n1-standard-4", "NVIDIA_TESLA_T4", 4),
        machine("n1-highcpu-64", "NVIDIA_TESLA_P100", 4),
        machine("n1-standard-96", "NVIDIA_TESLA_V100", 8),
        machine("e2-standard-4"),
        machine("a2-megagpu-16g", "NVIDIA_TESLA_A100", 16),
        machine("g2-standard-24", "NVIDIA_L4", 2),
        machine("g4-standard-384", "NVIDIA_RTX_PRO_6000", 8),
        machine("cloud-tpu", "TPU_V2", 8),
        machine("cloud-tpu", "TPU_V2", 64),
        machine("cloud-tpu", "TPU_V3", 2048),
        machine("ct5lp-hightpu-4t", topology="16x16"),
        machine("ct6e-standard-1t", topology="1x1"),
        machine("tpu7x-standard-4t", topology="8x8x16"),
        machine("z9-standard-4", "NVIDIA_OF_TOMORROW", 3),
        machine("n1-standard-128", "NVIDIA_L4", 3),
    ],
)
def test_what_the_service_has_passes(given: MachineSpec) -> None:
    check_hardware(spec(pool(given)))


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        (
            machine("n1-standard-4", "NVIDIA_TESLA_T4", 3),
            "acceleratorCount",
            "does not take 3 NVIDIA_TESLA_T4",
        ),
        (
            machine("n1-standard-4", "NVIDIA_L4", 1),
            "acceleratorType",
            "n1-standard-4 does not take NVIDIA_L4",
        ),
        (machine("n1-standard-64", "NVIDIA_TESLA_P100", 4), "acceleratorType", "does not take"),
        (machine("n1-standard-4", "NVIDIA_TESLA_K80", 1), "acceleratorType", "NVIDIA_TESLA_K80 is gone"),
        (machine("e2-standard-4", "NVIDIA_TESLA_T4", 1), "acceleratorType", "takes no accelerator"),
        (machine("c2-standard-4", "NVIDIA_TESLA_T4", 1), "acceleratorType", "takes no accelerator"),
        (machine("a2-highgpu-2g", "NVIDIA_TESLA_A100", 1), "acceleratorCount", "does not take 1"),
        (machine("a3-highgpu-8g"), "acceleratorType", "needs its accelerator named"),
        (machine("n1-standard-4", "TPU_V3", 8), "machineType", "TPU_V3 goes with cloud-tpu"),
        (machine("cloud-tpu"), "acceleratorType", "takes TPU_V2 or TPU_V3, found none"),
        (machine("cloud-tpu", "TPU_V2", 48), "acceleratorCount", "a multiple of 32, found 48"),
        (machine("cloud-tpu", "TPU_V3", 16), "acceleratorCount", "32 and more, found 16"),
        (machine("ct5lp-hightpu-4t"), "tpuTopology", "needs a topology"),
        (machine("ct5lp-hightpu-1t", topology="2x2"), "tpuTopology", "does not have the topology 2x2"),
        (machine("tpu7x-standard-4t", topology="2x2"), "tpuTopology", "does not have the topology 2x2"),
        (machine("ct6e-standard-1t", "TPU_V3", 8, "1x1"), "acceleratorType", "brings its TPUs"),
    ],
)
def test_what_it_does_not_have_is_refused_with_its_path(given: MachineSpec, field: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_hardware(spec(pool(), pool(given)))
    refusals = [
        caught.value.message,
        *(found.message for found in mismatches(spec(pool(given)))),
    ]
    assert any(f"machineSpec.{field}: " in refusal and message in refusal for refusal in refusals)
    check_hardware(spec(pool(given)), certain_only=True)


def test_the_hint_says_what_is_allowed() -> None:
    with pytest.raises(ConfigError) as caught:
        check_hardware(spec(pool(machine("n1-standard-16", "NVIDIA_TESLA_V100", 1))))
    assert caught.value.message == (
        "workerPoolSpecs[0].machineSpec.acceleratorCount: n1-standard-16 does not take 1 NVIDIA_TESLA_V100."
    )
    assert "2, 4 or 8 NVIDIA_TESLA_V100" in caught.value.hint


@pytest.mark.parametrize(
    "tpu", [machine("cloud-tpu", "TPU_V3", 8), machine("ct6e-standard-1t", topology="1x1")]
)
def test_a_job_with_tpus_is_one_pool_of_one_replica(tpu: MachineSpec) -> None:
    check_hardware(spec(pool(tpu)))
    check_hardware(spec(pool(tpu), WorkerPoolSpec()))
    for several in (spec(pool(tpu, replicas=2)), spec(pool(tpu), pool()), spec(pool(), pool(tpu))):
        with pytest.raises(ConfigError, match=r"with TPUs has (1 replica|one pool)"):
            check_hardware(several, certain_only=True)


@pytest.mark.parametrize("size", [1, 99, 64001])
def test_boot_disks_have_limits(size: int) -> None:
    with pytest.raises(ConfigError, match=r"diskSpec\.bootDiskSizeGb: expected 100 to 64000"):
        check_hardware(spec(pool(disk=DiskSpec(boot_disk_size_gb=size))), certain_only=True)


def test_boot_disks_have_types() -> None:
    check_hardware(spec(pool(disk=DiskSpec(boot_disk_type="hyperdisk-balanced", boot_disk_size_gb=64000))))
    floppy = spec(pool(disk=DiskSpec(boot_disk_type="floppy")))
    check_hardware(floppy, certain_only=True)
    with pytest.raises(ConfigError, match="bootDiskType: there is no floppy"):
        check_hardware(floppy)


def test_the_tables_agree_about_machine_types() -> None:
    known = {*machine_types(), "tpu7x-standard-4t"}
    assert known.issuperset(GPUS)
    assert known.issuperset(TPU_TOPOLOGIES)
    with_gpus = {kind for kind in known if kind.startswith(("a2-", "a3-", "a4", "g2-", "g4-", "n1-"))}
    assert with_gpus == set(GPUS)
