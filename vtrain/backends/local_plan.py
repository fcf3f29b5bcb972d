"""The common part of the plans of all local backends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import msgspec

from vtrain.backends import BackendSettings, Plan, Replica, Steps
from vtrain.errors import ConfigError, UnavailableError
from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import CustomJob, DiskSpec, PythonPackageSpec, WorkerPoolSpec
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.messages.names import CHILD_LABELS, CUSTOM_JOBS, ResourceName
from vtrain.messages.resources import Job, spec_of
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.messages.training_task import TaskJob, task_of, with_task
from vtrain.runtime.job_order import JobOrder, StudyPart, TrainerSetting

if TYPE_CHECKING:
    from vtrain.backends import BackendSettings
    from vtrain.messages.custom_job import CustomJobSpec
    from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
    from vtrain.messages.resources import Job
    from vtrain.packaging.sdist_plan import SdistPlan
    from vtrain.runtime.capacity.leases import Claim
    from vtrain.runtime.environments.environment import EnvironmentSpec


T = TypeVar("T")

DEFAULT_DISK = DiskSpec(boot_disk_type="pd-ssd", boot_disk_size_gb=100)
MAX_REPLICAS = 1000
"""Of one job here: ports and processes of one machine do not last for many more."""
PLANNED_JOB_ID = "0" * 19
"""CLOUD_ML_JOB_ID in a plan: the id is given by `submit`."""


class Planner(Protocol):
    """The planner of jobs on a backend of the local runtime, before a supervisor takes over."""

    files_per_replica: int
    """How many files a supervisor has open for each replica."""

    def plan(self, job: CustomJob) -> Plan:
        """Exactly what submitting the job would do; touches nothing."""

    def view(self, job: CustomJob, trial_id: str = "") -> tuple[Replica, ...]:
        """The job's replicas. Works without an engine or a network."""

    def environment_steps(self, job: CustomJob, trainer: SdistPlan | None) -> Steps:
        """The steps that make the job's environments, and the parts that are there."""

    def complete(self, order: JobOrder) -> JobOrder:
        """The order with the parts that only this backend needs."""


def order_of(job: CustomJob, name: str, settings: BackendSettings) -> JobOrder:
    """The part of a job's order that settings decide: what is shown of replicas is made of it as well."""
    return JobOrder(
        home=str(settings.home.absolute()),
        name=name,
        job=job,
        backend="",
        grace_seconds=0.0,
        setting=TrainerSetting(
            python=settings.python,
            active_python=settings.active_python,
            python_downloads=settings.python_downloads,
            credentials_file=settings.options.credentials_file,
            aip_dirs=settings.aip_dirs,
            emulator_port=settings.emulator_port,
        ),
        preemption=settings.preemption,
        debugger=settings.debugger,
        command=settings.command,
    )


def planned_order(job: CustomJob, settings: BackendSettings, trial_id: str = "") -> JobOrder:
    """The order of a job that is only shown."""
    name = ResourceName(
        project=settings.project, location=settings.region, collection=CUSTOM_JOBS, id=PLANNED_JOB_ID
    )
    return msgspec.structs.replace(order_of(job, str(name), settings), trial_id=trial_id)


def pool_lines(job: CustomJob, line: Callable[[int, WorkerPoolSpec], str]) -> Iterator[str]:
    """What is to be said about each pool that has replicas, after the place of that pool."""
    for number, pool in enumerate(job.job_spec.worker_pool_specs):
        if pool.task is not None and (said := line(number, pool)):
            yield f"workerPoolSpecs[{number}]: {said}"


def runnable(job: Job) -> CustomJob:
    """The custom job that runs here: the job itself, the job of each trial, or that of a pipeline's task.

    Raises UnavailableError for a task of another kind, ConfigError where the job of the trials is missing.
    """
    if isinstance(job, CustomJob):
        return job
    spec = spec_of(job)
    task = task_of(job) if isinstance(job, TrainingPipeline) else job
    if spec is None and task is not None:
        hint = "Name a trainer (--local-package-path=DIR), or describe the job of a trial under trialJobSpec."
        raise ConfigError("What the trials run is not given.", hint=hint)
    if spec is None:
        raise UnavailableError(
            "This machine runs pipelines with a custom task or a tuning task, and not those of AutoML.",
            hint="Add --backend=vertex --project=PROJECT_ID.",
        )
    return CustomJob(display_name=job.display_name, job_spec=spec, encryption_spec=job.encryption_spec)


def with_spec(job: Job, spec: CustomJobSpec) -> Job:
    """The job with another description of what runs."""
    if isinstance(job, TrainingPipeline):
        task = task_of(job)
        assert task is not None
        return with_task(job, cast("TaskJob", with_spec(task, spec)))
    field = "job_spec" if isinstance(job, CustomJob) else "trial_job_spec"
    return msgspec.structs.replace(job, **{field: spec})


def check_replicas(spec: CustomJobSpec) -> None:
    """Raise UnavailableError for more replicas than one machine runs; nothing is expanded for that."""
    count = sum(pool.replica_count or 1 for pool in spec.worker_pool_specs if pool.task is not None)
    if count > MAX_REPLICAS:
        raise UnavailableError(
            f"The job has {count} replicas, and a job on this machine has {MAX_REPLICAS} at most.",
            hint="Lower replicaCount, or add --backend=vertex --project=PROJECT_ID.",
        )


def completed(job: CustomJob) -> CustomJob:
    """The job with the defaults that the service fills in."""
    pools = tuple(_completed_pool(pool) for pool in job.job_spec.worker_pool_specs)
    spec = msgspec.structs.replace(job.job_spec, worker_pool_specs=pools)
    return msgspec.structs.replace(job, job_spec=spec)


def local_claim(spec: CustomJobSpec, *, memory_bytes: int = 0, all_gpus: bool = False) -> Claim:
    """A job's claim on this machine's resources. Raises ConfigError for a limit that cannot be meant."""
    from vtrain.runtime.capacity.offer import claim_of, machine_offer, wants_accelerators

    offer = machine_offer(accelerators=wants_accelerators(spec, all_gpus=all_gpus))
    return claim_of(spec, offer, memory_bytes=memory_bytes, all_gpus=all_gpus)


def package_files(pool: WorkerPoolSpec) -> tuple[str, ...]:
    """The URIs of the packages that a pool's replicas need installed."""
    return pool.python_package_spec.package_uris if pool.python_package_spec else ()


def package_paths(pool: WorkerPoolSpec, home: Path) -> tuple[Path, ...]:
    """The same packages on this machine. Raises ConfigError for a URI that is not local."""
    from vtrain.staging import LocalBuckets

    buckets = LocalBuckets(home)
    return tuple(buckets.local_path(uri) for uri in package_files(pool))


def image_uri(pool: WorkerPoolSpec) -> str:
    """The image that a pool names: that of its container, or the executor image."""
    task = pool.task
    return task.executor_image_uri if isinstance(task, PythonPackageSpec) else task.image_uri if task else ""


def environment_spec(pool: WorkerPoolSpec, order: JobOrder) -> EnvironmentSpec:
    """The environment that a pool's packages need. Raises ConfigError for a URI that is not local."""
    from vtrain.runtime.environments.environment import EnvironmentSpec

    return EnvironmentSpec(
        packages=tuple(map(str, package_paths(pool, Path(order.home)))),
        image_uri=image_uri(pool),
        python=order.setting.python,
        python_downloads=order.setting.python_downloads,
        folder=order.command.folder if order.command is not None else "",
    )


def for_each_pool(order: JobOrder, make: Callable[[int, WorkerPoolSpec], T]) -> tuple[T, ...]:
    """What `make` gives for each pool and its number; once for pools of the same image and packages."""
    made: dict[tuple[object, ...], T] = {}
    found = []
    for number, pool in enumerate(order.job.job_spec.worker_pool_specs):
        key = (image_uri(pool), package_files(pool))
        if key not in made:
            made[key] = make(number, pool)
        found.append(made[key])
    return tuple(found)


def unique(lines: Iterable[str]) -> tuple[str, ...]:
    """Each line once, in order."""
    return tuple(dict.fromkeys(lines))


def _completed_pool(pool: WorkerPoolSpec) -> WorkerPoolSpec:
    if pool.task is None:
        return pool
    return msgspec.structs.replace(
        pool, replica_count=pool.replica_count or 1, disk_spec=pool.disk_spec or DEFAULT_DISK
    )


def check_parent(job: Job, settings: BackendSettings) -> tuple[str, ...]:
    """Notes about a job that is made of others: what has no effect, and the sampler that a study left open.

    Raises ConfigError for one that breaks a rule, UnavailableError where something that it needs is missing.
    """
    from vtrain.messages.study_rules import check_tuning_job, not_reproduced_of_study
    from vtrain.runtime.tuning.study import GRID, RANDOM
    from vtrain.runtime.tuning.suggestion import choose_sampler

    if isinstance(job, TrainingPipeline):
        from vtrain.messages.model import ModelTarget
        from vtrain.messages.pipeline_rules import check_pipeline
        from vtrain.runtime.model_registry import ModelRegistry
        from vtrain.runtime.pipelines.dataset import find_dataset

        check_pipeline(job)
        if job.input_data_config is not None:
            find_dataset(job.input_data_config, settings.home)
        if job.model_to_upload is not None:  # refused before the training, and not after it
            target = ModelTarget(model_id=job.model_id, parent=job.parent_model)
            ModelRegistry(settings.home, settings.region).check_target(job.model_to_upload, target)
    study = _tuning_job(job)
    if study is None:
        return ()
    check_tuning_job(study)
    spec = study.study_spec or StudySpec()
    sampler, notes = choose_sampler(spec, settings.study.sampler), not_reproduced_of_study(spec)
    if sampler.name in (GRID, RANDOM):
        return notes
    return (*notes, f"Parameters are suggested by {sampler.name.upper()}: {sampler.reason}.")


def parent_parts(job: Job, settings: BackendSettings) -> dict[str, Any]:
    """The fields of an order that only tuning jobs and training pipelines have."""
    if isinstance(job, CustomJob):
        return {}
    from vtrain.runtime.tuning.suggestion import choose_sampler

    study, wish = _tuning_job(job), settings.study
    part = study and StudyPart(
        job=to_document(msgspec.structs.replace(study, trial_job_spec=None)),  # the orders of trials have it
        sampler=choose_sampler(study.study_spec or StudySpec(), wish.sampler).name,
        seed=wish.seed if wish.seed is not None else int.from_bytes(os.urandom(4), "big"),
        continue_from=wish.continue_from,
    )
    return {"study": part, "pipeline": to_document(job) if isinstance(job, TrainingPipeline) else None}


def without_parent(job: Job) -> Job:
    """The job without the labels of one that another job runs.

    The printed job of a trial has them, and may be submitted as a job of its own.
    """
    own = {key: value for key, value in job.labels.items() if key not in CHILD_LABELS.values()}
    return msgspec.structs.replace(job, labels=own) if own != job.labels else job


def _tuning_job(job: Job) -> HyperparameterTuningJob | None:
    """The tuning job that a job is, or that its task is."""

    task = task_of(job) if isinstance(job, TrainingPipeline) else job
    return task if isinstance(task, HyperparameterTuningJob) else None
