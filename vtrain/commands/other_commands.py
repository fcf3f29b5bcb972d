"""Commands that look inside jobs, and those that set vtrain up, clean up and explain it."""

from __future__ import annotations

from vtrain.flags.command import CommandInfo
from vtrain.flags.model_options import PredictFlags
from vtrain.flags.options import (
    COMMAND,
    BoardFlags,
    CommonFlags,
    CopyFlags,
    DashboardFlags,
    DryRunFlag,
    HelpFlags,
    InitFlags,
    JobNameFlag,
    NewestFlag,
    PlaceFlags,
    PruneFlags,
    SchemaFlag,
    TaskFlag,
    TopFlags,
)

HERE = "The job has to run on this machine."

COMMANDS = (
    CommandInfo(
        name="cp",
        handler="vtrain.commands.inside:copy",
        details="PATH is below the job's output folder (model, checkpoints, logs), or else below the working "
        "directory of the replica. Without PATH the whole output folder is copied. TARGET is the current "
        "folder by default. The job may run or have ended; it has to be one of this machine.",
        examples=(
            ("Copy the model of the newest job", "vtrain cp :model ./model"),
            ("Copy all that a job has written", "vtrain cp mnist ./mnist"),
            ("Copy a file that its second replica wrote", "vtrain cp @last:a.json --task-name=workerpool1-0"),
        ),
        flags=(CopyFlags, TaskFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="predict",
        handler="vtrain.commands.predict:predict_job",
        details="Asks the model that a job of this machine has written (model.joblib, model.pkl, model.bst, "
        "saved_model.pb or model.mar in its folder model) without an upload, in the versions that the job "
        "was trained with. To keep a model, see vtrain models upload.",
        examples=(
            ("Ask the newest job's model", "vtrain predict --json-request=request.json"),
            ("Read the request from standard input", "vtrain predict iris --json-request=- --format=json"),
        ),
        required=("--json-request",),
        flags=(NewestFlag, PredictFlags, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="dashboard",
        handler="vtrain.commands.servers:dashboard",
        details="Lists jobs of all kinds, and shows the log, failure, files and metrics of each. "
        "The address is on 127.0.0.1, and has a token without which nothing is answered. The pages stop jobs "
        "and run them again, and load nothing from elsewhere. Needs the extra dashboard.",
        examples=(
            ("Open the dashboard", "vtrain dashboard"),
            ("Serve it on a port that ssh forwards", "vtrain dashboard --port=8090 --no-browser"),
        ),
        flags=(DashboardFlags, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="exec",
        handler="vtrain.commands.inside:execute",
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
        details="The shell gets the replica's environment and working directory (in its container, on "
        f"docker). Leaving it does not end the job. {HERE}",
        examples=(("Open a shell in the newest job", "vtrain shell @last"),),
        flags=(JobNameFlag, TaskFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="tensorboard",
        handler="vtrain.commands.servers:tensorboard",
        details="Runs the TensorBoard that you have installed, on the folder of AIP_TENSORBOARD_LOG_DIR. "
        "Without JOB it shows all jobs of this machine. What follows -- are TensorBoard's own flags.",
        examples=(
            ("Compare all jobs of this machine", "vtrain tensorboard"),
            ("Show one job at another port", "vtrain tensorboard @last -- --port=7007"),
        ),
        flags=(BoardFlags, PlaceFlags, CommonFlags),
        takes_remainder=True,
    ),
    CommandInfo(
        name="doctor",
        handler="vtrain.commands.doctor:doctor",
        details="Only the chosen backend is checked over the network. The exit code is 1 if it cannot work. "
        "Nothing is changed, and no secret is printed.",
        examples=(
            ("Check the backend that your jobs use", "vtrain doctor"),
            ("Check credentials, APIs and bucket for Vertex AI", "vtrain doctor --backend=vertex"),
        ),
        flags=(PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="gc",
        handler="vtrain.commands.gc:gc",
        details="Removes ended jobs with their logs, and cached environments, packages and images, after 30 "
        "days without use. Removes processes, containers, networks and temporary files of jobs that have "
        "ended. Keeps what a running job uses, and images that you gave a name.",
        examples=(
            ("Show what would be removed, and how much space it takes", "vtrain gc --dry-run"),
            ("Remove everything that was not used for a week", "vtrain gc --older-than=7d"),
        ),
        flags=(PruneFlags, DryRunFlag, CommonFlags),
    ),
    CommandInfo(
        name="init",
        handler="vtrain.commands.init:init",
        details="Looks for the module or script that starts the trainer, and asks at most four questions on "
        "a terminal. The rest of pyproject.toml stays as it is; without that file, it is made.",
        examples=(
            ("Describe the project in this folder", "vtrain init"),
            ("Ask nothing, and only show what would be written", "vtrain init --yes --dry-run"),
        ),
        flags=(InitFlags, DryRunFlag, CommonFlags),
    ),
    CommandInfo(
        name="schema",
        handler="vtrain.commands.init:schema",
        examples=(
            ("Save the schema of config files", "vtrain schema custom-job > custom-job.schema.json"),
            ("Save the schema of [tool.vtrain]", "vtrain schema pyproject > vtrain.schema.json"),
        ),
        flags=(SchemaFlag, CommonFlags),
    ),
    CommandInfo(
        name="help",
        handler="vtrain.commands.help:show_help",
        examples=(
            ("Show the flags of a command", "vtrain help custom-jobs create"),
            ("Show the common flags", "vtrain help flags"),
            ("Read a page of the documentation", "vtrain help how-to/tune"),
            ("List those pages", "vtrain help topics"),
            ("Read the manual", "vtrain help --man | man -l -"),
        ),
        flags=(HelpFlags, CommonFlags),
    ),
    CommandInfo(name="version", handler="vtrain.commands.help:show_version", flags=(CommonFlags,)),
)
