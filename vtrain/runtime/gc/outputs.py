"""The output of ended jobs that named no base output directory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from vtrain.errors import ConfigError
from vtrain.runtime.database import has_store
from vtrain.runtime.default_output import default_outputs
from vtrain.runtime.gc.candidate import Candidate, Search, byte_count, last_change, refused, remove_path
from vtrain.runtime.gc.living import living_jobs
from vtrain.runtime.model_registry import ModelRegistry
from vtrain.runtime.store import Store
from vtrain.staging import LocalBuckets
from vtrain.times import from_epoch


def old_outputs(search: Search) -> Iterator[Candidate]:
    """Folders to which nothing was written since the search's time; those of unfinished jobs are kept."""
    times = {folder: last_change(folder) for folder in default_outputs(search.home)}
    living, models = living_jobs(search.home).outputs, _model_folders(search.home)
    for folder, changed in times.items():
        if changed < search.before:
            yield Candidate(
                id=folder.name,
                name=str(folder.relative_to(search.home.resolve())),
                label=folder.name,
                kind="output",
                created=from_epoch(changed, 0),
                size=byte_count(folder),
                kept=_kept(folder, living, models),
                discard=partial(refused, partial(remove_path, folder)),
            )


def _kept(folder: Path, living: Collection[Path], models: Collection[Path]) -> str:
    if any(output.is_relative_to(folder) for output in living):  # a job may write below another's folder
        return "a job uses it"
    return "a model has its files there" if any(files.is_relative_to(folder) for files in models) else ""


def _model_folders(home: Path) -> set[Path]:
    """The folders with the files of registered models."""
    found = set()
    for uri in ModelRegistry(Store.open(home)).artifact_uris() if has_store(home) else ():
        with suppress(ConfigError):  # it leads out of its bucket, and so to no output
            found.add(LocalBuckets(home).local_path(uri).resolve())
    return found
