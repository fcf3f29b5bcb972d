"""The plans of jobs that are made of others: tuning jobs, and training pipelines with their tasks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.messages.custom_job import CustomJob
from vtrain.runtime.store import CHILD_LABELS

if TYPE_CHECKING:
    from vtrain.backends import BackendSettings
    from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
    from vtrain.messages.resources import Job
    from vtrain.runtime.job_order import StudyPart


def check_parent(job: Job, settings: BackendSettings) -> tuple[str, ...]:
    """Notes about a job that is made of others.

    Raises ConfigError for one that breaks a rule, UnavailableError where something that it needs is missing.
    """
    from vtrain.messages.training_pipeline import TrainingPipeline

    if isinstance(job, TrainingPipeline):
        from vtrain.messages.pipeline_rules import check_pipeline
        from vtrain.runtime.pipelines.dataset import find_dataset

        check_pipeline(job)
        if job.input_data_config is not None:
            find_dataset(job.input_data_config, settings.home)
    study = _tuning_job(job)
    return _check_study(study, settings) if study is not None else ()


def parent_parts(job: Job, settings: BackendSettings) -> dict[str, Any]:
    """The fields of an order that only tuning jobs and training pipelines have."""
    from vtrain.messages.codec import to_document
    from vtrain.messages.training_pipeline import TrainingPipeline

    if isinstance(job, CustomJob):
        return {}
    study = _tuning_job(job)
    return {
        "study": _study_part(study, settings) if study is not None else None,
        "pipeline": to_document(job) if isinstance(job, TrainingPipeline) else None,
    }


def without_parent(job: Job) -> Job:
    """The job without the labels of one that another job runs.

    The printed job of a trial has them, and may be submitted as a job of its own.
    """
    own = {key: value for key, value in job.labels.items() if key not in CHILD_LABELS.values()}
    return msgspec.structs.replace(job, labels=own) if own != job.labels else job


def _tuning_job(job: Job) -> HyperparameterTuningJob | None:
    """The tuning job that a job is, or that its task is."""
    from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
    from vtrain.messages.training_pipeline import TrainingPipeline
    from vtrain.messages.training_task import task_of

    task = task_of(job) if isinstance(job, TrainingPipeline) else job
    return task if isinstance(task, HyperparameterTuningJob) else None


def _check_study(job: HyperparameterTuningJob, settings: BackendSettings) -> tuple[str, ...]:
    """Notes on parts of a study that have no effect, and on the sampler where the study leaves it open."""
    from vtrain.messages.hyperparameter_tuning_job import StudySpec
    from vtrain.messages.study_rules import check_tuning_job, not_reproduced_of_study
    from vtrain.runtime.tuning.study import GRID, RANDOM
    from vtrain.runtime.tuning.suggestion import choose_sampler

    check_tuning_job(job)
    spec = job.study_spec or StudySpec()
    sampler, notes = choose_sampler(spec, settings.study.sampler), not_reproduced_of_study(spec)
    if sampler.name in (GRID, RANDOM):
        return notes
    return (
        *notes,
        f"Parameters are suggested by {sampler.name.upper()}: {sampler.reason}.",
    )


def _study_part(job: HyperparameterTuningJob, settings: BackendSettings) -> StudyPart:
    """The part of a tuning job's order that the orders of its trials do not have."""
    from vtrain.messages.codec import to_document
    from vtrain.messages.hyperparameter_tuning_job import StudySpec
    from vtrain.runtime.job_order import StudyPart
    from vtrain.runtime.tuning.suggestion import choose_sampler

    wish = settings.study
    return StudyPart(
        job=to_document(msgspec.structs.replace(job, trial_job_spec=None)),
        sampler=choose_sampler(job.study_spec or StudySpec(), wish.sampler).name,
        seed=wish.seed if wish.seed is not None else int.from_bytes(os.urandom(4), "big"),
        continue_from=wish.continue_from,
    )
