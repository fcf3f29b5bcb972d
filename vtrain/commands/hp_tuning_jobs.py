"""`vtrain hp-tuning-jobs`: its commands. What a command works with is imported when it runs."""

from __future__ import annotations

from vtrain.commands.job_commands import Words, job_commands
from vtrain.flags.command import CommandInfo
from vtrain.flags.options import CommonFlags, ListFlags, PlaceFlags
from vtrain.flags.tuning_options import BestFlag, ReportFlags, TuningJobFlag, TuningJobLine
from vtrain.messages.names import TUNING_JOB

COMMANDS = (
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
        flags=(TuningJobLine,),
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
