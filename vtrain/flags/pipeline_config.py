"""Lay flags over the file of a training pipeline: the task is composed as a job of its own, and then wrapped.

The file holds a TrainingPipeline, or only its task: a CustomJobSpec, a CustomJob, a HyperparameterTuningJob.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, cast

import msgspec

from vtrain.core.compose import Draft
from vtrain.core.config_file import ConfigFile, read_config
from vtrain.errors import ConfigError, FieldError, UsageError
from vtrain.flags.job_options import SpecFlags
from vtrain.flags.pipeline_options import DatasetFlags, ModelFlags
from vtrain.flags.row import fields_of
from vtrain.flags.tuning_options import TuningFlags
from vtrain.messages.codec import fields, read_message, to_document, with_json_names
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.model import Model
from vtrain.messages.names import MODELS, resolve_name
from vtrain.messages.training_pipeline import InputDataConfig, TrainingPipeline
from vtrain.messages.training_task import CUSTOM_TASK, INPUTS, TUNING_TASK, TaskJob, with_task
from vtrain.settings import user_path

Document = dict[str, Any]
_DEFINITION = "trainingTaskDefinition"
_SHARED = ("displayName", "labels", "encryptionSpec")
"""Fields that a pipeline and the job of its task both have."""
_OWN = fields(TrainingPipeline).keys() - fields(CustomJob).keys()
"""Fields that a pipeline has, and the job of its task has not."""


class PipelineFile(msgspec.Struct, frozen=True, kw_only=True):
    """The file of `--config`, divided: the pipeline without its task, and the task as the file of a job."""

    pipeline: TrainingPipeline = TrainingPipeline()
    task: ConfigFile | None = None
    is_tuning: bool = False


def read_pipeline_file(path: str | None) -> PipelineFile:
    """The file, divided. Raises ConfigError for one that cannot be read, or that holds something else."""
    if not path:
        return PipelineFile()
    file = read_config(path, "the fields of a TrainingPipeline")
    with file.blamed():
        content = with_json_names(TrainingPipeline, file.content)
        if _OWN.isdisjoint(content):
            is_tuning = not {"studySpec", "study_spec"}.isdisjoint(content)
            return PipelineFile(task=file, is_tuning=is_tuning)
        return _divided(file, content)


def _divided(file: ConfigFile, content: Document) -> PipelineFile:
    own = {
        name: value
        for name, value in content.items()
        if name not in (*_SHARED, INPUTS, "trainingTaskMetadata", *TrainingPipeline.output_fields)
    }
    if isinstance(model := own.get("modelToUpload"), dict):
        own["modelToUpload"] = {k: v for k, v in model.items() if k not in Model.output_fields}
    pipeline = read_message(TrainingPipeline, own)
    inputs = content.get(INPUTS)
    if not isinstance(inputs, dict):
        raise FieldError(INPUTS, "the file does not say what the task runs.")
    definition = content.get(_DEFINITION, CUSTOM_TASK)
    if definition not in (CUSTOM_TASK, TUNING_TASK):
        raise FieldError(
            _DEFINITION, f"{definition!r} is no task with your own code.", hint=f"Write {CUSTOM_TASK}."
        )
    is_tuning = definition == TUNING_TASK
    shared = {name: content[name] for name in _SHARED if name in content}
    task = shared | (inputs if is_tuning else {"jobSpec": inputs})
    return PipelineFile(
        pipeline=pipeline,
        task=msgspec.structs.replace(
            file, content=task, renamed=("", "") if is_tuning else ("jobSpec.", f"{INPUTS}.")
        ),
        is_tuning=is_tuning,
    )


def tuning_flags(spec: SpecFlags) -> TuningFlags:
    """The flags of a pipeline, as far as they are also those of a tuning job."""
    names = set(TuningFlags.__struct_fields__) & set(SpecFlags.__struct_fields__)
    return TuningFlags(**{name: getattr(spec, name) for name in names})


def as_pipeline(draft: Draft, pipeline: TrainingPipeline) -> Draft:
    """The draft of a pipeline whose task is the job of `draft`."""
    unknown = draft.unknown_fields
    if draft.paths.spec == "jobSpec" and unknown:
        unknown = unknown.get("jobSpec", {})
    return msgspec.structs.replace(
        draft,
        unknown_fields={INPUTS: unknown} if unknown else {},
        wrap=partial(_wrapped, pipeline),
    )


def _wrapped(pipeline: TrainingPipeline, job: Any) -> TrainingPipeline:
    task = cast("TaskJob", job)
    named = msgspec.structs.replace(
        pipeline,
        display_name=task.display_name,
        labels=task.labels,
        encryption_spec=task.encryption_spec,
    )
    return with_task(named, task)


def with_model(
    pipeline: TrainingPipeline, flags: ModelFlags, *, project: str, location: str
) -> TrainingPipeline:
    """The pipeline with the model that the flags describe, laid over that of the file.

    Raises UsageError where a flag does not parse, or is given without a model.
    """
    given = fields_of(flags)
    if flags.model_display_name is None and pipeline.model_to_upload is None:
        if given or flags.model_id or flags.parent_model:
            raise UsageError("Flags about a model need --model-display-name=NAME.")
        return pipeline
    document = to_document(pipeline.model_to_upload or Model())
    if "containerSpec" in given:
        given["containerSpec"] = document.get("containerSpec", {}) | given["containerSpec"]
    parent = flags.parent_model
    if parent:
        parent = str(resolve_name(parent, project=project, location=location, collection=MODELS))
    return msgspec.structs.replace(
        pipeline,
        model_to_upload=read_message(Model, document | given),
        model_id=flags.model_id or pipeline.model_id,
        parent_model=parent or pipeline.parent_model,
    )


def with_dataset(pipeline: TrainingPipeline, flags: DatasetFlags, *, local: bool) -> TrainingPipeline:
    """The pipeline with the data that the flags name, in place of that of the file.

    With `local` a path is made absolute. Raises UsageError where flags do not parse or contradict each other.
    """
    splits = fields_of(flags)
    dataset = splits.pop("datasetId", None)
    if len(splits) > 1:
        raise UsageError("A dataset is split by fractions, by filters or by a column; take one of them.")
    if dataset == "":
        raise UsageError("--dataset: the name of the dataset is empty.")
    if dataset is None and pipeline.input_data_config is None:
        if splits:
            raise UsageError("Flags about a split need --dataset.")
        return pipeline
    if "filterSplit" in splits:
        names = ("trainingFilter", "validationFilter", "testFilter")
        splits["filterSplit"] = dict.fromkeys(names, "-") | splits["filterSplit"]
    if dataset is not None:
        config = {"datasetId": _dataset_id(dataset, local=local)}
    else:
        config = to_document(pipeline.input_data_config or InputDataConfig())
    data = read_message(InputDataConfig, config | splits)
    return msgspec.structs.replace(pipeline, input_data_config=data)


def _dataset_id(text: str, *, local: bool) -> str:
    """The dataset's id; on this machine its files are named in its place."""
    if local:
        return text if "://" in text else str(user_path(text).absolute())
    if not re.fullmatch(r"[A-Za-z0-9_-]+", text):
        raise ConfigError(
            f"--dataset: {text!r} is not the id of a managed dataset, which Vertex AI needs.",
            hint="Create one of the files in the console of Google Cloud, and give its id.",
        )
    return text
