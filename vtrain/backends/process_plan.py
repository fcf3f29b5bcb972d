"""What the backend `process` tells before it acts: replicas, environments, and what it has to refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import BackendSettings, Plan, Replica
from vtrain.backends.local_plan import PLANNED_JOB_ID, completed, local_claim, unique
from vtrain.backends.process_buckets import HOST, bucket_notices, output_folder
from vtrain.engine.accelerators import process_notice
from vtrain.engine.capacity.claim import Claim, pool_devices
from vtrain.engine.container_options import ContainerOptions
from vtrain.engine.folder import JobOrder
from vtrain.engine.notices import not_reproduced_by_processes
from vtrain.engine.replica import (
    TRAINING_PORT,
    Surroundings,
    module_argv,
    replica_environment,
    replica_ids,
)
from vtrain.errors import UnavailableError
from vtrain.messages.custom_job import CustomJob, PythonPackageSpec, WorkerPoolSpec

if TYPE_CHECKING:
    from vtrain.engine.environments.environment import EnvironmentSpec
    from vtrain.engine.environments.outlook import Outlook, Trainer
    from vtrain.packaging.plan import SdistPlan

METRIC_FILE = "hypertune/output.metrics"
"""Below a trial's job folder; /var, where Vertex AI has it, belongs to this machine."""


class ProcessWay:
    """Replicas as processes on this machine."""

    name = "process"

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
        """What the job's replicas see. Raises UnavailableError for a job that needs containers."""
        _refuse_containers(job)
        return _planned_replicas(job, self._settings, trial_id)

    def outlook(self, job: CustomJob, trainer: SdistPlan | None) -> Outlook:
        """What the environments will lack. Raises EnvironmentFailed for a damaged package."""
        from vtrain.engine.environments.outlook import Outlook, folder_trainer, outlook

        own = folder_trainer(trainer) if trainer is not None else None
        found = []
        for pool in job.job_spec.worker_pool_specs:
            task = pool.python_package_spec
            seen = own or (_packaged(pool, self._settings.home) if _has_packages(pool) else None)
            if task is not None and seen is not None:
                found.append(outlook(task.executor_image_uri, seen))
        return Outlook(
            notices=unique(line for one in found for line in one.notices),
            missing=unique(line for one in found for line in one.missing),
        )

    def environment_steps(self, job: CustomJob, trainer: SdistPlan | None) -> tuple[str, ...]:
        """What making the environments will take. Raises EnvironmentFailed for a damaged package."""
        home, pools = self._settings.home, job.job_spec.worker_pool_specs
        return unique(_environment_step(pool, home, trainer) for pool in pools if _has_packages(pool))

    def complete(self, order: JobOrder) -> JobOrder:
        """The order with what it claims of this machine, and the one option that processes heed."""
        own = ContainerOptions(credentials_file=self._settings.container.credentials_file)
        return msgspec.structs.replace(order, claim=self._claim(order.job), container=own)

    def _claim(self, job: CustomJob) -> Claim:
        options = self._settings.container
        own = ContainerOptions(memory_bytes=options.memory_bytes)  # `--gpu` concerns containers
        return local_claim(job.job_spec, own)

    def _accelerators(self, job: CustomJob) -> Iterator[str]:
        """What is to be said of the pools' accelerators. Raises ConfigError where they are required."""
        claim, required = self._claim(job), self._settings.container.require_accelerators
        for number, pool in enumerate(job.job_spec.worker_pool_specs):
            line = process_notice(pool.machine_spec, pool_devices(claim, number), required=required)
            if line:
                yield f"workerPoolSpecs[{number}]: {line}"


def environment_spec(pool: WorkerPoolSpec, home: Path) -> EnvironmentSpec:
    """The environment that a pool's packages need. Raises ConfigError for a URI that is not local."""
    from vtrain.engine.environments.environment import EnvironmentSpec
    from vtrain.staging import LocalBuckets

    task = pool.python_package_spec
    assert task is not None
    buckets = LocalBuckets(home)
    packages = tuple(str(buckets.local_path(uri)) for uri in task.package_uris)
    return EnvironmentSpec(packages=packages, image_uri=task.executor_image_uri)


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
    around = Surroundings(
        job_id=PLANNED_JOB_ID,
        region=settings.region,
        hosts={member: f"{HOST}:{TRAINING_PORT + i}" for i, member in enumerate(members)},
        output=output_folder(spec, settings.home, settings.aip_dirs),
        trial_id=trial_id,
        metric_file=str(settings.home / "jobs" / PLANNED_JOB_ID / METRIC_FILE),
    )
    return tuple(
        Replica(
            name=member.name,
            argv=module_argv(_task(spec.worker_pool_specs[member.pool]), "python3"),
            env=replica_environment(spec, member, around),
        )
        for member in members
    )


def _task(pool: WorkerPoolSpec) -> PythonPackageSpec:
    assert pool.python_package_spec is not None
    return pool.python_package_spec


def _has_packages(pool: WorkerPoolSpec) -> bool:
    return pool.python_package_spec is not None and bool(pool.python_package_spec.package_uris)


def _packaged(pool: WorkerPoolSpec, home: Path) -> Trainer | None:
    """The trainer in a pool's packages; None where one of them is not there."""
    from vtrain.engine.environments.outlook import packaged_trainer
    from vtrain.engine.environments.plan import reading_packages

    packages = [Path(package) for package in environment_spec(pool, home).packages]
    if not all(package.is_file() for package in packages):
        return None
    with reading_packages():
        return packaged_trainer(packages)


def _environment_step(pool: WorkerPoolSpec, home: Path, trainer: SdistPlan | None) -> str:
    spec = environment_spec(pool, home)
    if not _are_there(tuple(map(Path, spec.packages)), home, trainer):
        return "Make the trainer's environment once its package is built."
    from vtrain.engine.environments.environment import plan_environment

    plan = plan_environment(spec, home)
    if plan.cached:
        return f"Environment {plan.path}: unchanged, nothing is installed."
    reuse = "its dependencies are there" if plan.dependencies_cached else "dependencies included"
    return f"Make the environment {plan.path}, {reuse}."


def _are_there(packages: tuple[Path, ...], home: Path, trainer: SdistPlan | None) -> bool:
    """Whether packages can be read. Packaging the trainer mends its own where they are damaged."""
    from vtrain.packaging.sdist import is_whole

    if trainer is not None and trainer.file_names == tuple(package.name for package in packages):
        return is_whole(trainer, home / "packages" / trainer.content_hash, packages)
    return all(package.is_file() for package in packages)
