"""What the backend `process` tells before it acts: replicas, environments, and what it has to refuse."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vtrain.backends import BackendSettings, Plan, Replica
from vtrain.backends.local_plan import PLANNED_JOB_ID, completed, unique
from vtrain.engine.folder import JobOrder
from vtrain.engine.notices import process_notices
from vtrain.engine.replica import (
    TRAINING_PORT,
    Surroundings,
    module_argv,
    replica_environment,
    replica_ids,
)
from vtrain.errors import UnavailableError
from vtrain.messages.custom_job import CustomJob, CustomJobSpec, PythonPackageSpec, WorkerPoolSpec

if TYPE_CHECKING:
    from vtrain.engine.environments import EnvironmentSpec

HOST = "127.0.0.1"


class ProcessWay:
    """Replicas as processes on this machine."""

    name = "process"

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings

    def plan(self, job: CustomJob) -> Plan:
        """Exactly what submit would do. Raises UnavailableError for a job that needs containers."""
        job = completed(job)
        _refuse_containers(job)
        pools = job.job_spec.worker_pool_specs
        environments = [_environment_notes(pool, self._settings.home) for pool in pools]
        return Plan(
            job=job,
            backend=self.name,
            replicas=_planned_replicas(job, self._settings),
            notices=unique(
                [*process_notices(job), *(line for notices, _ in environments for line in notices)]
            ),
            steps=unique(step for _, steps in environments for step in steps),
        )

    def complete(self, order: JobOrder) -> JobOrder:
        """The order as it is: processes need nothing else."""
        return order


def environment_spec(pool: WorkerPoolSpec, home: Path) -> EnvironmentSpec:
    """The environment that a pool's packages need. Raises ConfigError for a URI that is not local."""
    from vtrain.engine.environments import EnvironmentSpec
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


def _planned_replicas(job: CustomJob, settings: BackendSettings) -> tuple[Replica, ...]:
    """The replicas with Vertex's own ports; the free ones are found when the job starts."""
    spec = job.job_spec
    members = replica_ids(spec)
    around = Surroundings(
        job_id=PLANNED_JOB_ID,
        region=settings.region,
        hosts={member: f"{HOST}:{TRAINING_PORT + i}" for i, member in enumerate(members)},
        output=output_folder(spec, settings.home),
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


def _environment_notes(pool: WorkerPoolSpec, home: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Notices and steps for the environment of a pool."""
    if pool.python_package_spec is None or not pool.python_package_spec.package_uris:
        return (), ()
    spec = environment_spec(pool, home)
    if not all(Path(package).is_file() for package in spec.packages):
        return (), ("Make the trainer's environment once its package is built.",)
    from vtrain.engine.environments import plan_environment

    plan = plan_environment(spec, home)
    if plan.cached:
        return plan.notices, (f"Environment {plan.path}: unchanged, nothing is installed.",)
    reuse = "its dependencies are there" if plan.dependencies_cached else "dependencies included"
    return plan.notices, (f"Make the environment {plan.path}, {reuse}.",)


def output_folder(spec: CustomJobSpec, home: Path) -> str:
    """The base output directory as a local path; empty without one."""
    if not spec.output_uri:
        return ""
    from vtrain.staging import LocalBuckets

    return str(LocalBuckets(home).local_path(spec.output_uri)).rstrip("/")
