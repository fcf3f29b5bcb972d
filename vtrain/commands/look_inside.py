"""The commands that look into running jobs. What a command works with is imported when it runs."""

from __future__ import annotations

from vtrain.flags.command import CommandInfo
from vtrain.flags.options import (
    COMMAND,
    BoardFlags,
    CommonFlags,
    CopyFlags,
    DashboardFlags,
    JobNameFlag,
    PlaceFlags,
    TaskFlag,
    TopFlags,
)

HERE = "The job has to run on this machine."

COMMANDS = (
    CommandInfo(
        name="cp",
        handler="vtrain.commands.copying:copy",
        summary="Copy a model or other files of a job.",
        details="PATH is below the job's output folder (model, checkpoints, logs), or else below the working "
        "directory of the replica. Without PATH the whole output folder is copied. TARGET is the current "
        "folder by default. The job may run or have ended; it has to be one of this machine.",
        examples=(
            ("Copy the model of the newest job", "vtrain cp @last:model ./model"),
            (
                "Copy a file that its second replica wrote",
                "vtrain cp @last:a.json --task-name=workerpool1-0",
            ),
        ),
        flags=(CopyFlags, TaskFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="dashboard",
        handler="vtrain.commands.dashboard:dashboard",
        summary="Show the jobs of this machine in a browser, until Ctrl-C.",
        details="Lists jobs of all kinds, and shows the log, failure, files and metrics of each. "
        "The address is on 127.0.0.1, and has a token without which nothing is answered. The pages change "
        "nothing and load nothing from elsewhere. Needs the extra emulator.",
        examples=(
            ("Open the dashboard", "vtrain dashboard"),
            ("Serve it on a port that ssh forwards", "vtrain dashboard --port=8090 --no-browser"),
        ),
        flags=(DashboardFlags, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="exec",
        handler="vtrain.commands.inside:execute",
        summary="Run a command in a running replica of a job.",
        details="The command follows --. It gets the replica's environment and working directory (in its "
        f"container, on docker). The exit code is the command's. {HERE}",
        examples=(
            ("See the GPUs that the newest job sees", "vtrain exec @last -- nvidia-smi"),
            ("List the files of its second replica", "vtrain exec @last --task-name=workerpool1-0 -- ls -l"),
        ),
        flags=(JobNameFlag, TaskFlag, PlaceFlags, CommonFlags),
        takes_remainder=True,
        remainder=COMMAND,
    ),
    CommandInfo(
        name="top",
        handler="vtrain.commands.top:top",
        summary="Show the processor, memory and GPU use of running jobs.",
        details="On a terminal the table is refreshed until Ctrl-C. Through a pipe, with --once or with "
        f"--format it is printed once. 100% is one processor. GPUs need nvidia-smi. {HERE}",
        examples=(
            ("Watch all jobs of this machine", "vtrain top"),
            ("Print the memory of the newest job in bytes", "vtrain top @last --format='value(memoryBytes)'"),
        ),
        flags=(TopFlags, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="shell",
        handler="vtrain.commands.inside:shell",
        summary="Open a shell in a running replica of a job.",
        details="The shell gets the replica's environment and working directory (in its container, on "
        f"docker). Leaving it does not end the job. {HERE}",
        examples=(("Open a shell in the newest job", "vtrain shell @last"),),
        flags=(JobNameFlag, TaskFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="tensorboard",
        handler="vtrain.commands.tensorboard:tensorboard",
        summary="Open TensorBoard on the logs of a job.",
        details="Runs the TensorBoard that you have installed, on the folder of AIP_TENSORBOARD_LOG_DIR. "
        "Without JOB it shows all jobs of this machine. What follows -- are TensorBoard's own flags.",
        examples=(
            ("Compare all jobs of this machine", "vtrain tensorboard"),
            ("Show one job at another port", "vtrain tensorboard @last -- --port=7007"),
        ),
        flags=(BoardFlags, PlaceFlags, CommonFlags),
        takes_remainder=True,
    ),
)
