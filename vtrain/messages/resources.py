"""The collections of the API, and the message of each."""

from vtrain.messages.custom_job import CustomJob, CustomJobSpec
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.model import Model
from vtrain.messages.names import (
    CUSTOM_JOBS,
    HYPERPARAMETER_TUNING_JOBS,
    MODELS,
    PERSISTENT_RESOURCES,
    TRAINING_PIPELINES,
)
from vtrain.messages.persistent_resource import PersistentResource
from vtrain.messages.structs import Resource
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.messages.training_task import task_of

Job = CustomJob | HyperparameterTuningJob | TrainingPipeline
"""A resource that runs and ends. All take the same verbs; the collection in the name tells the kind."""

JOBS: dict[str, type[Job]] = {
    CUSTOM_JOBS: CustomJob,
    HYPERPARAMETER_TUNING_JOBS: HyperparameterTuningJob,
    TRAINING_PIPELINES: TrainingPipeline,
}

RESOURCES: dict[str, type[Resource]] = {
    **JOBS,
    PERSISTENT_RESOURCES: PersistentResource,
    MODELS: Model,
}


def spec_of(job: Job) -> CustomJobSpec | None:
    """The specification of a job, or of each trial. None for a job that has none, as a pipeline of AutoML."""
    task = task_of(job) if isinstance(job, TrainingPipeline) else job
    if isinstance(task, CustomJob):
        return task.job_spec
    return task.trial_job_spec if task is not None else None


def collection_of(resource: Resource) -> str:
    """The collection that a resource belongs to."""
    return next(name for name, cls in RESOURCES.items() if isinstance(resource, cls))
