"""What has happened to a job's replicas, on disk before anything is done about it: `jobs/ID/history.json`."""

from __future__ import annotations

import msgspec

from vtrain.engine.folder import JobFolder, ReplicaFolder, read_struct, write_struct
from vtrain.engine.recovery import Restart, attempt_of


class Preempted(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempt lost its machine, and when, in seconds since the epoch."""

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

    def is_preempted(self, replica: ReplicaFolder) -> bool:
        """Whether this attempt lost its machine."""
        lost = self.preempted
        return lost is not None and (lost.replica, lost.attempt) == (replica.name, replica.attempt)


def read_history(folder: JobFolder) -> History:
    """What is known of the job's replicas."""
    return read_struct(folder.path / "history.json", History) or History()


def write_history(folder: JobFolder, history: History) -> None:
    """Keep it, in one piece."""
    write_struct(folder.path / "history.json", history)
