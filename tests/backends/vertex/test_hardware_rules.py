"""Hardware that Vertex AI does not have: a doubt, and a refusal only where the service is certain."""

from __future__ import annotations

import msgspec
import pytest

from vtrain.backends.vertex.rules import check_sendable, notices_about
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
    (notice,) = notices_about(doubtful)
    assert notice.startswith(
        "The service may refuse this job. workerPoolSpecs[0].machineSpec.acceleratorType: e2-standard-4 "
        "takes no accelerator, found NVIDIA_L4."
    )
    assert notices_about(job(machine_spec=MachineSpec(machine_type="n9-standard-4"))) == ()


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
