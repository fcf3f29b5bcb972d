"""One queue for this machine: memory and accelerators are leased in the store, processors are shared."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec

from vtrain.engine.capacity.claim import Claim
from vtrain.engine.capacity.leases import Admission as Admission
from vtrain.engine.capacity.leases import Waiting as Waiting
from vtrain.engine.capacity.leases import decide
from vtrain.engine.capacity.queue import LIVING, QUEUE, attend, read_queue
from vtrain.engine.folder import JobOrder
from vtrain.engine.store import Store


def enqueue(connection: sqlite3.Connection, name: str, claim: Claim) -> None:
    """Let the job wait from the transaction on that stores it, nothing for one that never waits.

    Its place is that of its submission, however late its supervisor asks.
    """
    if not claim.is_empty:
        connection.execute(_ENTER, (name, claim.memory_bytes))


def admit(store: Store, order: JobOrder) -> Admission | Waiting:
    """Lease what the job needs, all or nothing; asking again gives what it has already.

    The next in line is given a supervisor before this job leaves the line: one always waits.
    """
    claim = order.claim
    if claim.is_empty:
        return Admission()
    queue = read_queue(store.query(QUEUE))
    answer = decide(order.name, claim, queue)
    own = next((lease for lease in queue if lease.name == order.name), None)
    if own is None or (isinstance(answer, Admission) and not own.is_admitted):
        home = Path(order.home)
        attend(store, home, own=order.name, changed=True)
        answer = _lease(store, order.name, claim)
        attend(store, home, own=order.name, changed=True)
    return answer


def waiting_reason(store: Store, order: JobOrder) -> str:
    """Why the job waits, in a sentence; empty where it does not."""
    answer = decide(order.name, order.claim, read_queue(store.query(QUEUE)))
    return answer.reason if isinstance(answer, Waiting) else ""


def release(store: Store, name: str) -> None:
    """Give back what the job has leased."""
    if store.query("SELECT 1 FROM leases WHERE name = ?", (name,)):
        with store.transaction() as connection:
            connection.execute("DELETE FROM leases WHERE name = ?", (name,))


def _lease(store: Store, name: str, claim: Claim) -> Admission | Waiting:
    """Decide once more where nobody else can, and write it down."""
    with store.transaction() as connection:
        connection.execute(_FORGET)
        connection.execute(_ENTER, (name, claim.memory_bytes))
        answer = decide(name, claim, read_queue(connection.execute(QUEUE).fetchall()))
        if isinstance(answer, Admission):
            devices = msgspec.json.encode(answer.devices).decode()
            connection.execute(
                "UPDATE leases SET is_admitted = 1, devices = ? WHERE name = ?", (devices, name)
            )
    return answer


_ENTER = "INSERT OR IGNORE INTO leases (name, memory_bytes, is_admitted, devices) VALUES (?, ?, 0, '{}')"
_FORGET = (
    "DELETE FROM leases WHERE NOT EXISTS "
    f"(SELECT 1 FROM resources WHERE resources.name = leases.name AND {LIVING})"
)
