"""Lay flags over the file of a training pipeline: the task is composed as a job of its own, and then wrapped.

The file holds a TrainingPipeline, or only its task: a CustomJobSpec, a CustomJob, a HyperparameterTuningJob.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import msgspec

from vtrain.core.compose import Draft
from vtrain.core.config_file import ConfigFile, read_config
from vtrain.core.job_layers import Document, Fold, Layer, named, nobody
from vtrain.errors import ConfigError, FieldError, UsageError, VtrainError
from vtrain.flags.pipeline_options import DatasetFlags, ModelFlags
from vtrain.flags.row import layers_of
from vtrain.messages.codec import fields, read_message, to_document, with_json_names
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.model import Model
from vtrain.messages.names import MODELS, resolve_name
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.messages.training_task import CUSTOM_TASK, INPUTS, TUNING_TASK, TaskJob, with_task
from vtrain.settings import user_path

_DEFINITION = "trainingTaskDefinition"
_SHARED = ("displayName", "labels", "encryptionSpec")
"""Fields that a pipeline and the job of its task both have."""
_OWN = fields(TrainingPipeline).keys() - fields(CustomJob).keys()
"""Fields that a pipeline has, and the job of its task has not."""


class PipelineFile(msgspec.Struct, frozen=True, kw_only=True):
    """The file of `--config`, divided: the pipeline without its task, and the task as the file of a job."""

    pipeline: Layer = Layer(nobody, {})
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
    pipeline = Layer(file.blame_line, to_document(read_message(TrainingPipeline, own)))
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


def as_pipeline(draft: Draft, pipeline: Fold) -> Draft:
    """The draft of a pipeline whose task is the job of `draft`."""
    unknown = draft.unknown_fields
    if draft.paths.spec == "jobSpec" and unknown:
        unknown = unknown.get("jobSpec", {})

    def blame(error: FieldError) -> VtrainError:
        return (pipeline if error.path.partition(".")[0] in _OWN else draft).blame(error)

    return msgspec.structs.replace(
        draft,
        unknown_fields={INPUTS: unknown} if unknown else {},
        wrap=partial(_wrapped, read_message(TrainingPipeline, pipeline.document)),
        blame=blame,
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


def compose_pipeline(
    file: Layer, model: ModelFlags, dataset: DatasetFlags, *, project: str, location: str, local: bool
) -> Fold:
    """The pipeline of a file without its task, below what flags say of its model and its data.

    With `local` the path of a dataset is made absolute. Raises UsageError where flags do not parse,
    contradict each other, or are about what there is not.
    """
    return Fold(
        [
            file,
            *_model_layers(model, file.document, project, location),
            *_data_layers(dataset, file.document, local=local),
        ]
    )


def _model_layers(flags: ModelFlags, file: Document, project: str, location: str) -> Iterator[Layer]:
    given = [*layers_of(flags, below="modelToUpload")]
    if flags.model_display_name is None and "modelToUpload" not in file:
        if given or flags.model_id or flags.parent_model:
            raise UsageError("Flags about a model need --model-display-name=NAME.")
        return
    if flags.model_id and flags.parent_model:
        raise UsageError("--model-id is for a new model, and --parent-model names one that is there.")
    # Labels of flags take the place of the file's. And a model is there, whatever else is said of it.
    has_labels = "labels" in Fold(given).document.get("modelToUpload", {})
    yield Layer(nobody, {"modelToUpload": {"labels": None} if has_labels else {}})
    yield from given
    if flags.model_id:
        yield Layer(named("--model-id", "modelId"), {"modelId": flags.model_id})
    if flags.parent_model:
        parent = resolve_name(flags.parent_model, project=project, location=location, collection=MODELS)
        yield Layer(named("--parent-model"), {"parentModel": str(parent)})


def _data_layers(flags: DatasetFlags, file: Document, *, local: bool) -> Iterator[Layer]:
    """What the flags say of the data: it takes the place of the file's, or the split that of its own kind."""
    layers = [*layers_of(flags, below="inputDataConfig")]
    splits = Fold(layers).document.get("inputDataConfig", {}).keys() - {"datasetId"}
    if len(splits) > 1:
        raise UsageError("A dataset is split by fractions, by filters or by a column; take one of them.")
    if flags.dataset == "":
        raise UsageError("--dataset: the name of the dataset is empty.")
    if flags.dataset is not None:
        yield Layer(nobody, {"inputDataConfig": None})
    elif splits and "inputDataConfig" not in file:
        raise UsageError("Flags about a split need --dataset.")
    for split in splits:
        yield Layer(nobody, {"inputDataConfig": {split: None}})
    if "filterSplit" in splits:
        names = ("trainingFilter", "validationFilter", "testFilter")
        yield Layer(nobody, {"inputDataConfig": {"filterSplit": dict.fromkeys(names, "-")}})
    yield from layers
    if flags.dataset is not None:
        found = {"datasetId": _dataset_id(flags.dataset, local=local)}
        yield Layer(named("--dataset"), {"inputDataConfig": found})


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
