"""Flags of `hp-tuning-jobs create`.

The annotations here are evaluated when the command is built, so they are not left as text.
"""

from typing import Annotated

from typer import Argument, Option

from vtrain.flags.completion import tuning_jobs
from vtrain.flags.options import FlagGroup, JobFlags


class TuningFlags(JobFlags, frozen=True):
    """A hyperparameter tuning job, over and above its config file."""

    config: Annotated[
        str | None,
        Option("--config", metavar="FILE", help="YAML or JSON of a HyperparameterTuningJob."),
    ] = None
    max_trial_count: Annotated[
        str | None,
        Option("--max-trial-count", metavar="N", help="Trials in all; 1 where nothing is said."),
    ] = None
    parallel_trial_count: Annotated[
        str | None,
        Option("--parallel-trial-count", metavar="N", help="Trials at once; 1 where nothing is said."),
    ] = None
    algorithm: Annotated[
        str | None,
        Option(
            "--algorithm",
            metavar="ALGORITHM",
            help="grid-search, random-search or algorithm-unspecified (Bayesian optimisation).",
        ),
    ] = None
    strict: Annotated[
        bool,
        Option("--strict", help="Refuse to send variables that look like secrets, instead of warning."),
    ] = False


class TuningJobFlag(FlagGroup, frozen=True):
    """Which hyperparameter tuning job."""

    hptuning_job: Annotated[
        str,
        Argument(
            metavar="HPTUNING_JOB",
            help="Id, or projects/PROJECT/locations/REGION/hyperparameterTuningJobs/ID.",
            autocompletion=tuning_jobs,
        ),
    ]
