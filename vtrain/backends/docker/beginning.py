"""Creates and starts a container, or finds that a supervisor which died has done so, or why it cannot be."""

from __future__ import annotations

import time
from typing import Any

from vtrain.backends.docker.container import ContainerOrder
from vtrain.backends.docker.ending import HALF_STARTED, REMOVED, UNREAD, refused_exit, unseen_exit
from vtrain.backends.docker.station import Station
from vtrain.backends.docker.stopping import Stopping
from vtrain.backends.docker.view import ContainerView
from vtrain.containers.labels import HOME_LABEL, JOB_LABEL
from vtrain.engine.folder import ReplicaExit, ReplicaFolder, write_struct
from vtrain.engine.instants import epoch
from vtrain.errors import EngineAwayError, EngineError

ALREADY_THERE = "already exists"
"""In the engine's refusal to start what it was starting when it was killed (`task ID: already exists`)."""


class Beginning:
    """One attempt's beginning. It can be tried again at any point."""

    def __init__(
        self,
        replica: ReplicaFolder,
        order: ContainerOrder,
        station: Station,
        view: ContainerView,
        stopping: Stopping,
    ) -> None:
        self._replica = replica
        self._order = order
        self._station = station
        self._view = view
        self._stopping = stopping

    def ensure(self) -> ReplicaExit | None:
        """See that the container runs, or has run; how it ended when it cannot be started.

        Raises EngineAwayError.
        """
        was_started = self._replica.started()
        state = self._view.inspect() if was_started or self._stopping.wanted else None
        if state is None and was_started:
            self._view.log_error = UNREAD
            return self._unseen(REMOVED)
        with self._station.turns:
            if state is None and self._stopping.wanted:
                return self._unseen("")
            return self._start(state)

    def _start(self, state: dict[str, Any] | None) -> ReplicaExit | None:
        started = time.time()
        try:
            state = state or self._view.create(self._order.config)
            if state["Status"] != "created":
                started = epoch(state["StartedAt"])
            elif state["Error"]:
                return self._failed(state["Error"], state["ExitCode"])
            else:
                self._have_network()
                if self._stopping.wanted:
                    return self._unseen("")
                self._view.start()
        except EngineAwayError:
            raise
        except EngineError as error:
            return self._refused(error)
        if not self._replica.started():
            write_struct(self._replica.path / "started.json", {"time": started})
            self._replica.job.wake()
        return None

    def _have_network(self) -> None:
        order = self._order
        labels = {name: order.labels[name] for name in (JOB_LABEL, HOME_LABEL)}
        self._station.have_network(order.network, labels, order.replicas, again=order.attempt > 0)

    def _refused(self, error: EngineError) -> ReplicaExit:
        if ALREADY_THERE in error.message:
            self._view.remove()
            raise EngineAwayError(error.message) from error
        return self._failed(error.message, (self._view.inspect() or {}).get("ExitCode", 0))

    def _failed(self, message: str, code: int) -> ReplicaExit:
        """The engine refused; one that was away meanwhile may have lost the start itself."""
        return self._unseen(HALF_STARTED) if self._view.gap else refused_exit(message, code)

    def _unseen(self, interruption: str) -> ReplicaExit:
        return unseen_exit(interruption, stopped=self._stopping.wanted)
