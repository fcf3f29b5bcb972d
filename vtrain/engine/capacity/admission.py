"""One queue for this machine: memory and accelerators are leased in the store, processors are shared."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec

from vtrain.engine.adoption import keep_alive
from vtrain.engine.capacity.claim import Claim
from vtrain.engine.capacity.leases import Admission as Admission
from vtrain.engine.capacity.leases import Lease, decide
from vtrain.engine.capacity.leases import Waiting as Waiting
from vtrain.engine.folder import JobOrder
from vtrain.engine.store import Store
from vtrain.messages import states

_ENDED = ", ".join(f"'{state}'" for state in sorted(states.ENDED))
_QUEUE = (
    "SELECT leases.name, leases.memory_bytes, leases.is_admitted, leases.devices FROM leases "
    f"JOIN resources USING (name) WHERE resources.state NOT IN ({_ENDED}) ORDER BY resources.rowid"
)
"""In the order of submission. What has ended, or was deleted, does not count, whoever removes its lease."""


def enqueue(connection: sqlite3.Connection, name: str, claim: Claim) -> None:
    """Let the job wait from the transaction on that stores it, nothing for one that never waits.

    Its place is that of its submission, however late its supervisor asks.
    """
    if not claim.is_empty:
        connection.execute(_ENTER, (name, claim.memory_bytes))


def admit(store: Store, order: JobOrder) -> Admission | Waiting:
    """Lease what the job needs, all or nothing; asking again gives what it has already.

    While the job waits, those on whom it waits are looked after: one without a supervisor gets another.
    """
    claim = order.claim
    if claim.is_empty:
        return Admission()
    queue = _read(store.query(_QUEUE))
    answer = decide(order.name, claim, queue)
    own = next((lease for lease in queue if lease.name == order.name), None)
    if own is None or (isinstance(answer, Admission) and not own.is_admitted):
        answer = _lease(store, order.name, claim)
    if isinstance(answer, Waiting):
        keep_alive(store, Path(order.home), answer.others)
    return answer


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
        answer = decide(name, claim, _read(connection.execute(_QUEUE).fetchall()))
        if isinstance(answer, Admission):
            devices = msgspec.json.encode(answer.devices).decode()
            connection.execute(
                "UPDATE leases SET is_admitted = 1, devices = ? WHERE name = ?", (devices, name)
            )
    return answer


def _read(rows: list[tuple[str, ...]]) -> list[Lease]:
    return [
        Lease(
            name=name,
            memory_bytes=int(memory_bytes),
            is_admitted=bool(is_admitted),
            devices=msgspec.json.decode(devices, type=dict[str, tuple[str, ...]]),
        )
        for name, memory_bytes, is_admitted, devices in rows
    ]


_ENTER = "INSERT OR IGNORE INTO leases (name, memory_bytes, is_admitted, devices) VALUES (?, ?, 0, '{}')"
_FORGET = f"DELETE FROM leases WHERE name NOT IN (SELECT name FROM resources WHERE state NOT IN ({_ENDED}))"
