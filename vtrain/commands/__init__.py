"""The commands of vtrain: which there are, and in which module the table with their flags is."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from vtrain.flags.command import CommandInfo

RUN, INSIDE, SET_UP = "Run and watch jobs", "Look inside a job", "Set up and clean up"
SAME, MORE = "The same as in gcloud ai", "More"
HEADINGS = (RUN, INSIDE, SET_UP, SAME, MORE)
"""The headings of `vtrain --help`, in its order."""
_JOBS, _GROUPS = "vtrain.commands.job_groups", "vtrain.commands.other_groups"
_SHORT, _OTHER = "vtrain.commands.short_commands", "vtrain.commands.other_commands"


class Listed(NamedTuple):
    """A group or a command of the root, and the tuple of CommandInfo, called `table`, that it is found in."""

    heading: str
    module: str
    summary: str
    table: str = "COMMANDS"
    replaced: Mapping[str, str] = {}
    """Hints for words that the group had once."""

    def commands(self) -> tuple[CommandInfo, ...]:
        """Return the table. Its module is imported now: when the name is typed."""
        found: tuple[CommandInfo, ...] = getattr(import_module(self.module), self.table)
        return found


_REPLACED = {
    "models": "Models have moved: vtrain models upload, list, describe, delete, predict.",
    "versions": "A version is now one of a model: vtrain models upload --parent-model=MODEL.",
    "predict": "Online prediction needs an endpoint of Vertex AI: gcloud ai endpoints predict.",
    "explain": "Explanations need an endpoint of Vertex AI: gcloud ai endpoints explain.",
    "local predict": "It has moved: vtrain models predict MODEL --json-request=FILE.",
    "operations": "Operations of AI Platform are gone with its service.",
    "locations": "The regions are those of Vertex AI: vtrain custom-jobs create --region=REGION.",
    "jobs submit prediction": "Batch prediction is not done by vtrain: gcloud ai batch-prediction-jobs.",
    "jobs update": "Labels of a job cannot be changed any more: give --labels when you submit it.",
}
"""Hints for commands that gcloud had, by their words."""
GROUPS = {
    "custom-jobs": Listed(SAME, _JOBS, "Create, watch and manage custom training jobs.", "CUSTOM_JOBS"),
    "hp-tuning-jobs": Listed(
        SAME, _JOBS, "Create, watch and manage hyperparameter tuning jobs.", "TUNING_JOBS"
    ),
    "training-pipelines": Listed(MORE, _JOBS, "Train, and register the model that comes of it.", "PIPELINES"),
    "persistent-resources": Listed(
        SAME, _GROUPS, "Create and manage machines that stay up between jobs.", "PERSISTENT_RESOURCES"
    ),
    "models": Listed(SAME, _GROUPS, "Keep trained models, in versions, and try them.", "MODELS"),
    "ai-platform": Listed(
        MORE,
        _GROUPS,
        "Run command lines of AI Platform Training, whose service is gone.",
        "AI_PLATFORM",
        _REPLACED,
    ),
    "package": Listed(MORE, _GROUPS, "Package a trainer without running it.", "PACKAGE"),
    "emulator": Listed(MORE, _GROUPS, "Serve APIs of Google Cloud on this machine.", "EMULATOR"),
}
COMMANDS = {
    "run": Listed(RUN, _SHORT, "Run a script or a folder on this machine, and exit with its exit code."),
    "submit": Listed(RUN, _SHORT, "Create a job from a script or a folder, without waiting for its end."),
    "tune": Listed(RUN, _SHORT, "Try parameters of a script or a folder, and find the best."),
    "ps": Listed(RUN, _SHORT, "List jobs, newest first."),
    "compare": Listed(RUN, _SHORT, "Show what differs between jobs: arguments, packages, metrics, files."),
    "logs": Listed(RUN, _SHORT, "Print the logs of jobs. With -f, follow them until the jobs end."),
    "show": Listed(RUN, _SHORT, "Show a job: its state, command line, arguments, metrics and files."),
    "wait": Listed(RUN, _SHORT, "Wait until jobs end, and exit with a code for their states."),
    "stop": Listed(RUN, _SHORT, "Cancel jobs."),
    "rerun": Listed(RUN, _SHORT, "Run the command line of a job again, with the current files."),
    "rm": Listed(RUN, _SHORT, "Delete ended jobs with their logs and files."),
    "trials": Listed(INSIDE, _SHORT, "List the trials of a tuning job, the best first."),
    "best": Listed(INSIDE, _SHORT, "Print the best trial of a tuning job, and how to run it again."),
    "report": Listed(INSIDE, _SHORT, "Write a page with the charts of a tuning job."),
    "exec": Listed(INSIDE, _OTHER, "Run a command in a running replica of a job."),
    "debug": Listed(INSIDE, _SHORT, "Run a script or a folder under a debugger."),
    "cp": Listed(INSIDE, _OTHER, "Copy a model or other files of a job."),
    "predict": Listed(INSIDE, _OTHER, "Ask the model of a job for a prediction."),
    "top": Listed(INSIDE, _OTHER, "Show the processor, memory and GPU use of running jobs."),
    "dashboard": Listed(INSIDE, _OTHER, "Show the jobs of this machine in a browser, until Ctrl-C."),
    "tensorboard": Listed(INSIDE, _OTHER, "Open TensorBoard on the logs of a job."),
    "shell": Listed(INSIDE, _OTHER, "Open a shell in a running replica of a job."),
    "doctor": Listed(SET_UP, _OTHER, "Check this machine and the backends, and print how to fix problems."),
    "gc": Listed(SET_UP, _OTHER, "Remove caches, old jobs and leftovers."),
    "init": Listed(
        SET_UP, _OTHER, "Write the job of this folder into pyproject.toml, so that 'vtrain run' runs it."
    ),
    "schema": Listed(SET_UP, _OTHER, "Print a JSON schema, for editors that complete and check files."),
    "help": Listed(MORE, _OTHER, "Show the help of a command, or the flags that all commands take."),
    "version": Listed(MORE, _OTHER, "Print the version of vtrain."),
}
"""The commands without a group. Their tables have no summaries, as these are here."""
