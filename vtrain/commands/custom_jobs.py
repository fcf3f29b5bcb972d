"""`vtrain custom-jobs`: its commands. What a command works with is imported when it runs."""

from __future__ import annotations

from vtrain.commands.job_commands import Words, job_commands
from vtrain.flags.command import CommandInfo
from vtrain.flags.job_options import CustomJobLine, EnvironmentLine, LocalRunLine
from vtrain.flags.options import JobNameFlag
from vtrain.messages.names import ANY_JOB, CUSTOM_JOB

COMMANDS = (
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
        flags=(CustomJobLine,),
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
        flags=(LocalRunLine,),
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
        flags=(EnvironmentLine,),
        takes_remainder=True,
    ),
    *job_commands(
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
