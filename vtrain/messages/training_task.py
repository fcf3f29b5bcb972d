"""The task of a training pipeline that trains with the user's own code: a custom job, or a tuning job.

Sources: the schemas `custom_task_1.0.0.yaml` and `hyperparameter_tuning_task_1.0.0.yaml` of
`gs://google-cloud-aiplatform/schema/trainingjob/definition/`. The inputs of the first are a CustomJobSpec,
those of the second a HyperparameterTuningJob without its name. Both may be written in snake_case.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from vtrain.messages.codec import check_json_types, mapped, read_message, to_document, with_json_names
from vtrain.messages.custom_job import CustomJob, CustomJobSpec
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.training_pipeline import TrainingPipeline

_DEFINITIONS = "gs://google-cloud-aiplatform/schema/trainingjob/definition/"
CUSTOM_TASK = f"{_DEFINITIONS}custom_task_1.0.0.yaml"
TUNING_TASK = f"{_DEFINITIONS}hyperparameter_tuning_task_1.0.0.yaml"
INPUTS = "trainingTaskInputs"
TRIAL = "trialJobSpec"
BACKING_JOB = "backingCustomJob"
BACKING_TUNING_JOB = "backingHyperparameterTuningJob"
BEST_TRIAL_JOB = "bestTrialBackingCustomJob"
"""The fields of `trainingTaskMetadata` that name the jobs of a task."""

M = TypeVar("M", bound=msgspec.Struct)
TaskJob = CustomJob | HyperparameterTuningJob


def task_of(pipeline: TrainingPipeline) -> TaskJob | None:
    """The job that the pipeline's task is; None for a task that only the service knows, as of AutoML.

    Raises FieldError for inputs that do not describe a job.
    """
    inputs = mapped(pipeline.training_task_inputs, _whole)
    if pipeline.training_task_definition == CUSTOM_TASK:
        spec = _read_strictly(CustomJobSpec, inputs)
        return CustomJob(display_name=f"{pipeline.display_name[:117]}-custom-job", job_spec=spec)
    if pipeline.training_task_definition == TUNING_TASK:
        job = _read_strictly(HyperparameterTuningJob, inputs)
        name = f"{pipeline.display_name[:101]}-hyperparameter-tuning-job"
        return msgspec.structs.replace(job, display_name=name)
    return None


def _read_strictly(cls: type[M], inputs: Any) -> M:
    """The message in a task's inputs, which are refused as the service's JSON parser refuses them."""
    document = with_json_names(cls, inputs, INPUTS)
    check_json_types(cls, document, INPUTS)
    return read_message(cls, document, INPUTS)


def with_task(pipeline: TrainingPipeline, task: TaskJob) -> TrainingPipeline:
    """The pipeline with that job as its task; the pipeline keeps its own name and labels."""
    if isinstance(task, CustomJob):
        definition, inputs = CUSTOM_TASK, to_document(task.job_spec)
    else:
        bare = HyperparameterTuningJob(
            study_spec=task.study_spec,
            max_trial_count=task.max_trial_count,
            parallel_trial_count=task.parallel_trial_count,
            max_failed_trial_count=task.max_failed_trial_count,
            trial_job_spec=task.trial_job_spec,
        )
        definition, inputs = TUNING_TASK, to_document(bare)
    return msgspec.structs.replace(pipeline, training_task_definition=definition, training_task_inputs=inputs)


def _whole(value: Any) -> Any:
    """2 for 2.0: a Struct of the API has no whole numbers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
