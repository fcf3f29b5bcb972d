"""Everything before the first replica starts: the queue, the preparation, the order of every replica."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from vtrain.retry import retry, steady
from vtrain.runtime.capacity.queue import Waiting, admit, attend
from vtrain.runtime.folder import DamagedFileError, JobFolder, read_struct, write_struct
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.launcher import Launcher, PrepareFailed, Runtime
from vtrain.runtime.preparation import Preparation
from vtrain.runtime.replica import replica_ids
from vtrain.runtime.service_log import PREPARING, STARTING, ServiceLog
from vtrain.runtime.store import Store
from vtrain.runtime.working_folder import fill

PREPARATION_PATIENCE_SECONDS = 60.0
"""How long a preparation is tried again while what it needs (an engine) does not answer."""

Pause = Callable[..., None]
"""Sleep until something happens, also on further descriptors; raises where the job's end was asked for."""


class NotFirstInQueue(Exception):
    """The job waits in the queue, and needs no process for that: a change of the queue starts another."""


class Provisioning:
    """One job on its way to its first replica. `pause` sleeps, and may raise to end it all."""

    def __init__(
        self,
        folder: JobFolder,
        order: JobOrder,
        launcher: Launcher,
        log: ServiceLog,
        pause: Pause,
        lock: int,
    ) -> None:
        self._folder = folder
        self._order = order
        self._launcher = launcher
        self._log = log
        self._pause = pause
        self._lock = lock

    def wait_in_queue(self, store: Store, queued: Callable[[], None]) -> Mapping[str, tuple[str, ...]]:
        """The accelerators of each replica, once the job fits here; `queued` hears that it waits.

        Raises NotFirstInQueue for a job that is not the first in line.
        """
        told = ""
        while isinstance(answer := admit(store, self._order), Waiting):
            if answer.reason != told:
                self._log.say(f"Job is queued: {answer.reason}")
                told = answer.reason
            queued()
            if not attend(store, Path(self._order.home), own=self._order.name):
                raise NotFirstInQueue
            self._pause()
        return answer.devices

    def order_replicas(self, devices: Mapping[str, tuple[str, ...]]) -> list[str]:
        """Write how each replica is run, the primary first; their names."""
        self._log.say(*PREPARING)
        orders = self._patient_orders(devices)
        for name, order in orders.items():
            fill(self._folder.replica(name), opened=self._launcher.opens_work)
            self._folder.replica(name).order(order)
        write_struct(self._folder.path / "replicas.json", list(orders))
        return [*orders]

    def _patient_orders(self, devices: Mapping[str, tuple[str, ...]]) -> Mapping[str, msgspec.Struct]:
        """How each replica is run, once what it needs is made."""

        def prepared() -> Mapping[str, msgspec.Struct]:
            return self._launcher.replica_orders(self._order, self._folder, self._prepare(), devices)

        orders = retry(
            prepared,
            PrepareFailed,
            passes=lambda failed: failed.is_transient,
            seconds=PREPARATION_PATIENCE_SECONDS,
            pauses=steady(0.0),
            sleep=lambda _: self._pause(),  # the supervisor's own, which a request to cancel ends
        )
        self._log.say(*STARTING)
        return orders

    def _prepare(self) -> tuple[Runtime, ...]:
        if not self._launcher.needs_preparation(self._order):
            return self._launcher.prepare(self._order, self._log.pass_on)
        preparation = Preparation(self._launcher, self._order, closing=(self._lock,))
        try:
            self._launcher.begin(self._order)
            while not preparation.ended:
                self._pause(preparation.pipe)
                for block in preparation.output():
                    self._log.pass_on(block)
        except BaseException:
            preparation.kill()
            raise
        return preparation.result()


def ordered_replicas(folder: JobFolder) -> list[str]:
    """The replicas' names, in order, when it was decided how they run; else none."""
    try:
        return read_struct(folder.path / "replicas.json", list[str]) or []
    except DamagedFileError:
        return [member.name for member in replica_ids(folder.order().job.job_spec)]
