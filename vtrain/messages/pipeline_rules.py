"""The rules of a training pipeline with the user's own code.

Sources: `TrainingPipeline` of `google/cloud/aiplatform/v1/training_pipeline.proto`, and Google's page on
creating training pipelines.
"""

from __future__ import annotations

import re

from vtrain.errors import FieldError
from vtrain.messages.model import Model
from vtrain.messages.rules import check_display_name, check_labels
from vtrain.messages.training_pipeline import TrainingPipeline

_MODEL_ID = re.compile(r"[a-z_][a-z0-9_-]{0,62}")


def check_pipeline(pipeline: TrainingPipeline) -> None:
    """Raise ConfigError, with the field's path, for the first rule that the pipeline itself breaks."""
    check_display_name(pipeline.display_name, "pipeline")
    check_labels(pipeline.labels)
    if pipeline.model_id and not _MODEL_ID.fullmatch(pipeline.model_id):
        hint = "Up to 63 of a-z, 0-9, '_' and '-'; the first is no digit and no hyphen."
        raise FieldError("modelId", f"{pipeline.model_id!r} is not the id of a model.", hint=hint)
    if pipeline.model_to_upload is not None:
        _check_model(pipeline.model_to_upload)
    elif pipeline.model_id or pipeline.parent_model:
        field = "modelId" if pipeline.model_id else "parentModel"
        raise FieldError(field, "there is no modelToUpload.", hint="Give --model-display-name=NAME.")
    data = pipeline.input_data_config
    if data is not None and not data.dataset_id:
        raise FieldError("inputDataConfig.datasetId", "a split needs a dataset.", hint="Give --dataset.")


def _check_model(model: Model) -> None:
    if not model.display_name:
        raise FieldError(
            "modelToUpload.displayName", "a model needs a name.", hint="Give --model-display-name=NAME."
        )
    if model.container_spec is None or not model.container_spec.image_uri:
        raise FieldError(
            "modelToUpload.containerSpec.imageUri",
            "a model needs the image that serves it.",
            hint="Give --serving-container-image-uri=IMAGE.",
        )
    check_labels(model.labels)
