"""The options of training pipelines: the model that is made, and the data of the task.

Typer evaluates the annotations when it builds a command, so this module does not import `annotations`.
The names are those of Google's Python SDK (`CustomTrainingJob` and its `run`).
"""

from typing import Annotated, ClassVar

from typer import Argument, Option

from vtrain.flags.completion import files, training_pipelines
from vtrain.flags.options import FlagGroup, NameFlag

MODEL = "Model"
DATASET = "Dataset"


class ModelFlags(FlagGroup, frozen=True):
    """Flags about the model that a pipeline makes of what its task leaves."""

    heading: ClassVar[str] = MODEL

    model_display_name: Annotated[
        str | None,
        Option("--model-display-name", metavar="NAME", help="Name of the model. With it one is registered."),
    ] = None
    model_id: Annotated[
        str, Option("--model-id", metavar="ID", help="Id of the new model. Default: one is chosen.")
    ] = ""
    parent_model: Annotated[
        str,
        Option("--parent-model", metavar="MODEL", help="Model of which this becomes another version."),
    ] = ""
    model_version_aliases: Annotated[
        str, Option("--model-version-aliases", metavar="ALIAS,…", help="More names of the version.")
    ] = ""
    model_version_description: Annotated[
        str, Option("--model-version-description", metavar="TEXT", help="Description of the version.")
    ] = ""
    model_labels: Annotated[
        list[str], Option("--model-labels", metavar="KEY=VALUE,…", help="Labels of the model.")
    ] = []
    serving_container_image_uri: Annotated[
        str,
        Option("--serving-container-image-uri", metavar="IMAGE", help="Image that answers predictions."),
    ] = ""
    serving_container_command: Annotated[
        list[str],
        Option("--serving-container-command", metavar="WORD,…", help="Command of the serving container."),
    ] = []
    serving_container_args: Annotated[
        list[str],
        Option("--serving-container-args", metavar="ARG,…", help="Arguments of the serving container."),
    ] = []
    serving_container_environment_variables: Annotated[
        list[str],
        Option(
            "--serving-container-environment-variables",
            metavar="NAME=VALUE,…",
            help="Variables of the serving container.",
        ),
    ] = []
    serving_container_ports: Annotated[
        str,
        Option("--serving-container-ports", metavar="PORT,…", help="Ports of the serving container."),
    ] = ""
    serving_container_predict_route: Annotated[
        str,
        Option("--serving-container-predict-route", metavar="PATH", help="Path that takes predictions."),
    ] = ""
    serving_container_health_route: Annotated[
        str,
        Option("--serving-container-health-route", metavar="PATH", help="Path that tells of its health."),
    ] = ""


class DatasetFlags(FlagGroup, frozen=True):
    """Flags about the data that a pipeline gives its task."""

    heading: ClassVar[str] = DATASET

    dataset: Annotated[
        str | None,
        Option(
            "--dataset",
            metavar="DATASET",
            help="File, folder or pattern of csv, jsonl or tfrecord files, here or at gs://…. On Vertex AI: "
            "the id of a managed dataset.",
            autocompletion=files,
        ),
    ] = None
    training_fraction_split: Annotated[
        str, Option("--training-fraction-split", metavar="NUMBER", help="Part for training. Default: 0.8.")
    ] = ""
    validation_fraction_split: Annotated[
        str,
        Option("--validation-fraction-split", metavar="NUMBER", help="Part for validation. Default: 0.1."),
    ] = ""
    test_fraction_split: Annotated[
        str, Option("--test-fraction-split", metavar="NUMBER", help="Part for the test. Default: 0.1.")
    ] = ""
    training_filter_split: Annotated[
        str | None,
        Option(
            "--training-filter-split",
            metavar="FILTER",
            help="Items for training: labels.KEY=VALUE, several joined by AND, or - for no items.",
        ),
    ] = None
    validation_filter_split: Annotated[
        str | None, Option("--validation-filter-split", metavar="FILTER", help="Items for validation.")
    ] = None
    test_filter_split: Annotated[
        str | None, Option("--test-filter-split", metavar="FILTER", help="Items for the test.")
    ] = None
    predefined_split_column_name: Annotated[
        str,
        Option(
            "--predefined-split-column-name",
            metavar="COLUMN",
            help="Column that says training, validation or test.",
        ),
    ] = ""


class PipelineFlag(NameFlag, frozen=True):
    """The name of a training pipeline."""

    training_pipeline: Annotated[
        str,
        Argument(
            metavar="TRAINING_PIPELINE",
            help="Id or full name. On this machine also the id's first digits, the display name, or @last.",
            autocompletion=training_pipelines,
        ),
    ]
