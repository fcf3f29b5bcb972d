"""What a local job's document tells beyond the API's fields: every attempt of every replica."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from vtrain.engine.folder import JobFolder, ReplicaExit
from vtrain.engine.history import History
from vtrain.engine.instants import from_epoch
from vtrain.engine.store import Record
from vtrain.errors import DamagedError
from vtrain.messages import states
from vtrain.messages.codec import from_document
from vtrain.messages.custom_job import CustomJob

FIELD = "replicas"


def stored_job(record: Record) -> CustomJob:
    """The job in the store, with its whole document as `answer`.

    Raises DamagedError for a document that is not the JSON of this job.
    """
    try:
        document = msgspec.json.decode(record.document, type=dict[str, Any])
        known = {name: value for name, value in document.items() if name != FIELD}
        job = msgspec.structs.replace(from_document(CustomJob, known), answer=document)
    except msgspec.DecodeError:
        raise _damaged(record, "it is not the JSON of a job") from None
    if job.name != record.name:
        raise _damaged(record, "it does not name this job")
    if job.state not in states.KNOWN:
        raise _damaged(record, "it has no state that a job can be in")
    if states.has_ended(record.state) and not states.has_ended(job.state):
        raise _damaged(record, f"the job has ended, and its state is {states.short(job.state)}")
    return job


def _damaged(record: Record, reason: str) -> DamagedError:
    return DamagedError(
        f"The entry of {record.name} in the store is damaged: {reason}.",
        hint=f"Its files are untouched. To remove it: vtrain custom-jobs delete {record.name}",
    )


def replica_records(folder: JobFolder, names: Iterable[str], history: History) -> list[dict[str, Any]]:
    """The replicas, the primary first, with their attempts, the first one first."""
    return [{"name": name, "attempts": list(_attempts(folder, name, history))} for name in names]


def _attempts(folder: JobFolder, name: str, history: History) -> Iterable[dict[str, Any]]:
    for number in range(history.attempt(name) + 1):
        end = folder.replica(name, number).exit()
        record: dict[str, Any] = {"attempt": number}
        if end is not None:
            record |= _end(end)
        if reason := history.reason_of(name, number):
            record["restartedBecause"] = reason
        yield record


def _end(end: ReplicaExit) -> dict[str, Any]:
    found: dict[str, Any] = {
        "exitCode": end.code,
        "startTime": from_epoch(end.started),
        "endTime": from_epoch(end.ended),
    }
    if end.peak_memory_bytes:
        found["peakMemoryBytes"] = end.peak_memory_bytes
    if end.cpu_seconds:
        found["cpuSeconds"] = round(end.cpu_seconds, 3)
    if end.oom:
        found["outOfMemory"] = True
    return found
