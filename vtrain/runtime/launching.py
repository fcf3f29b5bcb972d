"""The interface between the supervisor and a backend that starts and stops replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import msgspec

from vtrain.errors import EngineAwayError, VtrainError
from vtrain.runtime.environments.layers import ToolKilled
from vtrain.runtime.folder import JobFolder, ReplicaFolder
from vtrain.runtime.job_order import JobOrder

Log = Callable[[bytes], object]


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The environment or the image that a pool's replicas run in.

    `python` is the interpreter, and `path_entries` come first on PATH. `image` is that of a container. `site`
    is a folder of this machine with the trainer's code, unless that is in the environment itself. `required`
    is the interpreter of a layer with the required packages, which jobs share; empty if there is none.
    """

    python: str = ""
    path_entries: tuple[str, ...] = ()
    image: str = ""
    site: str = ""
    required: str = ""


class PrepareFailed(Exception):
    """The environments of the replicas could not be made. `hint` says what to do about it.

    `is_transient` says that another try may succeed, because an engine or a server does not answer now.
    """

    def __init__(self, message: str, hint: str = "", *, is_transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.is_transient = is_transient


@contextmanager
def preparing() -> Iterator[None]:
    """Turn errors of vtrain into PrepareFailed: no replica runs yet. ToolKilled stays as it is."""
    try:
        yield
    except ToolKilled:
        raise
    except VtrainError as error:
        is_transient = isinstance(error, EngineAwayError)
        raise PrepareFailed(error.message, error.hint, is_transient=is_transient) from error


PREPARATION = "preparation.json"
"""The file in a job's folder in which the program that prepares it stores its result."""


class Preparation(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a preparation: the runtime of each pool, or why there are none, as in PrepareFailed."""

    runtimes: tuple[Runtime, ...] = ()
    failure: str = ""
    hint: str = ""
    is_transient: bool = False


class Launcher(Protocol):
    """Starts and stops replicas. All that matters is in files, so that another process can go on."""

    opens_work: bool
    """Whether replicas may run as another user, so that their working directories must be open to all."""

    def ready(self, order: JobOrder, log: Log) -> tuple[Runtime, ...] | None:
        """What each worker pool needs, if no tool has to run for it; else None. Raises PrepareFailed.

        Nothing has to be downloaded, built or installed then: at most the trainer's own code is unpacked.
        """

    def replica_orders(
        self,
        order: JobOrder,
        folder: JobFolder,
        runtimes: tuple[Runtime, ...],
        devices: Mapping[str, tuple[str, ...]],
    ) -> Mapping[str, msgspec.Struct]:
        """The orders that `start` will read: how each replica is run, the primary first.

        They hold for all attempts: a later one has the order of the first, with its own `attempt`.
        `devices` are the UUIDs of the accelerators that each replica has for itself. A replica without an
        entry has none.
        """

    def start(self, replica: ReplicaFolder) -> None:
        """Start an ordered replica. If a previous supervisor started it, watch it."""

    def lives(self, replica: ReplicaFolder) -> bool:
        """Whether a shim or a thread watches the replica."""

    def outlived(self, replica: ReplicaFolder, moment: float) -> bool:
        """Whether a replica without a stored exit is known to have run at `moment`, in epoch seconds."""

    def stop(self, replica: ReplicaFolder) -> None:
        """Ask the replica to end: SIGTERM, and SIGKILL after the grace period."""

    def kill(self, replicas: Sequence[ReplicaFolder]) -> Mapping[ReplicaFolder, str]:
        """End what is left of the replicas now, all at the same time, and wait for that some seconds.

        Returns a sentence for each of those whose last output may be lost.
        """

    def clear(self, order: JobOrder) -> str:
        """Remove what the job has outside its folder. Return a sentence on what could not be removed."""
