"""The options of tuning jobs, and what those of a study on this machine mean.

Typer evaluates the annotations when it builds a command, so this module does not import `annotations`.
"""

from typing import Annotated, ClassVar

from typer import Argument, Option

from vtrain.backends import StudyOptions
from vtrain.errors import UsageError
from vtrain.flags.completion import files, one_of, tuning_jobs
from vtrain.flags.grammar import whole_number
from vtrain.flags.job_options import JobFlags
from vtrain.flags.options import LOCAL, OUTPUT, FlagGroup, NameFlag

SAMPLERS = ("auto", "tpe", "gp")
MAX_SEED = 2**32 - 1
"""The largest seed that numpy takes."""


class TuningFlags(JobFlags, frozen=True):
    """Flags of hyperparameter tuning jobs, laid over the config file."""

    config: Annotated[
        str | None,
        Option(
            "--config",
            metavar="FILE",
            help="Read the HyperparameterTuningJob from a YAML or JSON file.",
            autocompletion=files,
        ),
    ] = None
    max_trial_count: Annotated[
        str | None,
        Option("--max-trial-count", metavar="N", help="Number of trials. Default: the file's, or 1."),
    ] = None
    parallel_trial_count: Annotated[
        str | None,
        Option(
            "--parallel-trial-count",
            metavar="N",
            help="Trials at the same time. Default: the file's, or 1.",
        ),
    ] = None
    algorithm: Annotated[
        str | None,
        Option(
            "--algorithm",
            metavar="ALGORITHM",
            help="grid-search, random-search, or algorithm-unspecified (Bayesian optimization).",
            autocompletion=one_of("grid-search", "random-search", "algorithm-unspecified"),
        ),
    ] = None
    base_output_dir: Annotated[
        str | None,
        Option(
            "--base-output-dir",
            metavar="URI",
            help="Folder for models; each trial has one of its own below it: gs://… or file:///….",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    max_failed_trial_count: Annotated[
        str | None,
        Option(
            "--max-failed-trial-count",
            metavar="N",
            help="Failed trials after which the job fails. Default: the file's, or what the service decides.",
        ),
    ] = None


class StudyFlags(FlagGroup, frozen=True):
    """Flags about the suggestions of a study on this machine."""

    heading: ClassVar[str] = LOCAL

    sampler: Annotated[
        str | None,
        Option(
            "--sampler",
            metavar="SAMPLER",
            help="Bayesian optimization with tpe, gp or auto (the default).",
            autocompletion=one_of(*SAMPLERS),
        ),
    ] = None
    seed: Annotated[
        str | None,
        Option("--seed", metavar="N", help="Seed: the same one gives the same suggestions."),
    ] = None
    continue_from: Annotated[
        str | None,
        Option(
            "--continue-from",
            metavar="HPTUNING_JOB",
            help="Ended tuning job whose trials count in this one.",
            autocompletion=tuning_jobs,
        ),
    ] = None


class TuningJobFlag(NameFlag, frozen=True):
    """The name of a hyperparameter tuning job."""

    hptuning_job: Annotated[
        str,
        Argument(
            metavar="HPTUNING_JOB",
            help="Id or full name. On this machine also the id's first digits, the display name, or @last.",
            autocompletion=tuning_jobs,
        ),
    ]


def study_options(flags: StudyFlags) -> StudyOptions:
    """The options of a study; `continue_from` as it is typed. Raises UsageError for what does not parse."""
    if flags.sampler is not None and flags.sampler not in SAMPLERS:
        raise UsageError(f"--sampler: expected auto, tpe or gp, found {flags.sampler!r}.")
    seed = whole_number(flags.seed, "--seed") if flags.seed is not None else None
    if seed is not None and not 0 <= seed <= MAX_SEED:
        raise UsageError(f"--seed: expected a number from 0 to {MAX_SEED}, found {seed}.")
    if flags.continue_from == "":
        raise UsageError("--continue-from: the name of the job is empty.")
    return StudyOptions(sampler=flags.sampler or "auto", seed=seed, continue_from=flags.continue_from or "")


def given_flags(flags: StudyFlags) -> list[str]:
    """The flags that stand on the line, for a backend that heeds none of them."""
    given = {"--sampler": flags.sampler, "--seed": flags.seed, "--continue-from": flags.continue_from}
    return [flag for flag, value in given.items() if value is not None]


class BestFlag(FlagGroup, frozen=True):
    """The switch that leaves all trials but the best out."""

    heading: ClassVar[str] = "Selection"

    best: Annotated[
        bool, Option("--best", help="Print the best trial alone, with the folder of its model.")
    ] = False


class ReportFlags(FlagGroup, frozen=True):
    """The file of a report."""

    heading: ClassVar[str] = OUTPUT

    output: Annotated[
        str,
        Option("--output", metavar="FILE", help="The HTML file to write.", autocompletion=files),
    ] = "report.html"
