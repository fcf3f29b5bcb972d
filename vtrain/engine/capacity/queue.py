"""The queue as it is stored, and a supervisor for each job in it that needs one.

A job that waits needs no process of its own: only the first in line has a supervisor, which waits and looks
after the jobs that run. Every change of the queue is followed by a call of `attend`.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from vtrain.engine.adoption import adopt, start_supervisor
from vtrain.engine.capacity.claim import Claim
from vtrain.engine.capacity.leases import Lease, next_in_line
from vtrain.engine.folder import DamagedFileError, JobFolder
from vtrain.engine.store import HAS_ENDED, Store
from vtrain.errors import VtrainError
from vtrain.messages import states
from vtrain.messages.names import parse_name

LIVING = f"NOT {HAS_ENDED}"
QUEUE = (
    "SELECT leases.name, leases.memory_bytes, leases.is_admitted, leases.devices FROM leases "
    f"CROSS JOIN resources USING (name) WHERE {LIVING} ORDER BY resources.rowid"
)
"""In the order of submission. What has ended, or was deleted, does not count, whoever removes its lease.

CROSS JOIN tells SQLite to begin with the leases: there are few of them, and any number of resources.
"""
_REQUESTED = (
    "SELECT DISTINCT requests.name FROM requests CROSS JOIN resources USING (name) "
    f"WHERE resources.state = {states.QUEUED!r}"
)


def read_queue(rows: list[tuple[str, ...]]) -> list[Lease]:
    """The rows that `QUEUE` finds, as values; a damaged row does not keep the others from being read."""
    return [_read(*row) for row in rows]


def _read(name: str, memory_bytes: str, is_admitted: str, devices: str) -> Lease:
    try:
        return Lease(
            name=name,
            memory_bytes=int(memory_bytes),
            is_admitted=bool(is_admitted),
            devices=msgspec.json.decode(devices, type=dict[str, tuple[str, ...]]),
        )
    except (TypeError, ValueError, msgspec.DecodeError):
        return Lease(name=name, is_admitted=True, is_damaged=True)


def due(store: Store, home: Path) -> list[str]:
    """The jobs of the queue that need a supervisor now.

    Those that hold a lease, those that may start, the first that has to wait, and those that wait no longer
    since somebody has asked for their end.
    """
    queue = read_queue(store.query(QUEUE))
    holders = [lease.name for lease in queue if lease.is_admitted]
    requested = [row[0] for row in store.query(_REQUESTED)]
    return list(dict.fromkeys([*holders, *next_in_line(queue, partial(_claim, home)), *requested]))


def attend(store: Store, home: Path, *, own: str = "", changed: bool = False) -> bool:
    """Start a supervisor for each job that needs one and has none; whether `own`, the caller's job, does.

    After a change of the queue those that have one are woken. A job that cannot be started any more ends
    here, so that one looks again for others.
    """
    names = due(store, home)
    needed, seen = own in names, {own}
    while names := [name for name in names if name not in seen]:
        for name in names:
            _attend_one(store, home, name, changed=changed)
        seen.update(names)
        names = due(store, home)
    return needed


def _attend_one(store: Store, home: Path, name: str, *, changed: bool) -> None:
    folder = job_folder(home, name)
    if not (changed and folder.wake()):
        with suppress(
            VtrainError, OSError
        ):  # one that cannot be started now is tried again by the next caller
            adopt(store, store.get(name), folder, start_supervisor, at_once=changed)


def _claim(home: Path, name: str) -> Claim | None:
    try:
        return job_folder(home, name).order().claim
    except (OSError, DamagedFileError):
        return None


def job_folder(home: Path, name: str) -> JobFolder:
    """The folder of a job that the store has."""
    parsed = parse_name(name)
    return JobFolder(home / "jobs" / (parsed.id if parsed else name))
