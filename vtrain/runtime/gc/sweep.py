"""Everything that may be removed from this machine and its home, and the space that each kind takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from vtrain.runtime.database import has_store
from vtrain.runtime.default_output import default_outputs
from vtrain.runtime.gc.caches import (
    cached_environments,
    environment_folders,
    packed_packages,
    staged_packages,
)
from vtrain.runtime.gc.candidate import OUTPUT, Candidate, Search, Usage, byte_count
from vtrain.runtime.gc.jobs import ended_jobs, lost_folders, orphaned_processes
from vtrain.runtime.gc.outputs import old_outputs
from vtrain.runtime.gc.temporary import temporary_files
from vtrain.runtime.home import Home
from vtrain.runtime.store import Store


def on_machine(search: Search) -> Iterator[Candidate]:
    """Candidates on this machine and in vtrain's home, in an order in which nothing keeps the next.

    Raises StorageError.
    """
    if search.wants("process", "cgroup"):
        yield from orphaned_processes(search)
    if search.wants("package", "job") and has_store(search.home):
        yield from _of_jobs(search, Store.open(search.home))
    if search.wants("package"):
        yield from packed_packages(search)
    if search.wants("environment"):
        yield from cached_environments(search)
    if search.wants("temporary"):
        yield from temporary_files(search)
    if search.wants(OUTPUT):
        yield from old_outputs(search)


def _of_jobs(search: Search, store: Store) -> Iterator[Candidate]:
    """Candidates that the store knows."""
    if search.wants("package"):
        yield from staged_packages(search, store)  # known by the jobs, so before these
    if search.wants("job"):
        yield from ended_jobs(search, store)
        yield from lost_folders(search)


def usage_of_home(home: Path) -> Iterator[Usage]:
    """The space that a home takes, by kind. Reads the sizes of all files there."""
    place = Home(home)
    yield _usage("environment", environment_folders(place.environments))
    yield _usage("package", place.packages.glob("[!.]*"))
    yield _usage("job", place.job_folders())
    yield _usage(OUTPUT, default_outputs(home))


def _usage(noun: str, paths: Iterable[Path]) -> Usage:
    sizes = [byte_count(path) for path in paths]
    return Usage(noun=noun, kinds=(noun,), count=len(sizes), size=sum(sizes))
