"""The output of ended jobs that named no base output directory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from vtrain.runtime.default_output import default_outputs
from vtrain.runtime.gc.candidate import Candidate, Search, byte_count, last_change, refused, remove_path
from vtrain.runtime.gc.living import living_jobs
from vtrain.times import from_epoch


def old_outputs(search: Search) -> Iterator[Candidate]:
    """Folders to which nothing was written since the search's time; those of unfinished jobs are kept."""
    times = {folder: last_change(folder) for folder in default_outputs(search.home)}
    living = living_jobs(search.home).outputs
    for folder, changed in times.items():
        if changed < search.before:
            yield Candidate(
                id=folder.name,
                name=str(folder.relative_to(search.home.resolve())),
                label=folder.name,
                kind="output",
                created=from_epoch(changed, 0),
                size=byte_count(folder),
                kept="a job uses it" if folder in living else "",
                discard=partial(refused, partial(remove_path, folder)),
            )
