from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from lib.job_strategies import valid_jobs

from vtrain.errors import ConfigError
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJob,
    CustomJobSpec,
    DiskSpec,
    EnvVar,
    MachineSpec,
    PythonPackageSpec,
    ReservationAffinity,
    Scheduling,
    WorkerPoolSpec,
)
from vtrain.messages.rules import check_job, check_labels

CONTAINER = WorkerPoolSpec(replica_count=1, container_spec=ContainerSpec(image_uri="gcr.io/p/i"))
PYTHON = WorkerPoolSpec(replica_count=1, python_package_spec=PythonPackageSpec(python_module="trainer.task"))


def job(*pools: WorkerPoolSpec, **fields: object) -> CustomJob:
    spec = CustomJobSpec(worker_pool_specs=pools)
    return msgspec.structs.replace(CustomJob(display_name="demo", job_spec=spec), **fields)


def container(**fields: object) -> WorkerPoolSpec:
    return msgspec.structs.replace(CONTAINER, **fields)


@given(valid_jobs())
def test_good_jobs_pass(good: CustomJob) -> None:
    check_job(good, executor_required=False)


def test_arguments_may_be_as_long_as_the_service_allows() -> None:
    longest = ContainerSpec(image_uri="i", args=("x" * 60_000, "y" * 40_000))
    check_job(job(container(container_spec=longest)), executor_required=True)


def test_placeholders_are_allowed_anywhere_but_first() -> None:
    check_job(job(CONTAINER, WorkerPoolSpec(), CONTAINER, WorkerPoolSpec()), executor_required=True)


def test_a_python_package_needs_no_image_here_and_one_there() -> None:
    check_job(job(PYTHON), executor_required=False)
    with pytest.raises(ConfigError, match=r"workerPoolSpecs\[0\]\.pythonPackageSpec\.executorImageUri"):
        check_job(job(PYTHON), executor_required=True)


ENV_TWICE = ContainerSpec(image_uri="i", env=(EnvVar(name="A", value="1"), EnvVar(name="A", value="2")))
A100 = MachineSpec(machine_type="a2-highgpu-1g", accelerator_type="NVIDIA_TESLA_A100", accelerator_count=1)
T4 = MachineSpec(machine_type="n1-standard-4", accelerator_type="NVIDIA_TESLA_T4", accelerator_count=1)
ANY = ReservationAffinity(reservation_affinity_type="ANY_RESERVATION")
SPECIFIC = ReservationAffinity(reservation_affinity_type="SPECIFIC_RESERVATION", key="k")


def flexible(*machines: MachineSpec | None, **fields: object) -> CustomJob:
    """A job with one pool for each machine, which waits for them."""
    strategy = {"scheduling": Scheduling(strategy="FLEX_START")} | fields
    return with_fields(*(container(machine_spec=machine) for machine in machines), **strategy)


def with_fields(*pools: WorkerPoolSpec, **fields: object) -> CustomJob:
    """A job with these fields of its spec."""
    return job(*pools, job_spec=CustomJobSpec(worker_pool_specs=pools, **fields))


def test_fields_that_go_together_pass() -> None:
    board = with_fields(CONTAINER, tensorboard="projects/1/locations/r/tensorboards/1", service_account="a@b")
    specific = msgspec.structs.replace(SPECIFIC, values=("r",))
    reserved = with_fields(
        container(machine_spec=msgspec.structs.replace(A100, reservation_affinity=specific))
    )
    for each in (
        board,
        reserved,
        flexible(A100),
        flexible(A100, A100),
        flexible(MachineSpec("ct5p-hightpu-4t")),
    ):
        check_job(each, executor_required=True)


BROKEN: list[tuple[CustomJob, str]] = [
    (
        with_fields(CONTAINER, tensorboard="projects/1/locations/r/tensorboards/1"),
        "serviceAccount: must be specified when uploading to TensorBoard.",
    ),
    (
        with_fields(container(machine_spec=msgspec.structs.replace(A100, reservation_affinity=SPECIFIC))),
        "workerPoolSpecs[0].machineSpec.reservationAffinity: SPECIFIC_RESERVATION needs key and values",
    ),
    (
        with_fields(
            container(machine_spec=msgspec.structs.replace(A100, reservation_affinity=ANY)),
            persistent_resource_id="r",
        ),
        "reservationAffinity: a reservation does not go with a persistent resource.",
    ),
    (
        flexible(msgspec.structs.replace(A100, reservation_affinity=ANY)),
        "reservationAffinity: a reservation does not go with FLEX_START.",
    ),
    (flexible(A100, persistent_resource_id="r"), "FLEX_START does not go with a persistent resource."),
    (
        flexible(A100, scheduling=Scheduling(strategy="FLEX_START", timeout="604801s")),
        "scheduling.timeout: with FLEX_START it is 604800s (7 days) at most.",
    ),
    (flexible(T4), "workerPoolSpecs[0].machineSpec: FLEX_START is for L4, A100 and newer GPUs"),
    (flexible(None), "scheduling.strategy: FLEX_START is for L4, A100 and newer GPUs, found none"),
    (
        flexible(A100, msgspec.structs.replace(A100, accelerator_count=2)),
        "workerPoolSpecs[1].machineSpec: with FLEX_START all pools have the same machine.",
    ),
    (job(CONTAINER, display_name=""), "displayName"),
    (job(CONTAINER, display_name="x" * 129), "displayName: at most 128"),
    (job(), "at least one pool"),
    (job(*[CONTAINER] * 5), "at most 4 pools, found 5"),
    (job(WorkerPoolSpec(), CONTAINER), "workerPoolSpecs[0]"),
    (job(CONTAINER, WorkerPoolSpec(replica_count=1)), "workerPoolSpecs[1]: has neither"),
    (job(container(python_package_spec=PythonPackageSpec(python_module="m"))), "has both"),
    (job(container(replica_count=-1)), "workerPoolSpecs[0].replicaCount"),
    (job(container(replica_count=2), CONTAINER), "workerPoolSpecs[0].replicaCount"),
    (job(container(container_spec=ContainerSpec(args=("a",)))), "containerSpec.imageUri"),
    (
        job(container(container_spec=ContainerSpec(image_uri="i", args=("x" * 60_000, "y" * 40_001)))),
        "containerSpec.args: at most 100,000 characters in all, found 100,001",
    ),
    (job(container(container_spec=ENV_TWICE)), "env[1].name: A is there twice"),
    (job(container(container_spec=ContainerSpec(image_uri="i", env=(EnvVar(name="1A"),)))), "env[0].name"),
    (job(container(machine_spec=MachineSpec(accelerator_count=1))), "acceleratorType and acceleratorCount"),
    (
        job(container(machine_spec=MachineSpec(accelerator_type="NVIDIA_L4"))),
        "acceleratorType and acceleratorCount",
    ),
    (
        job(container(disk_spec=DiskSpec(boot_disk_size_gb=50))),
        "diskSpec.bootDiskSizeGb: expected 100 to 64000",
    ),
    (job(CONTAINER, labels={"Team": "a"}), "labels: Team=a"),
]


@pytest.mark.parametrize(("broken", "words"), BROKEN, ids=[words for _, words in BROKEN])
def test_a_broken_rule_is_named_with_its_path(broken: CustomJob, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_job(broken, executor_required=False)
    assert words in caught.value.message


@pytest.mark.parametrize("labels", [{"a": ""}, {"a-b_1": "x"}, {"é": "ü"}, {"名": "字"}, {"a": "²"}])
def test_labels_may_hold(labels: dict[str, str]) -> None:
    check_labels(labels)


@pytest.mark.parametrize(
    "labels",
    [
        {"": "a"},
        {"1a": "b"},
        {"_a": "b"},
        {"a": "B"},
        {"a b": ""},
        {"a" * 64: ""},
        {"a": "b" * 64},
        {"a": "½"},
        {"𝐀": "b"},
        {"a": "𝐁"},
        {"a": "ⅰ"},
        {f"a{number}": "" for number in range(65)},
    ],
)
def test_labels_may_not_hold(labels: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="labels"):
        check_labels(labels)
