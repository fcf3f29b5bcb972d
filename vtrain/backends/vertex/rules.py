"""What is checked of a job before it is sent: gcloud's own rule about pools, and what the service is certain
to refuse about hardware. All else the service judges."""

from __future__ import annotations

from vtrain.engine.hardware import check_hardware, mismatches
from vtrain.errors import ConfigError
from vtrain.messages.custom_job import CustomJob, CustomJobSpec
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.resources import Job
from vtrain.messages.rules import check_job, check_tasks


def check_sendable(job: Job) -> None:
    """Raise ConfigError for a pool of a custom job without a task, or with two, and for hardware that the
    service certainly refuses."""
    if isinstance(job, CustomJob):
        check_tasks(job.job_spec.worker_pool_specs)
    spec = _spec_of(job)
    if spec is not None:
        check_hardware(spec, certain_only=True)


def notices_about(job: Job) -> tuple[str, ...]:
    """Sentences about what the service is known to refuse; it is sent all the same."""
    spec = _spec_of(job)
    doubts = _broken_rules(job) if isinstance(job, CustomJob) else []
    if spec is not None:
        doubts += [f"{doubt.path}: {doubt.message} {doubt.hint}".rstrip() for doubt in mismatches(spec)]
    output = spec.output_uri if spec is not None else ""
    if output and not output.startswith("gs://"):
        doubts.append(f"baseOutputDirectory: expected gs://BUCKET/…, found {output!r}.")
    return tuple(f"The service may refuse this job. {doubt}" for doubt in doubts)


def _spec_of(job: Job) -> CustomJobSpec | None:
    """What the job runs; for a tuning job, each of its trials."""
    if isinstance(job, CustomJob):
        return job.job_spec
    return job.trial_job_spec if isinstance(job, HyperparameterTuningJob) else None


def _broken_rules(job: CustomJob) -> list[str]:
    """The first rule that the job breaks, if any."""
    try:
        check_job(job, executor_required=True)
    except ConfigError as error:
        return [error.message]
    return []
