"""Starts another supervisor for a job whose supervisor died. A held lock shows that one lives."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from vtrain.errors import DamagedError, HomeError, StorageError, UnavailableError
from vtrain.messages import states
from vtrain.messages.codec import to_document
from vtrain.runtime.database import storage_errors
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.history import stored_job
from vtrain.runtime.locks import closed_on_error, hold_lock, lock_holder
from vtrain.runtime.process.process_tree import identify, signal_all
from vtrain.runtime.spawning import check_files
from vtrain.runtime.store import Record, Store
from vtrain.runtime.supervisor_process import reap
from vtrain.times import timestamp

RESPAWN_SECONDS = 1.0
"""The shortest time between two starts of a supervisor that dies at once, for example of a full disk."""
PROBE_BYTES = 64 * 1024
"""The room that a supervisor needs to end a job: rows, the last lines of a log, the verdict."""
Start = Callable[[JobFolder, int], None]
"""Starts the supervisor of a job, which holds the lock with this descriptor from then on."""


def adopt(store: Store, record: Record, folder: JobFolder, start: Start, *, at_once: bool = False) -> None:
    """Start a supervisor for a job that has not ended and has none, unless the store is read-only.

    `at_once` starts one even if another was started a moment ago. Raises StorageError if a supervisor could
    not write, HomeError in a copy of the job's home, and NotFoundError for a job that was deleted meanwhile.
    """
    reap()
    if states.has_ended(record.state) or store.read_only:
        return
    if not folder.path.exists():
        if folder.home.exists():  # else the home was moved; a command that opens it there ends the job
            _bury(store, record, folder)
        return
    check_own(folder)
    if not at_once and abs(time.time() - _modified(folder.lock)) < RESPAWN_SECONDS:
        return
    with storage_errors(folder.home):
        try:
            lock = hold_lock(folder.lock)
        except FileNotFoundError:  # the job has ended, and another command deletes it
            return
    if lock is None:
        return
    with closed_on_error(lock):
        if states.has_ended(store.get(record.name).state):
            os.close(lock)
            return
        with storage_errors(folder.home):
            _check_writable(folder.path)
        if folder.other_home is not None or not folder.is_readable():
            _stop_replicas(folder)
            _bury(store, record, folder)
            os.close(lock)
            return
        _check_files(folder)
    start(folder, lock)
    with suppress(FileNotFoundError):  # the job has ended, and another command deletes it
        os.utime(folder.lock)


def check_own(folder: JobFolder) -> None:
    """Raise HomeError for a job that another home runs, of which this one is a copy: a backup, say.

    All paths in its order lead to the original. So a supervisor for it would work there, beside the one that
    the job has.
    """
    original = folder.original
    if original is not None:
        home = JobFolder(original).home
        raise HomeError(
            f"{folder.home} is a copy of the home {home}: "
            "jobs that had not ended when it was made go on there, and are only read here.",
            hint=f"Set VTRAIN_HOME={home}",
        )


def _stop_replicas(folder: JobFolder) -> None:
    """Ask the shims of a job to end their replicas, because no supervisor can."""
    for lock in folder.path.glob("replicas/**/lock"):
        shim = lock_holder(lock)
        if shim > 0:
            signal_all({identify(shim)}, signal.SIGTERM)


def _bury(store: Store, record: Record, folder: JobFolder) -> None:
    """Store the failure of a job that no supervisor can end: its folder is gone, was moved, or is damaged.

    The jobs that it runs are asked to end: nobody else looks after them.
    """
    from vtrain.runtime import job_error

    record = store.get(record.name)
    if states.has_ended(record.state):
        return  # another command deletes it
    for child in store.children(record.name):
        store.request(child, "cancel")
    if (home := folder.other_home) is not None:
        error = job_error.home_moved(folder, home)
    else:
        error = job_error.file_damaged(folder, folder.path / "spec.json")
    now = timestamp()
    document = _known_document(record, folder) | {
        "state": states.state_in(record.collection, states.FAILED),
        "error": to_document(error),
        "endTime": now,
        "updateTime": now,
    }
    text = msgspec.json.encode(document).decode()
    store.update(record.name, state=states.FAILED, end_time=now, document=text)


def _known_document(record: Record, folder: JobFolder) -> dict[str, Any]:
    """The job's document from the store, else from its folder, else with nothing but its name."""
    try:
        return stored_job(record).answer or {}
    except DamagedError:
        if folder.is_readable():
            return folder.order().document
        return {"name": record.name, "createTime": record.create_time}


def _check_files(folder: JobFolder) -> None:
    """Raise StorageError if a supervisor may not have all files open that the job's replicas need."""
    order = folder.order()
    try:
        check_files(0 if order.is_parent else order.files)
    except UnavailableError as error:
        raise StorageError(error.message, hint=error.hint) from error


def _check_writable(folder: Path) -> None:
    """Raise OSError if a supervisor could not write. It would end at once without a message."""
    probe = folder / "probe"
    try:
        probe.write_bytes(b"x" * PROBE_BYTES)
    finally:
        probe.unlink(missing_ok=True)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
