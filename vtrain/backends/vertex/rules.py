"""What is checked of a job before it is sent: gcloud's own rule about pools. All else the service judges."""

from __future__ import annotations

from vtrain.errors import ConfigError
from vtrain.messages.custom_job import CustomJob, CustomJobSpec
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.resources import Job
from vtrain.messages.rules import check_job, check_tasks


def check_sendable(job: Job) -> None:
    """Raise ConfigError for a pool of a custom job that has no task, or two."""
    if isinstance(job, CustomJob):
        check_tasks(job.job_spec.worker_pool_specs)


def notices_about(job: Job) -> tuple[str, ...]:
    """Sentences about what the service is known to refuse; it is sent all the same."""
    spec: CustomJobSpec | None = None
    doubts: list[str] = []
    if isinstance(job, CustomJob):
        spec, doubts = job.job_spec, _broken_rules(job)
    elif isinstance(job, HyperparameterTuningJob):
        spec = job.trial_job_spec
    output = spec.output_uri if spec is not None else ""
    if output and not output.startswith("gs://"):
        doubts.append(f"baseOutputDirectory: expected gs://BUCKET/…, found {output!r}.")
    return tuple(f"The service may refuse this job. {doubt}" for doubt in doubts)


def _broken_rules(job: CustomJob) -> list[str]:
    """The first rule that the job breaks, if any."""
    try:
        check_job(job, executor_required=True)
    except ConfigError as error:
        return [error.message]
    return []
