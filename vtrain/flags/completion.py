"""What a shell offers behind a TAB for the value of a flag.

Nothing here may fail loudly: a shell shows no errors there. Modules are imported when a TAB asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

import typer


def regions(incomplete: str) -> list[str]:
    """Regions that offer training."""
    from vtrain.settings import TRAINING_REGIONS

    return beginning(TRAINING_REGIONS, incomplete)


def backends(incomplete: str) -> list[str]:
    """The built-in backends."""
    from vtrain.backends import BUILT_IN

    return beginning(BUILT_IN, incomplete)


def pool(incomplete: str) -> list[str]:
    """The last key of a `--worker-pool-spec`, or its value where there is a list of them."""
    from vtrain.engine.machines import machine_types
    from vtrain.flags.pools import ACCELERATORS, KEYS

    done, comma, last = incomplete.rpartition(",")
    key, equals, text = last.partition("=")
    values = {"machine-type": machine_types(), "accelerator-type": sorted(ACCELERATORS)}
    if equals:
        found = [f"{key}={value}" for value in beginning(values.get(key, ()), text)]
    else:
        found = [f"{name}=" for name in beginning(sorted(KEYS), key)]
    return [f"{done}{comma}{item}" for item in found]


def custom_jobs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of custom jobs."""
    return _job_names("customJobs", ctx, incomplete)


def tuning_jobs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of hyperparameter tuning jobs."""
    return _job_names("hyperparameterTuningJobs", ctx, incomplete)


def _job_names(collection: str, ctx: typer.Context, incomplete: str) -> list[str]:
    names = import_module("vtrain.commands.job_names")  # it opens backends, which flags know nothing of
    found: list[str] = names.newest_jobs(collection, ctx.params)
    return beginning(found, incomplete)


def beginning(words: Iterable[str], incomplete: str) -> list[str]:
    """The words that go on where what is typed ends."""
    return [word for word in words if word.startswith(incomplete)]
