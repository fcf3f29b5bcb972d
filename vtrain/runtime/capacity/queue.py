"""One queue for this machine, as it is stored: memory and accelerators are leased, processors are shared.

A job that waits needs no process of its own: only the first in line has a supervisor, which waits and looks
after the jobs that run. Every change of the queue is followed by a call of `attend`.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from vtrain.errors import NotFoundError, VtrainError
from vtrain.messages import states
from vtrain.runtime.adoption import Start, adopt
from vtrain.runtime.capacity.leases import Admitted, Claim, Lease, Waiting, decide, next_in_line
from vtrain.runtime.folder import DamagedFileError, JobFolder
from vtrain.runtime.home import Home
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.store import HAS_ENDED, Record, Store

LIVING = f"NOT {HAS_ENDED}"
QUEUE = (
    "SELECT leases.name, leases.memory_bytes, leases.is_admitted, leases.devices, leases.line, leases.slots "
    "FROM leases "
    f"CROSS JOIN resources USING (name) WHERE {LIVING} ORDER BY resources.rowid"
)
"""The leases in the order of submission, without those that ended or deleted jobs may have left.

CROSS JOIN tells SQLite to begin with the leases: there are few of them, and any number of resources.
"""
_REQUESTED = (
    "SELECT DISTINCT requests.name FROM requests CROSS JOIN resources USING (name) "
    f"WHERE resources.state = {states.QUEUED!r}"
)
_ENTER = (
    "INSERT OR IGNORE INTO leases (name, memory_bytes, is_admitted, devices, line, slots) "
    "VALUES (?, ?, 0, '{}', ?, ?)"
)
_FORGET = (
    "DELETE FROM leases WHERE NOT EXISTS "
    f"(SELECT 1 FROM resources WHERE resources.name = leases.name AND {LIVING})"
)


def read_queue(store: Store) -> list[Lease]:
    """The leases that `QUEUE` finds; a damaged row does not keep the others from being read.

    In a copy of a home those of the original's jobs count for nothing.
    """
    leases = [_read(*row) for row in store.execute(QUEUE)]
    return [lease for lease in leases if Home(store.home).job(lease.name).original is None]


def _read(name: str, memory_bytes: str, is_admitted: str, devices: str, line: str, slots: str) -> Lease:
    try:
        return Lease(
            name=name,
            memory_bytes=int(memory_bytes),
            is_admitted=bool(is_admitted),
            devices=msgspec.json.decode(devices, type=dict[str, tuple[str, ...]]),
            line=line,
            slots=msgspec.json.decode(slots, type=dict[str, int]),
        )
    except (TypeError, ValueError, msgspec.DecodeError):
        return Lease(name=name, is_admitted=True, line=str(line), is_damaged=True)


def due(store: Store) -> list[str]:
    """The jobs of the queue that need a supervisor now.

    Those that hold a lease, those that may start, the first that has to wait, and those that wait no longer
    since somebody has asked for their end.
    """
    queue = read_queue(store)
    holders = [lease.name for lease in queue if lease.is_admitted]
    requested = [row[0] for row in store.execute(_REQUESTED)]
    return list(dict.fromkeys([*holders, *next_in_line(queue, partial(_claim, store.home)), *requested]))


def attend(store: Store, start: Start, *, own: str = "", changed: bool = False) -> bool:
    """Start a supervisor for each job that needs one and has none. True if the caller's job, `own`, does.

    After a change of the queue the supervisors of the others are woken. A job that cannot be started any more
    ends here, so the queue is read again.
    """
    names = due(store)
    needed, seen = own in names, {own}
    while names := [name for name in names if name not in seen]:
        for name in names:
            folder = Home(store.home).job(name)
            if not (changed and folder.wake()):
                with suppress(VtrainError, OSError):  # the next caller tries again
                    adopt(store, store.get(name), folder, start, at_once=changed)
        seen.update(names)
        names = due(store)
    return needed


def look_after(store: Store, start: Start, record: Record, *, at_once: bool = False) -> None:
    """Start another supervisor where a job goes on without one, and is not only waiting for its turn."""
    if states.has_ended(record.state):
        return
    folder = Home(store.home).job(record.name)
    if record.state == states.QUEUED and folder.path.exists() and not at_once:
        attend(store, start)
        return
    adopt(store, record, folder, start, at_once=at_once)


def _claim(home: Path, name: str) -> Claim | None:
    try:
        return Home(home).job(name).order().claim
    except (OSError, DamagedFileError):
        return None


def enqueue(connection: sqlite3.Connection, name: str, claim: Claim) -> None:
    """Let the job wait from the transaction on that stores it, nothing for one that never waits.

    Its place is that of its submission, however late its supervisor asks.
    """
    if not claim.is_empty:
        connection.execute(_ENTER, _entry(name, claim))


def _entry(name: str, claim: Claim) -> tuple[str, int, str, str]:
    return name, claim.memory_bytes, claim.line, msgspec.json.encode(claim.slots).decode()


def admit(store: Store, start: Start, order: JobOrder) -> Admitted | Waiting:
    """Lease what the job needs, all or nothing; asking again gives what it has already.

    The next in line is given a supervisor before this job leaves the line: one always waits.
    """
    claim = order.claim
    if claim.is_empty:
        return Admitted()
    queue = read_queue(store)
    answer = decide(order.name, claim, queue)
    own = next((lease for lease in queue if lease.name == order.name), None)
    if own is None or (isinstance(answer, Admitted) and not own.is_admitted):
        attend(store, start, own=order.name, changed=True)
        answer = _lease(store, order.name, claim)
        attend(store, start, own=order.name, changed=True)
    return answer


def waiting_reason(store: Store, order: JobOrder) -> str:
    """Why the job waits, in a sentence; empty where it does not."""
    answer = decide(order.name, order.claim, read_queue(store))
    return answer.reason if isinstance(answer, Waiting) else ""


def release(store: Store, name: str) -> None:
    """Give back what the job has leased."""
    if store.execute("SELECT 1 FROM leases WHERE name = ?", (name,)):
        with store.transaction() as connection:
            connection.execute("DELETE FROM leases WHERE name = ?", (name,))


def _lease(store: Store, name: str, claim: Claim) -> Admitted | Waiting:
    """Decide once more where nobody else can, and write it down."""
    with store.transaction() as connection:
        connection.execute(_FORGET)
        connection.execute(_ENTER, _entry(name, claim))
        answer = decide(name, claim, read_queue(store))
        if isinstance(answer, Admitted):
            devices = msgspec.json.encode(answer.devices).decode()
            connection.execute(
                "UPDATE leases SET is_admitted = 1, devices = ? WHERE name = ?", (devices, name)
            )
    return answer


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
