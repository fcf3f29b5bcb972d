"""Jobs that ended long ago, and folders of jobs that no store knows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from vtrain.atomic import remove_folder
from vtrain.engine.deletion import delete_job
from vtrain.engine.folder import JobFolder, hold_lock
from vtrain.engine.instants import from_epoch
from vtrain.engine.store import Record, Store
from vtrain.errors import StorageError
from vtrain.leftovers.leftover import Leftover, Search, instant
from vtrain.leftovers.space import byte_count, last_change, refused
from vtrain.messages.names import CUSTOM_JOBS, parse_name


def ended_jobs(search: Search, store: Store) -> Iterator[Leftover]:
    """Jobs that ended before the search's time, the earliest first."""
    for record in store.ended_before(from_epoch(search.before)):
        name = parse_name(record.name)
        if name is not None:
            folder = JobFolder(search.home / "jobs" / name.id)
            yield Leftover(
                id=name.id,
                name=record.name,
                kind="job",
                created=record.create_time,
                size=byte_count(folder.path),
                discard=partial(_delete, store, record, folder),
            )


def lost_folders(search: Search, store: Store) -> Iterator[Leftover]:
    """Folders of jobs that are in no store: their command was killed before it had submitted them."""
    folders = sorted(path for path in (search.home / "jobs").glob("[!.]*") if path.is_dir())
    known = store.ids(CUSTOM_JOBS)
    for path in folders:
        if path.name not in known and search.is_stale(changed := last_change(path)):
            yield Leftover(
                id=path.name,
                name=f"jobs/{path.name}",
                kind="job",
                created=instant(changed),
                size=byte_count(path),
                discard=partial(_remove_lost, path),
            )


def _delete(store: Store, record: Record, folder: JobFolder) -> str:
    try:
        delete_job(store, record.name, folder)
    except StorageError as error:
        return error.message
    return ""


def _remove_lost(path: Path) -> str:
    try:
        lock = hold_lock(path / "lock")
    except FileNotFoundError:
        return ""
    if lock is None:
        return "a supervisor has it"
    try:
        return refused(partial(_remove, path))
    finally:
        os.close(lock)


def _remove(path: Path) -> str:
    remove_folder(path)
    return ""
