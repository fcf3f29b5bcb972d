"""Hardware that Vertex AI does not have: a doubt, and a refusal only where the service is certain."""

from __future__ import annotations

import msgspec
import pytest

from vtrain.backends.vertex.vertex_plan import check_sendable, doubts_about, machines_of, notices_about
from vtrain.errors import ConfigError
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJob,
    CustomJobSpec,
    DiskSpec,
    MachineSpec,
    WorkerPoolSpec,
)
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.messages.training_task import CUSTOM_TASK, TUNING_TASK, with_task

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
    (name,) = notices_about(misspelled)
    assert doubts_about(misspelled) == ()
    assert name.startswith(f"workerPoolSpecs[0].machineSpec.{told}(its table is of ")
    near = "n1-standard-4" if "machineType" in told else "NVIDIA_TESLA_T4"
    assert name.endswith(f"Did you mean {near}?")


def test_a_machine_type_of_tomorrow_is_sent_with_a_notice() -> None:
    new = job(machine_spec=MachineSpec(machine_type="z9-hyper-1000"))
    (notice,) = notices_about(new)
    assert notice.endswith("It may be newer than that.")
    assert doubts_about(new) == ()
    known = job(machine_spec=MachineSpec(machine_type="tpu7x-standard-4t", tpu_topology="2x2x1"))
    assert notices_about(known) == doubts_about(known) == ()


def test_a_machine_that_no_table_has_is_named_alone() -> None:
    new = MachineSpec(machine_type="z9-hyper-1000")
    assert machines_of(job(machine_spec=new)) == ("workerpool0 runs on z9-hyper-1000.",)


@pytest.mark.parametrize(("task", "each"), [(CUSTOM_TASK, ""), (TUNING_TASK, " of each trial")])
def test_a_pipeline_says_of_whom_the_machines_are(task: str, each: str) -> None:
    spec = job(machine_spec=MachineSpec(machine_type="n1-standard-4")).job_spec
    custom, tuning = CustomJob(job_spec=spec), HyperparameterTuningJob(trial_job_spec=spec)
    pipeline = with_task(TrainingPipeline(), custom if task == CUSTOM_TASK else tuning)
    assert machines_of(pipeline) == (f"workerpool0{each} runs on n1-standard-4: 4 vCPUs, 15 GB.",)


@pytest.mark.parametrize(
    ("task", "told"),
    [
        (CustomJob(), "workerPoolSpecs: a job needs at least one pool."),
        (HyperparameterTuningJob(study_spec=StudySpec(), trial_job_spec=CustomJobSpec()), "studySpec."),
    ],
)
def test_the_task_of_a_pipeline_is_doubted_as_its_own_job_is(
    task: CustomJob | HyperparameterTuningJob, told: str
) -> None:
    (doubt,) = doubts_about(with_task(TrainingPipeline(display_name="a"), task))
    assert doubt.startswith(f"The service may refuse this job. {told}")


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ((), "the first pool is the primary replica, found 2."),
        ((POOL,), "beside other pools the first has"),
    ],
)
def test_several_primaries_are_one_doubt(others: tuple[WorkerPoolSpec, ...], told: str) -> None:
    machine = MachineSpec(machine_type="n1-standard-4")
    pools = (msgspec.structs.replace(POOL, replica_count=2), *others)
    pools = tuple(msgspec.structs.replace(pool, machine_spec=machine) for pool in pools)
    several = CustomJob(display_name="a", job_spec=CustomJobSpec(worker_pool_specs=pools))
    (doubt,) = doubts_about(several)
    assert f"The service may refuse this job. workerPoolSpecs[0].replicaCount: {told}" in doubt
    assert notices_about(several) == ()


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
