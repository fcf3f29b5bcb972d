"""The options of training pipelines: the model that is made, and the data of the task.

The names are those of Google's Python SDK (`CustomTrainingJob` and its `run`).
"""

from typing import ClassVar

from vtrain.errors import UsageError
from vtrain.flags.completion import files
from vtrain.flags.grammar import join_lists, labels, split_list, variables, whole_number
from vtrain.flags.job_options import CreationFlags, SpecFlags, TrainerFlags
from vtrain.flags.local_options import RuntimeFlags
from vtrain.flags.options import CommonFlags, PlaceFlags
from vtrain.flags.row import IGNORED, Empty, FlagGroup, FlagSet, flag, items, text
from vtrain.flags.tuning_options import StudyFlags

MODEL = "Model"
DATASET = "Dataset"


def _ports(text: str, flag: str) -> list[dict[str, int]]:
    """The ports of a container, as messages have them."""
    return [{"containerPort": whole_number(port, flag)} for port in split_list(text, flag)]


def _fraction(text: str, flag: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= 1:
        raise UsageError(f"{flag}: expected a number from 0 to 1, found {text!r}.")
    return number


def _filter(text: str, _flag: str) -> str:
    """A filter; an empty one has no items."""
    return text or "-"


class ModelFlags(FlagGroup, frozen=True):
    """Flags about the model that a pipeline makes of what its task leaves."""

    heading: ClassVar[str] = MODEL
    empty: ClassVar[Empty] = IGNORED

    model_display_name: str | None = flag(
        "NAME", "Name of the model. With it one is registered.", to="displayName"
    )
    model_id: str = text("ID", "Id of the new model. Default: one is chosen.")
    parent_model: str = text("MODEL", "Model of which this becomes another version.")
    model_version_aliases: str = text(
        "ALIAS,…", "More names of the version.", to="versionAliases", read=split_list
    )
    model_version_description: str = text("TEXT", "Description of the version.", to="versionDescription")
    model_labels: list[str] = items("KEY=VALUE,…", "Labels of the model.", to="labels", read=labels)
    serving_container_image_uri: str = text(
        "IMAGE", "Image that answers predictions.", to="containerSpec.imageUri"
    )
    serving_container_command: list[str] = items(
        "WORD,…", "Command of the serving container.", to="containerSpec.command", read=join_lists
    )
    serving_container_args: list[str] = items(
        "ARG,…", "Arguments of the serving container.", to="containerSpec.args", read=join_lists
    )
    serving_container_environment_variables: list[str] = items(
        "NAME=VALUE,…", "Variables of the serving container.", to="containerSpec.env", read=variables
    )
    serving_container_ports: str = text(
        "PORT,…", "Ports of the serving container.", to="containerSpec.ports", read=_ports
    )
    serving_container_predict_route: str = text(
        "PATH", "Path that takes predictions.", to="containerSpec.predictRoute"
    )
    serving_container_health_route: str = text(
        "PATH", "Path that tells of its health.", to="containerSpec.healthRoute"
    )


class DatasetFlags(FlagGroup, frozen=True):
    """Flags about the data that a pipeline gives its task."""

    heading: ClassVar[str] = DATASET

    dataset: str | None = flag(
        "DATASET",
        "File, folder or pattern of csv, jsonl or tfrecord files, here or at gs://…. On Vertex AI: the id "
        "of a managed dataset.",
        offer=files,
        to="datasetId",
    )
    training_fraction_split: str = text(
        "NUMBER", "Part for training. Default: 0.8.", to="fractionSplit.trainingFraction", read=_fraction
    )
    validation_fraction_split: str = text(
        "NUMBER", "Part for validation. Default: 0.1.", to="fractionSplit.validationFraction", read=_fraction
    )
    test_fraction_split: str = text(
        "NUMBER", "Part for the test. Default: 0.1.", to="fractionSplit.testFraction", read=_fraction
    )
    training_filter_split: str | None = flag(
        "FILTER",
        "Items for training: labels.KEY=VALUE, several joined by AND, or - for no items.",
        to="filterSplit.trainingFilter",
        read=_filter,
    )
    validation_filter_split: str | None = flag(
        "FILTER", "Items for validation.", to="filterSplit.validationFilter", read=_filter
    )
    test_filter_split: str | None = flag(
        "FILTER", "Items for the test.", to="filterSplit.testFilter", read=_filter
    )
    predefined_split_column_name: str = text(
        "COLUMN", "Column that says training, validation or test.", to="predefinedSplit.key"
    )


class PipelineLine(FlagSet, frozen=True):
    """A command line that creates a training pipeline."""

    spec: SpecFlags
    trainer: TrainerFlags
    model: ModelFlags
    dataset: DatasetFlags
    study: StudyFlags
    how: CreationFlags
    local: RuntimeFlags
    place: PlaceFlags
    common: CommonFlags
