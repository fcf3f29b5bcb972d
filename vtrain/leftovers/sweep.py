"""All kinds of leftovers, in an order in which one does not keep the next."""

from __future__ import annotations

from collections.abc import Iterator

from vtrain.containers.engine import Engine
from vtrain.engine.database import has_store
from vtrain.engine.store import Store
from vtrain.leftovers.environments import cached_environments
from vtrain.leftovers.images import cached_images
from vtrain.leftovers.jobs import ended_jobs, lost_folders
from vtrain.leftovers.leftover import Leftover, Search
from vtrain.leftovers.orphans import orphans
from vtrain.leftovers.packages import packed_packages, staged_packages
from vtrain.leftovers.processes import stray_processes
from vtrain.leftovers.temporary import temporary_files


def on_engine(engine: Engine, search: Search, images_before: float) -> Iterator[Leftover]:
    """What is on a Docker engine; of images, those made before that time. Raises EngineError."""
    yield from orphans(engine, search)
    yield from cached_images(engine, search, images_before)


def on_machine(search: Search) -> Iterator[Leftover]:
    """What runs on this machine, or lies in vtrain's home. Raises StorageError."""
    yield from stray_processes(search)
    if has_store(search.home):
        store = Store.open(search.home)
        yield from staged_packages(search, store)  # known by the jobs, so before these
        yield from ended_jobs(search, store)
        yield from lost_folders(search, store)
    yield from packed_packages(search)
    yield from cached_environments(search)
    yield from temporary_files(search)
