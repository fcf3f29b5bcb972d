"""`vtrain hp-tuning-jobs`: its commands. What a command works with is imported when it runs."""

from __future__ import annotations

from vtrain.flags.command import CommandInfo
from vtrain.flags.options import (
    CommonFlags,
    DryRunFlag,
    InterruptFlag,
    KeyFlag,
    ListFlags,
    PlaceFlags,
    PlaintextFlag,
    StreamFlags,
    TimeoutFlag,
    WaitFlags,
)
from vtrain.flags.tuning import TuningFlags, TuningJobFlag

COMMANDS = (
    CommandInfo(
        name="create",
        handler="vtrain.commands.create_tuning_job:create",
        summary="Create a hyperparameter tuning job, and with --stream-logs or --wait stay until it ends.",
        flags=(
            TuningFlags,
            DryRunFlag,
            KeyFlag,
            PlaintextFlag,
            InterruptFlag,
            WaitFlags,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="list",
        handler="vtrain.commands.tuning_jobs:list_jobs",
        summary="List hyperparameter tuning jobs, newest first: as a table on a terminal, as YAML elsewhere.",
        flags=(
            ListFlags,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="describe",
        handler="vtrain.commands.tuning_jobs:describe",
        summary="Print one hyperparameter tuning job, its trials included.",
        flags=(
            TuningJobFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="cancel",
        handler="vtrain.commands.tuning_jobs:cancel",
        summary="Ask a hyperparameter tuning job to end. Trials that run are stopped; those that ended stay.",
        flags=(
            TuningJobFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="stream-logs",
        handler="vtrain.commands.tuning_jobs:stream_logs",
        summary="Print a tuning job's log, from its first line to its last; the job's state decides the exit "
        "code.",
        flags=(
            TuningJobFlag,
            StreamFlags,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="wait",
        handler="vtrain.commands.tuning_jobs:wait",
        summary="Stay until a hyperparameter tuning job ends; its state decides the exit code.",
        flags=(
            TuningJobFlag,
            TimeoutFlag,
            InterruptFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="delete",
        handler="vtrain.commands.tuning_jobs:delete",
        summary="Remove an ended hyperparameter tuning job.",
        flags=(
            TuningJobFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
)
