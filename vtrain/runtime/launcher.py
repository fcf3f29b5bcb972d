"""The interface by which the supervisor runs replicas, as processes or as containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from vtrain.runtime.folder import JobFolder, ReplicaFolder
from vtrain.runtime.job_order import JobOrder

Log = Callable[[bytes], None]


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The environment or image that a pool's replicas run in, ready to be used.

    `python` is the interpreter, `path_entries` come first on PATH. A container is made of `image`. The code
    is in the folder `site` of this machine, where it is not in the environment itself. `required` is the
    interpreter of what the packages require, which other jobs share; empty: there is no such layer.
    """

    python: str = ""
    path_entries: tuple[str, ...] = ()
    image: str = ""
    site: str = ""
    required: str = ""


class PrepareFailed(Exception):
    """The environments of the replicas could not be made. `hint` says what to do about it.

    With `is_transient` another try may go well: what was asked does not answer now.
    """

    def __init__(self, message: str, hint: str = "", *, is_transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.is_transient = is_transient


class Launcher(Protocol):
    """Starts and stops replicas. Any process may go on where another died: files hold all that matters."""

    name: str
    opens_work: bool
    """Whether replicas may run as another user, who is let write to their working directories."""

    def needs_preparation(self, order: JobOrder) -> bool:
        """Whether `prepare` may take longer than an instant."""

    def prepare(self, order: JobOrder, log: Log) -> tuple[Runtime, ...]:
        """Make what each worker pool needs; what tools say goes to `log`. Raises PrepareFailed."""

    def begin(self, order: JobOrder) -> None:
        """Make what needs no preparation, while that is under way in another process."""

    def replica_orders(
        self,
        order: JobOrder,
        folder: JobFolder,
        runtimes: tuple[Runtime, ...],
        devices: Mapping[str, tuple[str, ...]],
    ) -> Mapping[str, msgspec.Struct]:
        """How each replica is run, the primary first; what `start` reads again.

        `devices` are the accelerators that each replica has for itself, by UUID; a replica that is not among
        them has none.
        """

    def another_order(self, attempt: ReplicaFolder) -> msgspec.Struct:
        """How a replica is run once more: as at its first attempt, in the folder of this one."""

    def start(self, replica: ReplicaFolder) -> None:
        """Start an ordered replica; where it was started before, watch over it unless somebody does."""

    def lives(self, replica: ReplicaFolder) -> bool:
        """Whether anything watches over the replica."""

    def outlived(self, replica: ReplicaFolder, moment: float) -> bool:
        """Whether a replica without an exit is known to have run at that time (seconds since the epoch)."""

    def stop(self, replica: ReplicaFolder) -> None:
        """Ask the replica to end: SIGTERM, and SIGKILL after the grace period."""

    def kill(self, replica: ReplicaFolder) -> None:
        """End whatever is left of the replica now."""

    def salvage(self, replica: ReplicaFolder) -> str:
        """Store what a replica wrote that nothing watches over any more; why a part may be lost, in words."""

    def clear(self, order: JobOrder) -> str:
        """Remove what was made for the job outside its folder; a sentence on what could not be removed."""

    def close(self) -> None:
        """Once the job has ended: finish what is for later jobs."""
