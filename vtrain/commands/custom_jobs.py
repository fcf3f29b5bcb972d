"""`vtrain custom-jobs`: its commands. What a command works with is imported when it runs."""

from __future__ import annotations

from vtrain.flags.command import CommandInfo
from vtrain.flags.local import LocalFlags
from vtrain.flags.options import (
    CommonFlags,
    ContainerFlags,
    DryRunFlag,
    GpuFlags,
    InterruptFlag,
    JobNameFlag,
    KeyFlag,
    ListFlags,
    PlaceFlags,
    PlaintextFlag,
    ReplicaFlags,
    SpecFlags,
    StreamFlags,
    TimeoutFlag,
    TrainerFlags,
    WaitFlags,
)

COMMANDS = (
    CommandInfo(
        name="create",
        handler="vtrain.commands.create:create",
        summary="Create a custom job, and with --stream-logs or --wait stay until it ends.",
        details="What follows -- are the trainer's own arguments.",
        flags=(
            SpecFlags,
            TrainerFlags,
            DryRunFlag,
            KeyFlag,
            PlaintextFlag,
            InterruptFlag,
            WaitFlags,
            ContainerFlags,
            LocalFlags,
            PlaceFlags,
            CommonFlags,
        ),
        takes_remainder=True,
    ),
    CommandInfo(
        name="local-run",
        handler="vtrain.commands.local_run:local_run",
        summary="Run a trainer on this machine and end with its exit code.",
        details="One replica's stdout and stderr pass through untouched; lines of several carry their "
        "replica's name. What follows -- are the trainer's own arguments.",
        flags=(
            SpecFlags,
            TrainerFlags,
            DryRunFlag,
            InterruptFlag,
            GpuFlags,
            ContainerFlags,
            LocalFlags,
            PlaceFlags,
            CommonFlags,
        ),
        takes_remainder=True,
    ),
    CommandInfo(
        name="environment",
        handler="vtrain.commands.environment:environment",
        summary="Print what a replica would see: its environment and its command. Nothing is run or made.",
        details="What follows -- are the trainer's own arguments.",
        flags=(
            SpecFlags,
            TrainerFlags,
            ReplicaFlags,
            ContainerFlags,
            PlaceFlags,
            CommonFlags,
        ),
        takes_remainder=True,
    ),
    CommandInfo(
        name="list",
        handler="vtrain.commands.jobs:list_jobs",
        summary="List custom jobs, newest first: as a table on a terminal, as YAML elsewhere.",
        flags=(
            ListFlags,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="describe",
        handler="vtrain.commands.jobs:describe",
        summary="Print one custom job.",
        flags=(
            JobNameFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="cancel",
        handler="vtrain.commands.jobs:cancel",
        summary="Ask a custom job to end. Its replicas get SIGTERM, and SIGKILL after a grace period.",
        flags=(
            JobNameFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="stream-logs",
        handler="vtrain.commands.watch_jobs:stream_logs",
        summary="Print a job's log, from its first line to its last; the job's state decides the exit code.",
        details="It takes the name of a hyperparameter tuning job too.",
        flags=(
            JobNameFlag,
            StreamFlags,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="wait",
        handler="vtrain.commands.watch_jobs:wait",
        summary="Stay until a custom job ends; its state decides the exit code.",
        flags=(
            JobNameFlag,
            TimeoutFlag,
            InterruptFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="delete",
        handler="vtrain.commands.jobs:delete",
        summary="Remove an ended custom job: its record, its log and its files.",
        flags=(
            JobNameFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
)
