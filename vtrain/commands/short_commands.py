"""`vtrain run`, `vtrain ps`, …: short names of the commands of jobs, with the same flags."""

from __future__ import annotations

import msgspec

from vtrain.commands.job_groups import CUSTOM_JOBS, TUNING_JOBS
from vtrain.flags.command import CommandInfo
from vtrain.flags.options import (
    CommonFlags,
    ComparedFlag,
    FollowFlag,
    JobListFlags,
    JobsFlag,
    JobsToAwaitFlag,
    JobsToStopFlag,
    LineFlags,
    ListFlags,
    MetricFlags,
    NewestFlag,
    NewestTuningFlag,
    PlaceFlags,
    SomeJobsFlag,
    StreamFlags,
    WatchFlag,
)
from vtrain.messages.names import ANY_JOB

_BY_NAME = {info.name: info for info in CUSTOM_JOBS}
_TUNING = {info.name: info for info in TUNING_JOBS}


COMMANDS = (
    CommandInfo(
        name="run",
        handler="vtrain.commands.entry:run",
        details="The same as custom-jobs local-run, but what to run needs no flag: a script, a folder with "
        "-m MODULE, or a folder that has one script called train.py, main.py or task.py. Without any, the "
        "project's job runs ([tool.vtrain.job] in pyproject.toml), or that one script of this folder.",
        examples=(
            ("Run a script with arguments of its own", "vtrain run train.py -- --epochs=3"),
            ("Install what it needs first", "vtrain run train.py --requirements=scikit-learn,pandas"),
            ("Run a module of a folder", "vtrain run . -m trainer.task"),
        ),
        line="vtrain.flags.job_options:RunLine",
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
        line="vtrain.flags.job_options:RunLine",
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
        line="vtrain.flags.job_options:SubmitLine",
        takes_remainder=True,
    ),
    CommandInfo(
        name="tune",
        handler="vtrain.commands.entry:tune",
        details="The same as hp-tuning-jobs create, but the study needs no file: each --param is a parameter "
        "and each --metric a metric that counts. The command stays until its end; --detach leaves it.\n\n"
        "A trainer reports a metric with hypertune, in metrics.json or metrics.jsonl of its output folder "
        'or working directory, or as a line {"accuracy": 0.91, "step": 3} on stdout. '
        "On Vertex AI only hypertune counts.",
        examples=(
            (
                "Try 20 learning rates, four at a time",
                "vtrain tune train.py --param lr=1e-4..0.1:log --metric accuracy:max -n 20 -j 4",
            ),
            (
                "Try every pair of two lists, and write the study into a file",
                "vtrain tune train.py --param units=64,128 --param act=relu,tanh --metric loss:min "
                "--algorithm=grid-search --dry-run > study.yaml",
            ),
        ),
        line="vtrain.flags.tuning_options:TuneLine",
        takes_remainder=True,
    ),
    msgspec.structs.replace(
        _BY_NAME["list"],
        name="ps",
        handler="vtrain.commands.job_lists:ps",
        details="The same as custom-jobs list and hp-tuning-jobs list, of jobs in every state. Trials "
        "of tuning jobs need --all. "
        "With --metrics, --columns or --sort only the 1000 newest are read: their arguments, and the last "
        'numbers in lines such as {"accuracy": 0.91, "step": 3} on stdout and in files such as metrics.json.',
        examples=(
            ("List the five newest jobs", "vtrain ps --limit=5"),
            ("Watch what runs and waits", "vtrain ps --state=running,queued --watch"),
            ("Compare them by what they measured", "vtrain ps --sort=~metrics.accuracy"),
        ),
        flags=(ListFlags, JobListFlags, MetricFlags, PlaceFlags, CommonFlags),
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
        handler="vtrain.commands.logs:logs",
        details="Without a name it is that of the newest job. With -f it is the same as custom-jobs "
        "stream-logs: the job's state decides the exit code. Of several jobs the lines begin with the job, "
        "and the first one that did not succeed decides.",
        examples=(
            ("Print the last 20 lines of the newest job", "vtrain logs --tail=20"),
            ("Follow two jobs to their ends", "vtrain logs mnist digits -f"),
            (
                "Print what was logged about the loss in the last five minutes",
                "vtrain logs --since=5m --grep=loss",
            ),
        ),
        flags=(JobsFlag, FollowFlag, LineFlags, StreamFlags, PlaceFlags, CommonFlags),
        fixed={"kind": ANY_JOB},
    ),
    CommandInfo(
        name="show",
        handler="vtrain.commands.job_page:show",
        details="On a terminal a page: state, times, command line, arguments, image, memory, metrics, model. "
        "With --format, and elsewhere, the same as custom-jobs describe and hp-tuning-jobs describe.",
        examples=(
            ("Show the newest job", "vtrain show"),
            ("Print all that is known of it as YAML", "vtrain show --format=yaml"),
        ),
        flags=(NewestFlag, PlaceFlags, CommonFlags),
        fixed={"kind": ANY_JOB},
    ),
    CommandInfo(
        name="wait",
        handler="vtrain.commands.watching:wait_for_all",
        details="For one job the same as custom-jobs wait and hp-tuning-jobs wait. Without a name it is the "
        "newest job. Of several jobs the first one that did not succeed decides the exit code.",
        examples=(
            ("Wait for the newest job", "vtrain wait"),
            ("Wait for two jobs", "vtrain wait mnist digits"),
            ("Wait for all jobs here", "vtrain wait --all"),
        ),
        flags=(JobsFlag, JobsToAwaitFlag, *_BY_NAME["wait"].flags[1:]),
        fixed={"kind": ANY_JOB},
    ),
    CommandInfo(
        name="stop",
        handler="vtrain.commands.jobs:stop",
        details="For one job the same as custom-jobs cancel and hp-tuning-jobs cancel.",
        examples=(("Stop the newest job", "vtrain stop @last"), ("Stop all jobs here", "vtrain stop --all")),
        flags=(JobsFlag, JobsToStopFlag, PlaceFlags, CommonFlags),
        fixed={"kind": ANY_JOB},
    ),
    CommandInfo(
        name="rm",
        handler="vtrain.commands.jobs:remove",
        details="For one job the same as custom-jobs delete and hp-tuning-jobs delete. All that have ended: "
        "vtrain gc --kind=job --older-than=0s",
        examples=(("Remove two jobs", "vtrain rm mnist digits"),),
        flags=(SomeJobsFlag, PlaceFlags, CommonFlags),
        fixed={"kind": ANY_JOB},
    ),
    msgspec.structs.replace(
        _TUNING["trials"],
        details=f"The same as hp-tuning-jobs trials. {_TUNING['trials'].details}",
        examples=(("List the trials of the newest tuning job", "vtrain trials"),),
        flags=(NewestTuningFlag, *_TUNING["trials"].flags[1:]),
    ),
    CommandInfo(
        name="best",
        handler="vtrain.commands.tuning_trials:best",
        details="Its metric, its arguments as a command line, and how to copy its model. With --format it is "
        "the trial, with args and modelDir.",
        examples=(
            ("Print the best trial of the newest tuning job", "vtrain best"),
            ("Print its arguments for a script", "vtrain best --format='value(args)'"),
        ),
        flags=(NewestTuningFlag, PlaceFlags, CommonFlags),
    ),
    msgspec.structs.replace(
        _TUNING["report"],
        details=f"The same as hp-tuning-jobs report. {_TUNING['report'].details}",
        examples=(("Write a page about the newest tuning job", "vtrain report --output=report.html"),),
        flags=(NewestTuningFlag, *_TUNING["report"].flags[1:]),
    ),
    CommandInfo(
        name="rerun",
        handler="vtrain.commands.rerun:rerun",
        details="The line runs in the folder in which it was typed, and makes a new job whatever its key. "
        "Options behind -- take the place of the trainer's of the same name, or are added; words that do not "
        "begin with an option replace all of its arguments. "
        "With --watch, a saved file of the trainer stops the job and runs the line again; a line that "
        "creates a job stays with it.",
        examples=(
            ("Run the newest job again", "vtrain rerun"),
            ("Run it with another learning rate", "vtrain rerun mnist -- --lr=0.5"),
            ("Run it again after every save", "vtrain rerun --watch"),
        ),
        flags=(NewestFlag, WatchFlag, PlaceFlags, CommonFlags),
        takes_remainder=True,
    ),
)
