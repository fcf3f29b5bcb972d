"""What a local job's document tells beyond the API's fields: every attempt of every replica."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vtrain.engine.folder import JobFolder, ReplicaExit
from vtrain.engine.history import History
from vtrain.engine.instants import from_epoch

FIELD = "replicas"


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
