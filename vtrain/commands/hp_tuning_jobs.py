"""`vtrain hp-tuning-jobs`: its commands. What a command works with is imported when it runs."""

from __future__ import annotations

from vtrain.commands.kinds import TUNING_JOB, Words, job_commands
from vtrain.flags.command import CommandInfo
from vtrain.flags.job_options import ContainerFlags, TrainerFlags
from vtrain.flags.local import RuntimeFlags
from vtrain.flags.options import (
    CommonFlags,
    DryRunFlag,
    InterruptFlag,
    KeyFlag,
    PlaceFlags,
    PlaintextFlag,
    WaitFlags,
)
from vtrain.flags.tuning_options import StudyFlags, TuningFlags, TuningJobFlag

COMMANDS = (
    CommandInfo(
        name="create",
        handler="vtrain.commands.create_tuning_job:create",
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
        flags=(
            TuningFlags,
            TrainerFlags,
            StudyFlags,
            DryRunFlag,
            KeyFlag,
            PlaintextFlag,
            InterruptFlag,
            WaitFlags,
            ContainerFlags,
            RuntimeFlags,
            PlaceFlags,
            CommonFlags,
        ),
        takes_remainder=True,
    ),
    *job_commands(
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
)
