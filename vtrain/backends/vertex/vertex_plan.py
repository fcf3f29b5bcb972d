"""A job before it is sent: gcloud's own rule about pools, hardware that the service is certain to refuse, and
the view of its replicas. All else the service judges."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from vtrain.backends import BackendSettings, Replica
from vtrain.errors import ConfigError, UnavailableError
from vtrain.extras import install_command
from vtrain.messages.custom_job import CustomJob, MachineSpec
from vtrain.messages.hardware import check_hardware, machines_with, mismatches
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.pipeline_rules import check_pipeline
from vtrain.messages.resources import Job, spec_of
from vtrain.messages.rules import check_account_of_board, check_job, check_tasks
from vtrain.messages.study_rules import check_tuning_job
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.messages.training_task import task_of
from vtrain.runtime.machines import (
    accelerators_of,
    machine,
    machine_memory,
    notices_about_names,
    several_primaries,
)
from vtrain.runtime.replica.vertex_view import (
    JobContext,
    replica_argv,
    replica_environment,
    replica_ids,
    service_hosts,
    trial_spec,
)
from vtrain.sizes import memory_in_words

MOST_REPLICAS = 1000
UNKNOWN_JOB = "0" * 19
UNKNOWN_PROJECT = "<PROJECT_NUMBER>"
"""Stands for the number of the project, which only the service knows."""


def library_has_fields(message: str, document: Mapping[str, Any], api_version: str) -> bool:
    """Whether the installed google-cloud-aiplatform knows all fields in a document of the message.

    Only fields that vtrain does not know lead here: the library's import takes more than a second. Raises
    UnavailableError where it is not installed.
    """
    try:
        from google.protobuf.json_format import Error, ParseDict

        library = import_module(f"google.cloud.aiplatform_{api_version}")
    except ImportError as error:  # google-auth alone, which other packages bring along, sends requests
        raise UnavailableError(
            f"Fields that vtrain does not know ({', '.join(document)}) are looked up in "
            "google-cloud-aiplatform, which is not installed.",
            hint=f"Install it with: {install_command('vertex')}. Or correct the names of these fields.",
        ) from error
    known = getattr(library, message)
    try:
        ParseDict(document, known.pb(known()))
    except (Error, TypeError, ValueError, RecursionError):  # the last three for values that no JSON holds
        return False
    return True


def check_sendable(job: Job) -> None:
    """Raise ConfigError for a pool of a custom job without a task, or with two, and for hardware and a
    TensorBoard that the service certainly refuses."""
    if isinstance(job, CustomJob):
        check_tasks(job.job_spec.worker_pool_specs)
    spec = spec_of(job)
    if spec is not None:
        check_hardware(spec, certain_only=True)
        check_account_of_board(spec)


def notices_about(job: Job) -> tuple[str, ...]:
    """Sentences about names that may be newer than vtrain."""
    spec = spec_of(job)
    return notices_about_names(spec) if spec is not None else ()


def doubts_about(job: Job) -> tuple[str, ...]:
    """Sentences about what the service is known to refuse."""
    spec = spec_of(job)
    doubts = _broken_rules(job)
    if spec is not None:
        for index, pool in enumerate(spec.worker_pool_specs):
            given = pool.machine_spec or MachineSpec()
            if pool.task and not given.machine_type:
                fits = machines_with(given.accelerator_type, given.accelerator_count) or ("n1-standard-4",)
                add = f" Add --machine-type={fits[0]}." if isinstance(job, CustomJob) and index == 0 else ""
                doubts.append(f"workerPoolSpecs[{index}].machineSpec.machineType: is required.{add}")
        doubts += several_primaries(spec)
        doubts += [f"{doubt.message} {doubt.hint}".rstrip() for doubt in mismatches(spec)]
    output = spec.output_uri if spec is not None else ""
    if output and not output.startswith("gs://"):
        doubts.append(f"baseOutputDirectory: expected gs://BUCKET/…, found {output!r}.")
    return tuple(f"The service may refuse this job. {doubt}" for doubt in doubts)


def machines_of(job: Job) -> tuple[str, ...]:
    """Sentences about the machines of each pool."""
    spec = spec_of(job)
    task = task_of(job) if isinstance(job, TrainingPipeline) else job
    each = " of each trial" if isinstance(task, HyperparameterTuningJob) else ""
    notes = []
    for index, pool in enumerate(spec.worker_pool_specs if spec is not None else ()):
        given = pool.machine_spec or MachineSpec()
        known = machine(given.machine_type)
        size = f"{known.cpus} vCPUs, {memory_in_words(machine_memory(pool))}" if known else ""
        parts = ", ".join(filter(None, (size, accelerators_of(given))))
        machines = ": ".join(filter(None, (given.machine_type, parts)))
        count = f"{pool.replica_count} x " if pool.replica_count > 1 else ""
        if pool.task is not None and given.machine_type:
            notes.append(f"workerpool{index}{each} runs on {count}{machines}.")
    return tuple(notes)


def _broken_rules(job: Job) -> list[str]:
    """The first rule that the job breaks, or the task of a pipeline, if any."""
    try:
        if isinstance(job, TrainingPipeline):
            check_pipeline(job)
        task = task_of(job) if isinstance(job, TrainingPipeline) else job
        if isinstance(task, CustomJob):
            check_job(task, executor_required=True)
        elif task is not None:
            check_tuning_job(task, executor_required=True)
    except ConfigError as error:
        return [f"{error.message} {error.hint}".rstrip()]
    return []


def replica_views(job: Job, settings: BackendSettings, trial_id: str) -> tuple[Replica, ...]:
    """The replicas of a custom job. Raises UnavailableError for any other kind, and for too many of them."""
    if not isinstance(job, CustomJob):
        raise UnavailableError(f"A {type(job).__name__} has no replicas of its own.")
    spec = trial_spec(job.job_spec, trial_id) if trial_id else job.job_spec
    count = sum(pool.replica_count or 1 for pool in spec.worker_pool_specs if pool.task is not None)
    if count > MOST_REPLICAS:  # each replica's environment names all the others
        raise UnavailableError(
            f"The job has {count} replicas, and {MOST_REPLICAS} at most are shown.",
            hint="Lower replicaCount.",
        )
    context = JobContext(
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
            argv=replica_argv(task),
            env=replica_environment(spec, member, context),
        )
        for member in replica_ids(spec)
        if (task := spec.worker_pool_specs[member.pool].task) is not None
    )
