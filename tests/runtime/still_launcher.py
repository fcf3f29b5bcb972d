"""A launcher without processes: real folders and files, and ends at the moments that a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from vtrain.backends import PREPARE, SUPERVISE
from vtrain.runtime.folder import JobFolder, ReplicaExit, ReplicaFolder, write_struct
from vtrain.runtime.job_order import JobOrder, ReplicaOrder
from vtrain.runtime.launching import Launcher, Log, Runtime
from vtrain.runtime.replica.vertex_view import replica_ids
from vtrain.runtime.supervision import base
from vtrain.runtime.supervision.job_supervisor import JobSupervisor

Stopped = Callable[["StillLauncher", ReplicaFolder], None]


class Death(BaseException):
    """SIGKILL to the supervisor: nothing is written after it."""


class StillLauncher:
    """Replicas that run until they are given an exit. `on_stop` is called when one is asked to end.

    `patience` is how often it may be asked whether a replica lives, before the supervisor dies; it dies, too,
    once the attempt `last` was started.
    """

    opens_work = False

    def __init__(
        self,
        *,
        on_stop: Stopped | None = None,
        patience: int = 10_000,
        last: tuple[str, int] | None = None,
    ) -> None:
        self.started: list[tuple[str, int]] = []
        self.stopped: list[tuple[str, int]] = []
        self.killed: list[tuple[str, int]] = []
        self.living: set[ReplicaFolder] = set()
        self.patience = patience
        self.last = last
        self.on_stop = on_stop

    def ready(self, order: JobOrder, log: Log) -> tuple[Runtime, ...]:
        return tuple(Runtime() for _ in order.job.job_spec.worker_pool_specs)

    def replica_orders(
        self,
        order: JobOrder,
        folder: JobFolder,
        runtimes: tuple[Runtime, ...],
        devices: Mapping[str, tuple[str, ...]],
    ) -> dict[str, ReplicaOrder]:
        return {
            member.name: order_of(folder.replica(member.name)) for member in replica_ids(order.job.job_spec)
        }

    def start(self, replica: ReplicaFolder) -> None:
        self.started.append((replica.name, replica.attempt))
        self.living.add(replica)
        (replica.path / "started.json").write_text("{}")
        if (replica.name, replica.attempt) == self.last:
            self.patience = 0

    def lives(self, replica: ReplicaFolder) -> bool:
        self.patience -= 1
        if self.patience < 0:
            raise Death
        return replica in self.living and replica.exit() is None

    def outlived(self, replica: ReplicaFolder, moment: float) -> bool:
        return True

    def stop(self, replica: ReplicaFolder) -> None:
        self.stopped.append((replica.name, replica.attempt))
        if self.on_stop is not None:
            self.on_stop(self, replica)

    def kill(self, replicas: Sequence[ReplicaFolder]) -> dict[ReplicaFolder, str]:
        self.killed += [(replica.name, replica.attempt) for replica in replicas]
        self.living.difference_update(replicas)
        return {}

    def clear(self, order: JobOrder) -> str:
        return ""


def supervise(path: Path, launcher: Launcher, lock: int) -> None:
    """Bring the job in a folder to its end, with a launcher of the test's own."""
    base.supervise(
        JobFolder(path), lock, SUPERVISE, partial(JobSupervisor, launcher=launcher, prepare=PREPARE)
    )


def end(replica: ReplicaFolder, code: int, ended: float = 2.0, **fields: object) -> None:
    """Let a replica have ended."""
    told = ReplicaExit(code=code, started=1.0, ended=ended, **fields)  # type: ignore[arg-type]
    write_struct(replica.path / "exit.json", told)


def order_of(replica: ReplicaFolder) -> ReplicaOrder:
    log = str(replica.job.logs / replica.name)
    return ReplicaOrder(argv=("true",), env={}, log=log, wake=log, grace_seconds=0.1)
