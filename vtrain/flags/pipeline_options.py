"""The options of training pipelines: the model that is made, and the data of the task.

The names are those of Google's Python SDK (`CustomTrainingJob` and its `run`).
"""

from typing import ClassVar

from vtrain.flags.completion import files, training_pipelines
from vtrain.flags.options import NameFlag
from vtrain.flags.row import FlagGroup, argument, flag, items, text

MODEL = "Model"
DATASET = "Dataset"


class ModelFlags(FlagGroup, frozen=True):
    """Flags about the model that a pipeline makes of what its task leaves."""

    heading: ClassVar[str] = MODEL

    model_display_name: str | None = flag("NAME", "Name of the model. With it one is registered.")
    model_id: str = text("ID", "Id of the new model. Default: one is chosen.")
    parent_model: str = text("MODEL", "Model of which this becomes another version.")
    model_version_aliases: str = text("ALIAS,…", "More names of the version.")
    model_version_description: str = text("TEXT", "Description of the version.")
    model_labels: list[str] = items("KEY=VALUE,…", "Labels of the model.")
    serving_container_image_uri: str = text("IMAGE", "Image that answers predictions.")
    serving_container_command: list[str] = items("WORD,…", "Command of the serving container.")
    serving_container_args: list[str] = items("ARG,…", "Arguments of the serving container.")
    serving_container_environment_variables: list[str] = items(
        "NAME=VALUE,…", "Variables of the serving container."
    )
    serving_container_ports: str = text("PORT,…", "Ports of the serving container.")
    serving_container_predict_route: str = text("PATH", "Path that takes predictions.")
    serving_container_health_route: str = text("PATH", "Path that tells of its health.")


class DatasetFlags(FlagGroup, frozen=True):
    """Flags about the data that a pipeline gives its task."""

    heading: ClassVar[str] = DATASET

    dataset: str | None = flag(
        "DATASET",
        "File, folder or pattern of csv, jsonl or tfrecord files, here or at gs://…. On Vertex AI: the id "
        "of a managed dataset.",
        offer=files,
    )
    training_fraction_split: str = text("NUMBER", "Part for training. Default: 0.8.")
    validation_fraction_split: str = text("NUMBER", "Part for validation. Default: 0.1.")
    test_fraction_split: str = text("NUMBER", "Part for the test. Default: 0.1.")
    training_filter_split: str | None = flag(
        "FILTER", "Items for training: labels.KEY=VALUE, several joined by AND, or - for no items."
    )
    validation_filter_split: str | None = flag("FILTER", "Items for validation.")
    test_filter_split: str | None = flag("FILTER", "Items for the test.")
    predefined_split_column_name: str = text("COLUMN", "Column that says training, validation or test.")


class PipelineFlag(NameFlag, frozen=True):
    """The name of a training pipeline."""

    training_pipeline: str = argument(
        "TRAINING_PIPELINE",
        "Id or full name. On this machine also the id's first digits, the display name, or @last.",
        offer=training_pipelines,
    )
