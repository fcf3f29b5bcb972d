"""The options of tuning jobs, and what those of a study on this machine mean."""

from typing import ClassVar

from vtrain.backends import StudyOptions
from vtrain.errors import UsageError
from vtrain.flags.completion import files, goals, one_of, tuning_jobs
from vtrain.flags.grammar import whole_number
from vtrain.flags.job_options import CreationFlags, EntryFlags, MachineFlags, TrainerFlags
from vtrain.flags.local_options import RuntimeFlags
from vtrain.flags.options import (
    GOOGLE_CLOUD,
    LOCAL,
    OUTPUT,
    WAITING,
    CommonFlags,
    PlaceFlags,
)
from vtrain.flags.row import IGNORED, FlagGroup, FlagSet, flag, items, switch

SAMPLERS = ("auto", "tpe", "gp")
MAX_SEED = 2**32 - 1
"""The largest seed that numpy takes."""


def _algorithm(text: str, flag: str) -> str:
    """The API's name of an algorithm, in whatever spelling: `grid-search`, `GRID_SEARCH`."""
    from vtrain.messages.codec import fields
    from vtrain.messages.hyperparameter_tuning_job import StudySpec

    names = fields(StudySpec)["algorithm"].names
    name = text.upper().replace("-", "_")
    if name not in names:
        choices = sorted(name.lower().replace("_", "-") for name in names)
        raise UsageError(f"{flag}: there is no {text!r}.", hint=f"Take {', '.join(choices)}.")
    return name


class TuningFlags(MachineFlags, frozen=True):
    """Flags of hyperparameter tuning jobs, laid over the config file."""

    display_name: str | None = flag("NAME", "Display name.", to="displayName", empty=IGNORED)
    network: str | None = flag(
        "NETWORK", "VPC network to peer with.", panel=GOOGLE_CLOUD, to="jobSpec.network", empty=IGNORED
    )
    config: str | None = flag(
        "FILE", "Read the HyperparameterTuningJob from a YAML or JSON file.", offer=files
    )
    max_trial_count: str | None = flag(
        "N",
        "Number of trials. Default: the file's, or 1; in vtrain tune 10, or all of a grid.",
        short="-n",
        to="maxTrialCount",
        read=whole_number,
        empty=IGNORED,
    )
    parallel_trial_count: str | None = flag(
        "N",
        "Trials at the same time. Default: the file's, or 1.",
        short="-j",
        to="parallelTrialCount",
        read=whole_number,
        empty=IGNORED,
    )
    algorithm: str | None = flag(
        "ALGORITHM",
        "grid-search, random-search, or algorithm-unspecified (Bayesian optimization).",
        offer=one_of("grid-search", "random-search", "algorithm-unspecified"),
        to="studySpec.algorithm",
        read=_algorithm,
    )
    base_output_dir: str | None = flag(
        "URI",
        "Folder for models; each trial has one of its own below it: gs://… or file:///….",
        panel=OUTPUT,
        to="jobSpec.baseOutputDirectory.outputUriPrefix",
        empty=IGNORED,
    )
    max_failed_trial_count: str | None = flag(
        "N",
        "Failed trials after which the job fails. Default: the file's, or what the service decides.",
        to="maxFailedTrialCount",
        read=whole_number,
        empty=IGNORED,
    )


class StudyFlags(FlagGroup, frozen=True):
    """Flags about the suggestions of a study on this machine."""

    heading: ClassVar[str] = LOCAL

    sampler: str | None = flag(
        "SAMPLER", "Bayesian optimization with tpe, gp or auto (the default).", offer=one_of(*SAMPLERS)
    )
    seed: str | None = flag("N", "Seed: the same one gives the same suggestions.")
    continue_from: str | None = flag(
        "HPTUNING_JOB", "Ended tuning job whose trials count in this one.", offer=tuning_jobs
    )


class TuningJobLine(FlagSet, frozen=True):
    """A command line that creates a tuning job."""

    spec: TuningFlags
    trainer: TrainerFlags
    study: StudyFlags
    how: CreationFlags
    local: RuntimeFlags
    place: PlaceFlags
    common: CommonFlags


class SpaceFlags(FlagGroup, frozen=True):
    """The parameters of a study, and the metrics that count."""

    heading: ClassVar[str] = "Study"

    param: list[str] = items(
        "NAME=VALUES",
        "Parameter, which a trial gets as --NAME=VALUE: a range (lr=1e-4..0.1:log, layers=1..8), numbers "
        "(units=64,128) or words (act=relu,tanh). Repeatable.",
    )
    metric: list[str] = items("NAME:max|min", "Metric that counts, such as accuracy:max.", offer=goals)


class DetachFlag(FlagGroup, frozen=True):
    """The switch that does not wait for the end."""

    heading: ClassVar[str] = WAITING

    detach: bool = switch("Return as soon as the job is created; it runs on.", short="-d")


class TuneLine(FlagSet, frozen=True):
    """A short command line that creates a tuning job."""

    entry: EntryFlags
    space: SpaceFlags
    detach: DetachFlag
    job: TuningJobLine


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
