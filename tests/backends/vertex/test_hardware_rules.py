"""Hardware that Vertex AI does not have: a doubt, and a refusal only where the service is certain."""

from __future__ import annotations

import msgspec
import pytest

from vtrain.backends.vertex.vertex_plan import check_sendable, doubts_about
from vtrain.errors import ConfigError
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJob,
    CustomJobSpec,
    DiskSpec,
    MachineSpec,
    WorkerPoolSpec,
)
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob

TPU = MachineSpec(machine_type="cloud-tpu", accelerator_type="TPU_V3", accelerator_count=8)
POOL = WorkerPoolSpec(container_spec=ContainerSpec(image_uri="gcr.io/p/i"), replica_count=1)


def job(**fields: object) -> CustomJob:
    pool = msgspec.structs.replace(POOL, **fields)
    return CustomJob(display_name="a", job_spec=CustomJobSpec(worker_pool_specs=(pool,)))


def test_a_mismatch_is_a_doubt() -> None:
    machine = MachineSpec(machine_type="e2-standard-4", accelerator_type="NVIDIA_L4", accelerator_count=1)
    doubtful = job(machine_spec=machine)
    check_sendable(doubtful)
    (notice,) = doubts_about(doubtful)
    assert notice.startswith(
        "The service may refuse this job. workerPoolSpecs[0].machineSpec.acceleratorType: e2-standard-4 "
        "takes no accelerator, found NVIDIA_L4."
    )


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        (MachineSpec(machine_type="n1-standrd-4"), "machineType: vtrain does not know n1-standrd-4 "),
        (
            MachineSpec(
                machine_type="n1-standard-4", accelerator_type="NVIDIA_TESLA_T5", accelerator_count=1
            ),
            "acceleratorType: vtrain does not know NVIDIA_TESLA_T5 ",
        ),
    ],
)
def test_a_name_that_no_table_has_is_a_notice_with_the_nearest(machine: MachineSpec, told: str) -> None:
    misspelled = job(machine_spec=machine)
    check_sendable(misspelled)
    name, *_ = doubts_about(misspelled)
    assert name.startswith(f"workerPoolSpecs[0].machineSpec.{told}(its table is of ")
    near = "n1-standard-4" if "machineType" in told else "NVIDIA_TESLA_T4"
    assert name.endswith(f"Did you mean {near}?")


def test_a_machine_type_of_tomorrow_is_sent_with_a_notice() -> None:
    (notice,) = doubts_about(job(machine_spec=MachineSpec(machine_type="z9-hyper-1000")))
    assert notice.endswith("It may be newer than that.")
    assert (
        doubts_about(job(machine_spec=MachineSpec(machine_type="tpu7x-standard-4t", tpu_topology="2x2x1")))
        == ()
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"machine_spec": TPU, "replica_count": 2}, "a pool with TPUs has 1 replica, found 2"),
        ({"disk_spec": DiskSpec(boot_disk_size_gb=50)}, "expected 100 to 64000, found 50"),
    ],
)
def test_what_the_service_certainly_refuses_is_not_sent(fields: dict[str, object], message: str) -> None:
    refused = job(**fields)
    trials = HyperparameterTuningJob(trial_job_spec=refused.job_spec)
    for sent in (refused, trials):
        with pytest.raises(ConfigError, match=message):
            check_sendable(sent)
