"""`vtrain schema`: the JSON schemas by which editors complete and check files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vtrain.commands.session import open_console
from vtrain.errors import UsageError
from vtrain.flags.options import CommonFlags, SchemaFlag
from vtrain.messages.custom_job import CustomJob, CustomJobSpec
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.json_schema import messages_schema, table_schema
from vtrain.messages.nearest import did_you_mean
from vtrain.messages.persistent_resource import PersistentResource
from vtrain.pyproject import TABLE, ProjectSettings

SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "custom-job": lambda: messages_schema(
        "The --config of vtrain custom-jobs create", CustomJobSpec, CustomJob
    ),
    "hp-tuning-job": lambda: messages_schema(
        "The --config of vtrain hp-tuning-jobs create", HyperparameterTuningJob
    ),
    "persistent-resource": lambda: messages_schema(
        "The --config of vtrain persistent-resources create", PersistentResource
    ),
    "pyproject": lambda: table_schema("vtrain's table of pyproject.toml", ProjectSettings, TABLE),
}


def schema(wanted: SchemaFlag, common: CommonFlags) -> None:
    """Print the schema of a kind of file. Raises UsageError for a kind that there is not."""
    make = SCHEMAS.get(wanted.kind)
    if make is None:
        hint = did_you_mean(wanted.kind, SCHEMAS, otherwise=f"There are {', '.join(SCHEMAS)}.")
        raise UsageError(f"There is no schema {wanted.kind!r}.", hint=hint)
    open_console(common).result(make(), "json")
