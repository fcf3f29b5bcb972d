"""What the replicas of a job will see on Vertex AI, as far as it is known before there is a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtrain.backends import BackendSettings, Replica
from vtrain.engine.replica import (
    UNKNOWN_ENTRYPOINT,
    ReplicaId,
    Surroundings,
    container_argv,
    module_argv,
    replica_environment,
    replica_ids,
    service_hosts,
)
from vtrain.errors import UnavailableError
from vtrain.messages.custom_job import CustomJob, CustomJobSpec, PythonPackageSpec

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

UNKNOWN_JOB = "0" * 19
UNKNOWN_PROJECT = "<PROJECT_NUMBER>"
"""What stands for the number of the project: only the service knows it."""


def replica_views(job: Job, settings: BackendSettings, trial_id: str) -> tuple[Replica, ...]:
    """The replicas of a custom job. Raises UnavailableError for any other kind."""
    if not isinstance(job, CustomJob):
        raise UnavailableError(f"A {type(job).__name__} has no replicas of its own.")
    spec = job.job_spec
    around = Surroundings(
        job_id=UNKNOWN_JOB,
        region=settings.region,
        hosts=service_hosts(spec, UNKNOWN_JOB),
        project_number=UNKNOWN_PROJECT,
        output=spec.output_uri.rstrip("/"),
        trial_id=trial_id,
    )
    return tuple(
        Replica(
            name=member.name,
            argv=_argv(spec, member),
            env=replica_environment(spec, member, around),
        )
        for member in replica_ids(spec)
    )


def _argv(spec: CustomJobSpec, member: ReplicaId) -> tuple[str, ...]:
    task = spec.worker_pool_specs[member.pool].task
    assert task is not None
    if isinstance(task, PythonPackageSpec):
        return module_argv(task, "python3")
    return container_argv(task, (UNKNOWN_ENTRYPOINT,), ())
