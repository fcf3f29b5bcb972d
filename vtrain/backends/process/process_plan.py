"""Plans of the backend `process`: replicas, environments, and reasons to reject a job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import BackendSettings, Plan, Replica, Steps
from vtrain.backends.local_plan import PLANNED_JOB_ID, completed, local_claim, unique
from vtrain.backends.process.process_buckets import HOST, bucket_notices, told_folder
from vtrain.errors import UnavailableError
from vtrain.messages.custom_job import CustomJob, CustomJobSpec, PythonPackageSpec, WorkerPoolSpec
from vtrain.runtime.accelerators import process_notice
from vtrain.runtime.capacity.leases import Claim, pool_devices
from vtrain.runtime.folder import METRIC_FILE
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.notices import not_reproduced_by_processes
from vtrain.runtime.replica import (
    PRIMARY,
    TRAINING_PORT,
    JobContext,
    ReplicaId,
    module_argv,
    replica_environment,
    replica_ids,
)

if TYPE_CHECKING:
    from vtrain.packaging.sdist_plan import SdistPlan
    from vtrain.runtime.environments.environment import EnvironmentSpec
    from vtrain.runtime.environments.outlook import Outlook, Trainer


class ProcessPlanner:
    """Replicas as processes on this machine."""

    name = "process"
    files_per_replica = 2  # its pipes

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings

    def plan(self, job: CustomJob) -> Plan:
        """Exactly what submit would do. Raises UnavailableError for a job that needs containers."""
        job = completed(job)
        _refuse_containers(job)
        return Plan(
            job=job,
            backend=self.name,
            replicas=_planned_replicas(job, self._settings),
            notices=unique([*self._accelerators(job), *bucket_notices(job.job_spec)]),
            not_reproduced=not_reproduced_by_processes(job),
        )

    def view(self, job: CustomJob, trial_id: str) -> tuple[Replica, ...]:
        """The job's replicas. Raises UnavailableError for a job that needs containers."""
        _refuse_containers(job)
        return _planned_replicas(job, self._settings, trial_id)

    def outlook(self, job: CustomJob, trainer: SdistPlan | None) -> Outlook:
        """The packages that the environments will lack. Raises EnvironmentFailed for a damaged package."""
        from vtrain.runtime.environments.outlook import Outlook, folder_trainer

        own = folder_trainer(trainer) if trainer is not None else None
        found = []
        for pool in job.job_spec.worker_pool_specs:
            task = pool.python_package_spec
            seen = own or (_packaged(pool, self._settings.home) if _has_packages(pool) else None)
            if task is not None and seen is not None:
                found.append(self._outlook(task.executor_image_uri, seen))
        return Outlook(
            notices=unique(line for one in found for line in one.notices),
            missing=unique(line for one in found for line in one.missing),
        )

    def _outlook(self, image_uri: str, trainer: Trainer) -> Outlook:
        from vtrain.runtime.environments.outlook import active_outlook, outlook

        settings = self._settings
        if settings.active_python:
            return active_outlook(image_uri, trainer, settings.active_python)
        return outlook(
            image_uri,
            trainer,
            settings.home,
            python=settings.python,
            python_downloads=settings.python_downloads,
        )

    def environment_steps(self, job: CustomJob, trainer: SdistPlan | None) -> Steps:
        """The steps that make the environments. Raises EnvironmentFailed for a damaged package."""
        settings, pools = self._settings, job.job_spec.worker_pool_specs
        if settings.active_python:
            return Steps(notes=(f"The trainer runs in {settings.active_python} as it is.",))
        steps = [_environment_step(pool, settings, trainer) for pool in pools if _has_packages(pool)]
        would = unique(filter(None, steps))
        return Steps(would=would, cached=("Environment",) if steps and not would else ())

    def complete(self, order: JobOrder) -> JobOrder:
        """The order with its claim on this machine's resources."""
        return msgspec.structs.replace(order, claim=self._claim(order.job))

    def _claim(self, job: CustomJob) -> Claim:
        # `--gpu` concerns containers.
        return local_claim(job.job_spec, memory_bytes=self._settings.container.memory_bytes)

    def _accelerators(self, job: CustomJob) -> Iterator[str]:
        """Notices about the pools' accelerators. Raises ConfigError where missing ones are required."""
        claim, required = self._claim(job), self._settings.container.require_accelerators
        for number, pool in enumerate(job.job_spec.worker_pool_specs):
            line = process_notice(pool.machine_spec, pool_devices(claim, number), required=required)
            if line:
                yield f"workerPoolSpecs[{number}]: {line}"


def environment_spec(
    pool: WorkerPoolSpec, home: Path, *, python: str = "", downloads: bool = False, folder: str = ""
) -> EnvironmentSpec:
    """The environment that a pool's packages need. Raises ConfigError for a URI that is not local.

    `python` is the version or the path that was asked for; with `downloads` uv may download it. `folder` is
    that of the command.
    """
    from vtrain.runtime.environments.environment import EnvironmentSpec
    from vtrain.staging import LocalBuckets

    task = pool.python_package_spec
    assert task is not None
    buckets = LocalBuckets(home)
    packages = tuple(str(buckets.local_path(uri)) for uri in task.package_uris)
    return EnvironmentSpec(
        packages=packages,
        image_uri=task.executor_image_uri,
        python=python,
        python_downloads=downloads,
        folder=folder,
    )


def _refuse_containers(job: CustomJob) -> None:
    for pool in job.job_spec.worker_pool_specs:
        if pool.container_spec is not None:
            raise UnavailableError(
                f"The image {pool.container_spec.image_uri} is run by Docker, not by the backend process.",
                hint="Take --backend=docker, or give the trainer as a Python package "
                "(local-package-path=… with python-module=…).",
            )


def _planned_replicas(job: CustomJob, settings: BackendSettings, trial_id: str = "") -> tuple[Replica, ...]:
    """The replicas with Vertex's own ports; the free ones are found when the job starts."""
    spec = job.job_spec
    members = replica_ids(spec)
    context = JobContext(
        job_id=PLANNED_JOB_ID,
        region=settings.region,
        hosts={member: f"{HOST}:{TRAINING_PORT + i}" for i, member in enumerate(members)},
        output=told_folder(spec.output_uri, settings.home, settings.aip_dirs),
        trial_id=trial_id,
        metric_file=str(settings.home / "jobs" / PLANNED_JOB_ID / METRIC_FILE),
    )
    return tuple(
        Replica(
            name=member.name,
            argv=_planned_argv(spec, member, settings),
            env=replica_environment(spec, member, context),
        )
        for member in members
    )


def _planned_argv(spec: CustomJobSpec, member: ReplicaId, settings: BackendSettings) -> tuple[str, ...]:
    task = _task(spec.worker_pool_specs[member.pool])
    if settings.debugger is not None and member == PRIMARY:
        return settings.debugger.planned_argv(task, "python3")
    return module_argv(task, "python3")


def _task(pool: WorkerPoolSpec) -> PythonPackageSpec:
    assert pool.python_package_spec is not None
    return pool.python_package_spec


def _has_packages(pool: WorkerPoolSpec) -> bool:
    return pool.python_package_spec is not None and bool(pool.python_package_spec.package_uris)


def _packaged(pool: WorkerPoolSpec, home: Path) -> Trainer | None:
    """The trainer in a pool's packages; None where a package is missing."""
    from vtrain.runtime.environments.outlook import packaged_trainer
    from vtrain.runtime.environments.plan import reading_packages

    packages = [Path(package) for package in environment_spec(pool, home).packages]
    if not all(package.is_file() for package in packages):
        return None
    with reading_packages():
        return packaged_trainer(packages, _task(pool).python_module)


def _environment_step(pool: WorkerPoolSpec, settings: BackendSettings, trainer: SdistPlan | None) -> str:
    """A sentence on what would be installed; empty for an environment that is there."""
    home = settings.home
    spec = environment_spec(pool, home, python=settings.python)
    if not _are_there(tuple(map(Path, spec.packages)), home, trainer):
        return "Would install the trainer and its requirements."
    from vtrain.runtime.environments.environment import plan_environment

    plan = plan_environment(spec, home)
    if plan.cached:
        return ""
    if plan.dependencies_cached:
        return f"Would install the trainer in {plan.path}; its requirements are cached."
    return f"Would install the trainer and its requirements in {plan.path}."


def _are_there(packages: tuple[Path, ...], home: Path, trainer: SdistPlan | None) -> bool:
    """Whether packages can be read. Packaging the trainer mends its own where they are damaged."""
    from vtrain.packaging.sdist import is_whole

    if trainer is not None and trainer.file_names == tuple(package.name for package in packages):
        return is_whole(trainer, home / "packages" / trainer.content_hash, packages)
    return all(package.is_file() for package in packages)
