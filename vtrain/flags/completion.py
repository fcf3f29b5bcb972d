"""Completions of flags' values in a shell.

A shell shows no errors of completions. Modules are imported when a completion is asked for. An offer is a
word, or a word and a text that zsh and fish show beside it. The names of jobs and models come from the
`job_names` of the invocation: to find them, commands open backends, and flags do not.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import typer

FILES = "\0"
"""At the end of an offer: the shell is to complete the name of a file."""
MAX_MODULES = 500
MAX_DEPTH = 4
"""Folders below the trainer's that are searched for modules."""
_KEYS_OF_FILTERS = ("state=", "displayName=", "createTime>", "labels.")
_STATE_KEYS = ("state=", "state:")


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Return the completion of a flag that takes one of these words."""

    def offered(incomplete: str) -> list[str]:
        return beginning(words, incomplete)

    return offered


def goals(incomplete: str) -> list[str]:
    """A metric with what is better, once its name is there."""
    name, colon, goal = incomplete.rpartition(":")
    return [f"{name}:{word}" for word in beginning(("max", "min"), goal)] if colon else []


def files(incomplete: str) -> list[str]:
    """Names of files, which the shell completes itself."""
    return [incomplete + FILES]


def credential_sources(incomplete: str) -> list[str]:
    """The words of `--credentials`, or a file."""
    return beginning(("none", "adc"), incomplete) or files(incomplete)


def regions(incomplete: str) -> list[str]:
    """Regions that offer training."""
    from vtrain.settings import TRAINING_REGIONS

    return beginning(TRAINING_REGIONS, incomplete)


def backends(incomplete: str) -> list[str]:
    """The built-in backends."""
    from vtrain.backends.registry import NAMES

    return beginning(NAMES, incomplete)


def formats(incomplete: str) -> list[str]:
    """The formats that need no parentheses, which a shell would have to quote."""
    from vtrain.output.language.format import FORMATS, WITH_COLUMNS

    return beginning([name for name in FORMATS if name not in (*WITH_COLUMNS, "multi")], incomplete)


def verbosities(incomplete: str) -> list[str]:
    """The levels of `--verbosity`."""
    from vtrain.output.console import VERBOSITIES

    return beginning(VERBOSITIES, incomplete)


def configurations(incomplete: str) -> list[str]:
    """The named configurations of gcloud."""
    from vtrain.properties import gcloud_folder

    found = sorted((gcloud_folder() / "configurations").glob("config_*"))
    return beginning([path.name.removeprefix("config_") for path in found], incomplete)


def leftovers(incomplete: str) -> list[str]:
    """The kinds of things that `gc` removes; the last of a list."""
    from vtrain.runtime.gc.candidate import KINDS

    done, comma, last = incomplete.rpartition(",")
    return [f"{done}{comma}{kind}" for kind in beginning(KINDS, last)]


def conditions(incomplete: str) -> list[str]:
    """The start of a `--filter`: a key, or behind `state=` a state."""
    from vtrain.messages.states import KNOWN

    key = next((key for key in _STATE_KEYS if incomplete.startswith(key)), "")
    return beginning([key + state for state in sorted(KNOWN)] if key else _KEYS_OF_FILTERS, incomplete)


def states(incomplete: str) -> list[str]:
    """The states of jobs; the last of a list."""
    from vtrain.messages.states import KNOWN, short

    done, comma, last = incomplete.rpartition(",")
    found = beginning(sorted(short(state).lower() for state in KNOWN), last.lower())
    return [f"{done}{comma}{state}" for state in found]


def modules(ctx: typer.Context, incomplete: str) -> list[str]:
    """The Python modules below `--local-package-path`, else below the current folder."""
    from vtrain.settings import user_path

    root = user_path(ctx.params.get("local_package_path") or ".")
    return beginning(sorted(_modules_below(root)), incomplete)


def replicas(ctx: typer.Context, incomplete: str) -> list[str]:
    """The replicas of the job that the command line names."""
    given = [ctx.params[name] for name in ("custom_job", "hptuning_job", "job") if ctx.params.get(name)]
    words = [*given, *(ctx.params.get("jobs") or ())]
    found: list[str] = ctx.obj.job_names().replicas_of(words[0], ctx.params) if words else []
    return beginning(found, incomplete)


def pool(incomplete: str) -> list[str]:
    """The last key of a `--worker-pool-spec`, or its value where there is a list of them."""
    from vtrain.flags.grammar import POOL_KEYS
    from vtrain.messages.rules import ACCELERATORS
    from vtrain.runtime.machines import machine_types

    done, comma, last = incomplete.rpartition(",")
    key, equals, text = last.partition("=")
    values = {"machine-type": machine_types(), "accelerator-type": sorted(ACCELERATORS)}
    if equals:
        found = [f"{key}={value}" for value in beginning(values.get(key, ()), text)]
    else:
        found = [f"{name}=" for name in beginning(sorted(POOL_KEYS), key)]
    return [f"{done}{comma}{item}" for item in found]


def machines(incomplete: str) -> list[str]:
    """The machine types of the table."""
    from vtrain.runtime.machines import machine_types

    return beginning(machine_types(), incomplete)


def processors(incomplete: str) -> list[str]:
    """Accelerators, by their short names and by those of the API."""
    from vtrain.messages.hardware import SHORT_NAMES
    from vtrain.messages.rules import ACCELERATORS

    return beginning([*SHORT_NAMES, *sorted(ACCELERATORS)], incomplete)


def jobs_of(*collections: str) -> Callable[[typer.Context, str], list[tuple[str, str]]]:
    """Return the completion of a job of these collections that the command can be about."""

    def offered(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        job, at, _ = incomplete.rpartition("@")
        if at:
            offers = [("@last", "the newest"), ("@last-1", "the one before")]
            if job:
                offers = [(f"{job}@best", "the best trial")] if "customJobs" in collections else []
            return [each for each in offers if each[0].startswith(incomplete)]
        found = ctx.obj.job_names().newest_jobs(collections, ctx.info_name or "", ctx.params)
        return [(name, text) for name, text in found if name.startswith(incomplete)]

    return offered


custom_jobs = jobs_of("customJobs")
tuning_jobs = jobs_of("hyperparameterTuningJobs")
training_pipelines = jobs_of("trainingPipelines")
any_jobs = jobs_of("customJobs", "hyperparameterTuningJobs", "trainingPipelines")


def job_files(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """A job, and behind its colon the files and folders in a folder of it."""
    job, colon, path = incomplete.partition(":")
    if not colon:
        return custom_jobs(ctx, incomplete)
    found = ctx.obj.job_names().files_of(job or "@last", path, ctx.params)
    return [(f"{job}:{name}", "") for name in found]


def models(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids and display names of models."""
    found: list[tuple[str, str]] = ctx.obj.job_names().newest_models(ctx.params)
    return [(name, text) for name, text in found if name.startswith(incomplete)]


def commands(ctx: typer.Context, incomplete: str) -> list[str]:
    """The commands below the words that `vtrain help` is given so far; pages once a word has begun."""
    from vtrain.flags.topics import topics

    group: Any = ctx.find_root().command
    words = ctx.params.get("words") or ()
    for word in words:
        group = group.get_command(ctx, word)
        if not hasattr(group, "list_commands"):
            return []
    pages = () if words else ("flags", *(("topics", *topics()) if incomplete else ()))
    return beginning([*group.list_commands(ctx), *pages], incomplete)


def beginning(words: Iterable[str], incomplete: str) -> list[str]:
    """The words that go on where what is typed ends."""
    return [word for word in words if word.startswith(incomplete)]


def _modules_below(root: Path) -> set[str]:
    found: set[str] = set()
    for folder, inner, names in os.walk(root):
        package = Path(folder).relative_to(root).parts
        inner[:] = [name for name in inner if "." not in name] if len(package) < MAX_DEPTH else []
        stems = (name.removesuffix(".py") for name in names if name.endswith(".py"))
        found.update(".".join([*package, stem]) for stem in stems if "." not in stem and stem != "__init__")
        if len(found) >= MAX_MODULES:
            break
    return found
