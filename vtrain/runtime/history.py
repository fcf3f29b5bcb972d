"""The attempts of a job's replicas: on disk before anything is done about them, and in the job's document.

The file is `jobs/ID/history.json`; the document has a field `replicas` beyond those of the API.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.errors import DamagedError
from vtrain.messages import states
from vtrain.messages.codec import from_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.names import CUSTOM_JOBS, GROUPS
from vtrain.runtime.folder import JobFolder, ReplicaExit, ReplicaFolder, read_struct, write_struct
from vtrain.runtime.recovery import Restart, attempt_of
from vtrain.runtime.store import Record
from vtrain.times import from_epoch

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

FIELD = "replicas"
STUDY_FIELD = "study"
PARENT_FIELD = "trainingPipeline"
"""The pipeline whose task a job is."""
MODEL_FIELD = "model"
"""The version of a model that was made of what a job has left."""
OWN_FIELDS = (FIELD, STUDY_FIELD, PARENT_FIELD, MODEL_FIELD)
"""Fields of a stored document beyond those of the API."""


class Preempted(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt that lost its machine, and the time, in seconds since the epoch."""

    replica: str
    attempt: int
    time: float


class History(msgspec.Struct, frozen=True, kw_only=True):
    """`running_since` is the time by `boot_seconds` at which all replicas first ran; 0 before that."""

    restarts: tuple[Restart, ...] = ()
    preempted: Preempted | None = None
    running_since: float = 0.0

    def attempt(self, replica: str) -> int:
        """The number of the replica's present attempt."""
        return attempt_of(replica, self.restarts)

    def reason_of(self, replica: str, attempt: int) -> str:
        """Why that attempt was followed by another one; empty where it was not."""
        reasons = [restart.reason for restart in self.restarts if replica in restart.replicas]
        return reasons[attempt] if attempt < len(reasons) else ""

    def preempted_at(self, replica: ReplicaFolder) -> float | None:
        """When this attempt lost its machine, in seconds since the epoch; None where it did not."""
        lost = self.preempted
        is_lost = lost is not None and (lost.replica, lost.attempt) == (replica.name, replica.attempt)
        return lost.time if lost is not None and is_lost else None


def read_history(folder: JobFolder) -> History:
    """The history as far as it was written; empty where none was."""
    return read_struct(folder.path / "history.json", History) or History()


def write_history(folder: JobFolder, history: History) -> None:
    """Write the history atomically."""
    write_struct(folder.path / "history.json", history)


def stored_job(record: Record) -> Job:
    """The job in the store, of the kind that its collection says, with its whole document as `answer`.

    Raises DamagedError for a document that is not the JSON of this job.
    """
    try:
        document = msgspec.json.decode(record.document, type=dict[str, Any])
        known = {name: value for name, value in document.items() if name not in OWN_FIELDS}
        job = msgspec.structs.replace(from_document(_message(record.collection), known), answer=document)
    except msgspec.DecodeError:
        raise _damaged(record, "it is not the JSON of a job") from None
    if job.name != record.name:
        raise _damaged(record, "it does not name this job")
    if states.job_state(job.state) not in states.KNOWN:
        raise _damaged(record, "it has no state that a job can be in")
    if states.has_ended(record.state) and not states.has_ended(job.state):
        raise _damaged(record, f"the job has ended, and its state is {states.short(job.state)}")
    return job


def _message(collection: str) -> type[Job]:
    if collection == CUSTOM_JOBS:
        return CustomJob
    from vtrain.messages.resources import JOBS  # most commands see custom jobs only, and this takes long

    return JOBS[collection]


def _damaged(record: Record, reason: str) -> DamagedError:
    group = GROUPS.get(record.collection, GROUPS[CUSTOM_JOBS])
    return DamagedError(
        f"The entry of {record.name} in the store is damaged: {reason}.",
        hint=f"Its files are untouched. To remove it: vtrain {group} delete {record.name}",
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
