"""`vtrain run`, `vtrain ps`, …: short names of the commands of jobs, with the same flags."""

from __future__ import annotations

import msgspec

from vtrain.commands.job_groups import CUSTOM_JOBS
from vtrain.flags.command import CommandInfo
from vtrain.flags.job_options import RunLine, SubmitLine
from vtrain.flags.options import (
    CommonFlags,
    ComparedFlag,
    FollowFlag,
    JobFlag,
    ListFlags,
    MetricFlags,
    PlaceFlags,
    StreamFlags,
    WatchFlag,
)
from vtrain.messages.names import ANY_JOB

_BY_NAME = {info.name: info for info in CUSTOM_JOBS}


def _about_a_job(name: str, same: str, *examples: tuple[str, str]) -> CommandInfo:
    """A command of custom jobs about one job, by another name; it takes tuning jobs too."""
    info = _BY_NAME[same]
    return CommandInfo(
        name=name,
        handler=info.handler,
        details=f"The same as custom-jobs {same} and hp-tuning-jobs {same}.",
        examples=examples,
        flags=(JobFlag, *info.flags[1:]),
        fixed={"kind": ANY_JOB},
    )


COMMANDS = (
    CommandInfo(
        name="run",
        handler="vtrain.commands.entry:run",
        details="The same as custom-jobs local-run, but what to run needs no flag: a script, a folder with "
        "-m MODULE, or a folder that has one script called train.py, main.py or task.py. Without any, the "
        "project's job runs ([tool.vtrain.job] in pyproject.toml).",
        examples=(
            ("Run a script with arguments of its own", "vtrain run train.py -- --epochs=3"),
            ("Run a module of a folder", "vtrain run . -m trainer.task"),
        ),
        flags=(RunLine,),
        takes_remainder=True,
    ),
    CommandInfo(
        name="debug",
        handler="vtrain.commands.entry:debug",
        details="The same as vtrain run with --debugpy=5678: debugpy is installed in the environment, "
        "and the trainer waits at that port for a debugger such as VS Code.\n\n"
        "What follows -- are the trainer's own arguments.",
        examples=(
            ("Debug a script", "vtrain debug train.py -- --epochs=3"),
            ("Start at once, and attach later", "vtrain debug . -m trainer.task --no-debugpy-wait"),
        ),
        flags=(RunLine,),
        takes_remainder=True,
    ),
    CommandInfo(
        name="submit",
        handler="vtrain.commands.entry:submit",
        details="The same as custom-jobs create, but what to run needs no flag, as in vtrain run. A job "
        "without --display-name is named after its script or folder.",
        examples=(
            ("Start a job on this machine", "vtrain submit train.py --backend=local"),
            ("Stay until it ends, with its log", "vtrain submit train.py --stream-logs -- --epochs=3"),
        ),
        flags=(SubmitLine,),
        takes_remainder=True,
    ),
    msgspec.structs.replace(
        _BY_NAME["list"],
        name="ps",
        handler="vtrain.commands.jobs:ps",
        details="The same as custom-jobs list and hp-tuning-jobs list. Trials of tuning jobs are left out. "
        "With --metrics, --columns or --sort only the 1000 newest are read: their arguments, and the last "
        "numbers in files of their output such as metrics.json.",
        examples=(
            ("List the five newest jobs", "vtrain ps --limit=5"),
            ("Compare them by what they measured", "vtrain ps --sort=~metrics.accuracy"),
        ),
        flags=(ListFlags, MetricFlags, PlaceFlags, CommonFlags),
        fixed={"kind": ANY_JOB},
    ),
    CommandInfo(
        name="compare",
        handler="vtrain.commands.side_by_side:compare",
        details="Prints the arguments, settings and metrics that are not the same in all jobs, and a diff of "
        "the trainer's files between the first job and each other one. With --format these are data.",
        examples=(
            ("See what changed in the newest job", "vtrain compare @last-1 @last"),
            ("Put three jobs side by side", "vtrain compare @last-2 @last-1 @last"),
        ),
        flags=(ComparedFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="logs",
        handler="vtrain.commands.watching:logs",
        details="With -f it is the same as custom-jobs stream-logs: the job's state decides the exit code.",
        examples=(
            ("Print what the newest job has logged so far", "vtrain logs @last"),
            ("Follow a job to its end", "vtrain logs mnist -f"),
        ),
        flags=(JobFlag, FollowFlag, StreamFlags, PlaceFlags, CommonFlags),
        fixed={"kind": ANY_JOB},
    ),
    _about_a_job("stop", "cancel", ("Stop the newest job", "vtrain stop @last")),
    _about_a_job("show", "describe", ("Print the newest job", "vtrain show @last")),
    _about_a_job("rm", "delete", ("Remove a job", "vtrain rm mnist")),
    CommandInfo(
        name="rerun",
        handler="vtrain.commands.rerun:rerun",
        details="The line runs in the folder in which it was typed, and makes a new job whatever its key. "
        "With --watch, a saved file of the trainer stops the job and runs the line again; a line that "
        "creates a job stays with it.",
        examples=(
            ("Run the newest job again", "vtrain rerun @last"),
            ("Run it again after every save", "vtrain rerun @last --watch"),
        ),
        flags=(JobFlag, WatchFlag, PlaceFlags, CommonFlags),
    ),
)
