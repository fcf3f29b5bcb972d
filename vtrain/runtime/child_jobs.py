"""The jobs that a parent runs: the trials of a study, the task of a training pipeline."""

from __future__ import annotations

from contextlib import suppress

from vtrain.errors import NotFoundError
from vtrain.messages import states
from vtrain.runtime.adoption import Start
from vtrain.runtime.capacity.queue import look_after
from vtrain.runtime.folder import DamagedFileError, JobFolder
from vtrain.runtime.home import Home
from vtrain.runtime.store import Store


def is_living(store: Store, start: Start, name: str) -> bool:
    """Whether a job is there and has not ended; it gets another supervisor where it has none."""
    try:
        row = store.get(name)
    except NotFoundError:
        return False
    look_after(store, start, row)
    return not states.has_ended(row.state)


def request_end(store: Store, start: Start, name: str, verb: str) -> None:
    """Ask a job to end (`cancel`, `kill`); nothing for one that was deleted."""
    with suppress(NotFoundError):
        store.request(name, verb)
        if not Home(store.home).job(name).wake():
            look_after(store, start, store.get(name), at_once=True)


def wake_parent(folder: JobFolder, store: Store, start: Start) -> None:
    """Let the parent of a job that has ended go on: by its supervisor, or by another where that has died."""
    try:
        order = folder.order()
    except DamagedFileError:
        return
    parent = order.parent
    if parent and not Home(store.home).job(parent).wake():
        with suppress(NotFoundError):  # it was deleted
            look_after(store, start, store.get(parent), at_once=True)
