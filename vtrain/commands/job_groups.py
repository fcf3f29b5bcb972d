"""`vtrain custom-jobs`, `hp-tuning-jobs` and `training-pipelines`: most of their commands are the same."""

from __future__ import annotations

from typing import Any

import msgspec

from vtrain.flags.command import CommandInfo
from vtrain.flags.options import (
    BestFlag,
    CommonFlags,
    InterruptFlag,
    JobNameFlag,
    ListFlags,
    NameFlag,
    PipelineFlag,
    PlaceFlags,
    ReportFlags,
    StreamFlags,
    TimeoutFlag,
    TuningJobFlag,
)
from vtrain.flags.row import FlagGroup
from vtrain.messages.names import ANY_JOB, CUSTOM_JOB, PIPELINE, TUNING_JOB, ResourceKind


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """The help of a group's commands: what people call its jobs, and the summaries that are its own."""

    job: str
    describe: str
    cancel: str
    stream_logs: str
    delete: str
    stream_details: str = ""


_EXAMPLES = {
    "list": (
        ("List the ten newest failed jobs", "--filter=state=JOB_STATE_FAILED --limit=10"),
        ("Print the ids of all jobs, one per line", "--format='value(name.basename())'"),
    ),
    "describe": (
        ("Print a job as YAML", "1234567890"),
        ("Print its state", "1234567890 --format='value(state)'"),
    ),
    "cancel": (
        ("Cancel a job", "1234567890"),
        ("Cancel a job on Vertex AI", "1234567890 --region=europe-west4"),
    ),
    "stream-logs": (
        ("Print the log until the job ends", "1234567890"),
        ("Print only the lines of one replica", "1234567890 --task-name=workerpool0-0"),
    ),
    "wait": (("Wait for a job", "1234567890"), ("Wait for at most an hour", "1234567890 --wait-timeout=1h")),
    "delete": (
        ("Delete a job", "1234567890"),
        ("Delete a job on Vertex AI", "1234567890 --region=europe-west4"),
    ),
}
"""A sentence and the end of a command line, for each command that every kind of job has."""


def _common(
    kind: ResourceKind, name: type[NameFlag], words: Words, *, watched: ResourceKind | None = None
) -> tuple[CommandInfo, ...]:
    """The commands about jobs that are there. `watched` is what `stream-logs` takes, where that is more."""

    def command(verb: str, handler: str, summary: str, *flags: type[FlagGroup], **more: Any) -> CommandInfo:
        return CommandInfo(
            name=verb,
            handler=f"vtrain.commands.{handler}",
            summary=summary,
            examples=tuple((text, f"vtrain {kind.group} {verb} {rest}") for text, rest in _EXAMPLES[verb]),
            flags=(*flags, PlaceFlags, CommonFlags),
            **({"fixed": {"kind": kind}} | more),
        )

    return (
        command(
            "list",
            "job_lists:list_jobs",
            f"List {words.job}s, newest first: as a table on a terminal, as YAML elsewhere.",
            ListFlags,
        ),
        command("describe", "jobs:describe", words.describe, name),
        command("cancel", "jobs:cancel", words.cancel, name),
        command(
            "stream-logs",
            "watching:stream_logs",
            words.stream_logs,
            name,
            StreamFlags,
            details=words.stream_details,
            fixed={"kind": watched or kind},
        ),
        command(
            "wait",
            "watching:wait",
            f"Wait until a {words.job} ends, and exit with a code for its state.",
            name,
            TimeoutFlag,
            InterruptFlag,
            details="The exit code is 0 if it succeeded, 10 if it failed, and 11 if it was cancelled.",
        ),
        command("delete", "jobs:delete", words.delete, name),
    )


CUSTOM_JOBS = (
    CommandInfo(
        name="create",
        handler="vtrain.commands.create:create",
        summary="Create a custom job. With --stream-logs or --wait, stay until it ends.",
        examples=(
            (
                "Run the script of a folder on this machine, and print its log",
                "vtrain custom-jobs create --display-name=demo --backend=process --local-package-path=. "
                "--script=train.py --stream-logs -- --epochs=3",
            ),
            (
                "Create the job that a file describes",
                "vtrain custom-jobs create --display-name=demo --config=job.yaml --region=us-central1",
            ),
        ),
        required=("--display-name",),
        line="vtrain.flags.job_options:CustomJobLine",
        takes_remainder=True,
    ),
    CommandInfo(
        name="local-run",
        handler="vtrain.commands.local_run:local_run",
        summary="Run a trainer on this machine, and exit with its exit code.",
        details="The output of a single replica is passed through unchanged. If there are several replicas, "
        "each line begins with the name of its replica.",
        examples=(
            ("Run a script", "vtrain custom-jobs local-run --script=train.py -- --epochs=3"),
            (
                "Run a module of a folder in a container",
                "vtrain custom-jobs local-run --backend=docker --executor-image-uri=python:3.12 "
                "--local-package-path=. --python-module=trainer.task",
            ),
        ),
        line="vtrain.flags.job_options:LocalRunLine",
        takes_remainder=True,
    ),
    CommandInfo(
        name="environment",
        handler="vtrain.commands.seen_environment:environment",
        summary="Print the environment and the command that a replica would have.",
        details="Nothing is run or created.",
        examples=(
            (
                "Print a variable of the second worker pool",
                "vtrain custom-jobs environment --config=job.yaml --replica=workerpool1-0 "
                "--format='value(env.CLUSTER_SPEC)'",
            ),
            ("Print the command of a script", "vtrain custom-jobs environment --script=train.py"),
        ),
        line="vtrain.flags.job_options:EnvironmentLine",
        takes_remainder=True,
    ),
    *_common(
        CUSTOM_JOB,
        JobNameFlag,
        Words(
            job="custom job",
            describe="Print one custom job.",
            cancel="Cancel a custom job. Its replicas get SIGTERM, and SIGKILL after a grace period.",
            stream_logs="Print the log of a job until it ends, and exit with a code for its state.",
            stream_details="The job may also be a hyperparameter tuning job.",
            delete="Delete an ended custom job with its log and its files.",
        ),
        watched=ANY_JOB,
    ),
)

TUNING_JOBS = (
    CommandInfo(
        name="create",
        handler="vtrain.commands.create:create_tuning_job",
        summary="Create a hyperparameter tuning job. With --stream-logs or --wait, stay until it ends.",
        examples=(
            (
                "Create the job that a file describes",
                "vtrain hp-tuning-jobs create --display-name=tune --config=tuning.yaml",
            ),
            (
                "Tune the trainer of a folder on this machine; the file has the studySpec",
                "vtrain hp-tuning-jobs create --display-name=tune --config=study.yaml --backend=process "
                "--local-package-path=. --python-module=trainer.task -- --epochs=3",
            ),
            (
                "Run 20 trials, four at the same time, and wait for the end",
                "vtrain hp-tuning-jobs create --display-name=tune --config=tuning.yaml --max-trial-count=20 "
                "--parallel-trial-count=4 --wait",
            ),
        ),
        required=("--display-name", "--config"),
        line="vtrain.flags.tuning_options:TuningJobLine",
        takes_remainder=True,
    ),
    *_common(
        TUNING_JOB,
        TuningJobFlag,
        Words(
            job="hyperparameter tuning job",
            describe="Print one hyperparameter tuning job with its trials.",
            cancel="Cancel a hyperparameter tuning job. Running trials are stopped.",
            stream_logs="Print the log of a tuning job until it ends, and exit with a code for its state.",
            delete="Delete an ended hyperparameter tuning job.",
        ),
    ),
    CommandInfo(
        name="trials",
        handler="vtrain.commands.tuning_trials:trials",
        summary="List the trials of a tuning job, the best first.",
        details="The best trial is marked with *. Where several metrics count, so is every trial that no "
        "other one beats.",
        examples=(
            ("List the trials", "vtrain hp-tuning-jobs trials 1234567890"),
            (
                "Print the folder of the best trial's model",
                "vtrain hp-tuning-jobs trials 1234567890 --best --format='value(modelDir)'",
            ),
        ),
        flags=(TuningJobFlag, BestFlag, ListFlags, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="report",
        handler="vtrain.commands.tuning_trials:report",
        summary="Write a page with the charts, the trials and the configuration of a tuning job.",
        details="The page is one HTML file, and needs no network.",
        examples=(("Write a page", "vtrain hp-tuning-jobs report 1234567890 --output=report.html"),),
        flags=(TuningJobFlag, ReportFlags, PlaceFlags, CommonFlags),
    ),
)

PIPELINES = (
    CommandInfo(
        name="create",
        handler="vtrain.commands.create:create_pipeline",
        summary="Create a training pipeline: a job, and the model that is registered when it succeeds.",
        details="The trainer writes its model to the folder that AIP_MODEL_DIR names. A pipeline that asks "
        "for a model fails if that folder is empty. With --dataset the trainer finds its data by "
        "AIP_TRAINING_DATA_URI, AIP_VALIDATION_DATA_URI and AIP_TEST_DATA_URI.",
        examples=(
            (
                "Train on this machine, and register the model",
                "vtrain training-pipelines create --display-name=digits --backend=process "
                "--local-package-path=. --python-module=trainer.task --model-display-name=digits "
                "--serving-container-image-uri=us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-5:latest",
            ),
            (
                "Give the trainer three parts of a file",
                "vtrain training-pipelines create --display-name=prices --backend=process "
                "--local-package-path=. --script=train.py --dataset=prices.csv --stream-logs",
            ),
            (
                "Create the pipeline that a file describes",
                "vtrain training-pipelines create --config=pipeline.yaml --wait",
            ),
        ),
        required=("--display-name",),
        line="vtrain.flags.pipeline_options:PipelineLine",
        takes_remainder=True,
    ),
    *_common(
        PIPELINE,
        PipelineFlag,
        Words(
            job="training pipeline",
            describe="Print one training pipeline, with its job and its model.",
            cancel="Cancel a training pipeline, and the job that it runs.",
            stream_logs="Print the log of a pipeline until it ends, and exit with a code for its state.",
            delete="Delete an ended training pipeline. Its job and its model stay.",
        ),
    ),
)
