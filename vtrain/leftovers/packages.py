"""Packages of trainers that no job has used for long: in vtrain's home, and staged to its buckets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from vtrain.atomic import GONE
from vtrain.engine.instants import from_epoch
from vtrain.engine.store import Store
from vtrain.leftovers.leftover import Leftover, Search, instant
from vtrain.leftovers.living import job_document, living_jobs, package_folders
from vtrain.leftovers.space import byte_count, last_change, refused, withdraw_unused

_CONTENT = re.compile(r"[0-9a-f]{64}")


def packed_packages(search: Search) -> Iterator[Leftover]:
    """Packages in the home's own folder, by their content's name."""
    yield from _unused((search.home / "packages").glob("*"), search)


def staged_packages(search: Search, store: Store) -> Iterator[Leftover]:
    """Packages in buckets of this home that jobs of old were submitted with.

    Only what vtrain has named itself: a folder named by content, with a package in it that bears the name.
    """
    ended = store.ended_before(from_epoch(search.before))
    documents = (
        job_document(record, search.home / "jobs" / record.name.rpartition("/")[2]) for record in ended
    )
    buckets = (search.home / "buckets").resolve()
    folders = {folder for folder in package_folders(documents, search.home) if folder.is_relative_to(buckets)}
    yield from _unused((folder for folder in folders if _is_ours(folder)), search)


def _is_ours(folder: Path) -> bool:
    """Whether vtrain staged it, or began to remove it."""
    begun = folder.with_name(f"{GONE}{folder.name}")
    return any(any(place.glob(f"*-{folder.name[:16]}.tar.gz")) for place in (folder, begun))


def _unused(folders: Iterable[Path], search: Search) -> Iterator[Leftover]:
    times = {folder.resolve(): last_change(folder) for folder in folders if _CONTENT.fullmatch(folder.name)}
    living = living_jobs(search.home)
    for folder, used in sorted(times.items()):
        if search.is_unused(used):
            yield Leftover(
                id=folder.name,
                name=str(folder.relative_to(search.home.resolve())),
                kind="package",
                created=instant(used),
                size=byte_count(folder),
                kept="a job uses it" if folder in living.packages else "",
                discard=partial(refused, partial(withdraw_unused, folder, used)),
            )
