"""`vtrain models`: its commands. What a command works with is imported when it runs."""

from __future__ import annotations

from vtrain.flags.command import CommandInfo
from vtrain.flags.model_options import (
    ModelCopyFlags,
    ModelNameFlag,
    ModelVersionFlag,
    PredictFlags,
    UploadFlags,
)
from vtrain.flags.options import CommonFlags, DryRunFlag, ListFlags, PlaceFlags

_HANDLERS = "vtrain.commands.registered_models"
_WHERE = (PlaceFlags, CommonFlags)

COMMANDS = (
    CommandInfo(
        name="upload",
        handler=f"{_HANDLERS}:upload",
        summary="Keep a trained model, or another version of one.",
        details="The files stay where they are. The image is the one that answers predictions.",
        examples=(
            (
                "Keep the model that a job has written",
                "vtrain models upload --display-name=digits --artifact-uri=gs://models/first/model "
                "--container-image-uri=us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-6:latest",
            ),
            (
                "Keep another version of it",
                "vtrain models upload --parent-model=digits --version-aliases=best --display-name=digits "
                "--artifact-uri=gs://models/second/model "
                "--container-image-uri=us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-6:latest",
            ),
        ),
        required=("--container-image-uri", "--display-name"),
        flags=(UploadFlags, DryRunFlag, *_WHERE),
    ),
    CommandInfo(
        name="list",
        handler=f"{_HANDLERS}:list_models",
        summary="List models as a table, each by its default version.",
        examples=(
            ("List the models of this machine", "vtrain models list --backend=local"),
            ("Print their ids, one per line", "vtrain models list --format='value(name.basename())'"),
        ),
        flags=(ListFlags, *_WHERE),
    ),
    CommandInfo(
        name="list-version",
        handler=f"{_HANDLERS}:list_version",
        summary="List the versions of a model as a table.",
        examples=(
            ("List the versions of a model", "vtrain models list-version digits"),
            (
                "Print the aliases of each version",
                "vtrain models list-version digits --format='value(versionId,versionAliases)'",
            ),
        ),
        flags=(ModelNameFlag, ListFlags, *_WHERE),
    ),
    CommandInfo(
        name="describe",
        handler=f"{_HANDLERS}:describe",
        summary="Print one version of a model: the default one, where none is named.",
        examples=(
            ("Print the default version as YAML", "vtrain models describe digits"),
            (
                "Print the folder of another one",
                "vtrain models describe digits@2 --format='value(artifactUri)'",
            ),
        ),
        flags=(ModelNameFlag, *_WHERE),
    ),
    CommandInfo(
        name="delete",
        handler=f"{_HANDLERS}:delete",
        summary="Delete a model with all its versions. On this machine its files stay.",
        examples=(("Delete a model", "vtrain models delete digits"),),
        flags=(ModelNameFlag, *_WHERE),
    ),
    CommandInfo(
        name="delete-version",
        handler=f"{_HANDLERS}:delete_version",
        summary="Delete one version of a model. The default version goes with its model alone.",
        examples=(("Delete a version", "vtrain models delete-version digits@2"),),
        flags=(ModelVersionFlag, *_WHERE),
    ),
    CommandInfo(
        name="copy",
        handler=f"{_HANDLERS}:copy",
        summary="Copy a model to a region, as a new model or as another version of one.",
        examples=(
            (
                "Copy a model to another region",
                "vtrain models copy --source-model=digits --region=europe-west4",
            ),
            (
                "Make a version of it",
                "vtrain models copy --source-model=digits@2 --destination-parent-model=production",
            ),
        ),
        required=("--source-model",),
        flags=(ModelCopyFlags, *_WHERE),
    ),
    CommandInfo(
        name="predict",
        handler="vtrain.commands.predict:predict",
        summary="Run one prediction with a model, on this machine.",
        details="The model's container is started, asked once, and removed. On the backend process a server "
        "stands in for the pre-built containers of scikit-learn, XGBoost and TensorFlow.",
        examples=(
            ("Ask the default version", "vtrain models predict digits --json-request=request.json"),
            ("Ask another version", "vtrain models predict digits@best --json-request=- --format=json"),
        ),
        required=("--json-request",),
        flags=(ModelNameFlag, PredictFlags, *_WHERE),
    ),
)
