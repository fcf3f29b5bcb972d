"""The plans of jobs that are made of others: tuning jobs, and training pipelines with their tasks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import CustomJob
from vtrain.runtime.job_order import StudyPart
from vtrain.runtime.store import CHILD_LABELS

if TYPE_CHECKING:
    from vtrain.backends import BackendSettings
    from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
    from vtrain.messages.resources import Job


def check_parent(job: Job, settings: BackendSettings) -> tuple[str, ...]:
    """Notes about a job that is made of others: what has no effect, and the sampler that a study left open.

    Raises ConfigError for one that breaks a rule, UnavailableError where something that it needs is missing.
    """
    from vtrain.messages.hyperparameter_tuning_job import StudySpec
    from vtrain.messages.study_rules import check_tuning_job, not_reproduced_of_study
    from vtrain.messages.training_pipeline import TrainingPipeline
    from vtrain.runtime.tuning.study import GRID, RANDOM
    from vtrain.runtime.tuning.suggestion import choose_sampler

    if isinstance(job, TrainingPipeline):
        from vtrain.messages.pipeline_rules import check_pipeline
        from vtrain.runtime.pipelines.dataset import find_dataset

        check_pipeline(job)
        if job.input_data_config is not None:
            find_dataset(job.input_data_config, settings.home)
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
    from vtrain.messages.hyperparameter_tuning_job import StudySpec
    from vtrain.messages.training_pipeline import TrainingPipeline
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
    from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
    from vtrain.messages.training_pipeline import TrainingPipeline
    from vtrain.messages.training_task import task_of

    task = task_of(job) if isinstance(job, TrainingPipeline) else job
    return task if isinstance(task, HyperparameterTuningJob) else None
