"""`vtrain ai-platform`: the command lines of AI Platform Training, in their old words."""

from __future__ import annotations

from vtrain.flags.ai_platform_options import ClusterFlags, LegacyJobFlag, LegacyLine, PackageFlags
from vtrain.flags.command import CommandInfo
from vtrain.flags.local_options import RuntimeFlags
from vtrain.flags.options import CommonFlags, InterruptFlag, ListFlags, PlaceFlags, StreamFlags

COMMANDS = (
    CommandInfo(
        name="jobs submit training",
        handler="vtrain.commands.submit_training:submit",
        summary="Submit a training job. With --explain, print it in the words of Vertex AI.",
        details="The job becomes a custom job or, with hyperparameters in its file, a hyperparameter tuning "
        "job. --backend chooses where it runs, as everywhere.",
        examples=(
            (
                "Train on this machine",
                "vtrain ai-platform jobs submit training my_job --backend=process --scale-tier=BASIC "
                "--module-name=trainer.task --package-path=trainer --job-dir=gs://bucket/job --stream-logs",
            ),
            (
                "Print the command and the file that say the same",
                "vtrain ai-platform jobs submit training my_job --region=us-central1 --runtime-version=2.11 "
                "--module-name=trainer.task --package-path=trainer --explain",
            ),
        ),
        flags=(LegacyLine,),
        takes_remainder=True,
    ),
    CommandInfo(
        name="jobs list",
        handler="vtrain.commands.legacy_jobs:list_jobs",
        summary="List jobs, newest first.",
        examples=(("List the ten newest jobs", "vtrain ai-platform jobs list --limit=10"),),
        flags=(ListFlags, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="jobs describe",
        handler="vtrain.commands.legacy_jobs:describe",
        summary="Print a job.",
        examples=(("Print a job as YAML", "vtrain ai-platform jobs describe my_job"),),
        flags=(LegacyJobFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="jobs cancel",
        handler="vtrain.commands.legacy_jobs:cancel",
        summary="Cancel a job.",
        examples=(("Cancel a job", "vtrain ai-platform jobs cancel my_job"),),
        flags=(LegacyJobFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="jobs stream-logs",
        handler="vtrain.commands.legacy_jobs:stream_logs",
        summary="Print the log of a job until it ends, and exit with a code for its state.",
        examples=(("Print the log", "vtrain ai-platform jobs stream-logs my_job"),),
        flags=(LegacyJobFlag, StreamFlags, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="local train",
        handler="vtrain.commands.local_train:train",
        summary="Run a trainer on this machine, and exit with its exit code.",
        details="With --distributed there are a chief, workers and parameter servers, each with TF_CONFIG.",
        examples=(
            (
                "Run a package",
                "vtrain ai-platform local train --module-name=trainer.task --package-path=trainer -- --n=3",
            ),
        ),
        required=("--module-name",),
        flags=(PackageFlags, ClusterFlags, InterruptFlag, RuntimeFlags, PlaceFlags, CommonFlags),
        takes_remainder=True,
    ),
)

_MODELS = "Models have moved: vtrain models upload, list, describe, delete, predict."
REPLACED = {
    "models": _MODELS,
    "versions": "A version is now one of a model: vtrain models upload --parent-model=MODEL.",
    "predict": "Online prediction needs an endpoint of Vertex AI: gcloud ai endpoints predict.",
    "explain": "Explanations need an endpoint of Vertex AI: gcloud ai endpoints explain.",
    "local predict": "It has moved: vtrain models predict MODEL --json-request=FILE.",
    "operations": "Operations of AI Platform are gone with its service.",
    "locations": "The regions are those of Vertex AI: vtrain custom-jobs create --region=REGION.",
    "jobs submit prediction": "Batch prediction is not done by vtrain: gcloud ai batch-prediction-jobs.",
    "jobs update": "Labels of a job cannot be changed any more: give --labels when you submit it.",
}
"""Hints for commands that gcloud had, by their words."""
