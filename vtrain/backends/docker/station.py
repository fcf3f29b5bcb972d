"""What the watches of one job share: the connection, turns to start, the network, the meter."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from vtrain.backends.docker.container import ContainerOrder
from vtrain.backends.docker.meter import Meter
from vtrain.backends.docker.network import ensure_network
from vtrain.containers.address import EngineAddress
from vtrain.containers.engine import Engine, connect, engine_errors
from vtrain.containers.labels import HOME_LABEL, JOB_LABEL
from vtrain.errors import EngineError

STARTS_AT_ONCE = 8
"""More make an engine no faster."""


class Station:
    """One for each supervisor; its methods may be called by any thread."""

    def __init__(self, address: EngineAddress) -> None:
        self.turns = threading.BoundedSemaphore(STARTS_AT_ONCE)
        self.meter = Meter(self.statistics)
        self._address = address
        self._engine: Engine | None = None
        self._connecting = threading.Lock()
        self._making = threading.Lock()
        self._made: set[str] = set()
        self._seen: tuple[float, frozenset[str]] = (0.0, frozenset())

    def engine(self) -> Engine:
        """The engine, connected when it is asked for the first time. Raises EngineError."""
        with self._connecting:
            if self._engine is None:
                self._engine = connect(self._address)
            return self._engine

    def hang_up(self) -> None:
        """Use no connection again: an engine that goes down takes no new ones, and lies over the old.

        It says that a network is not there which it has again when it is back.
        """
        if self._engine is not None:
            self._engine.close()

    def have_network(
        self, name: str, labels: Mapping[str, str], replicas: int, *, again: bool = False
    ) -> None:
        """The job's network is there: engines make two of one name for two who ask at once.

        With `again` it is looked for even if it was there. Raises EngineError.
        """
        with self._making:
            if again or name not in self._made:
                ensure_network(self.engine(), name, labels, replicas)
                self._made.add(name)

    def ran_at(self, order: ContainerOrder, moment: float) -> bool:
        """Whether the container is known to have run at that time, in seconds since the epoch.

        One question answers it for all containers of the job.
        """
        if self._seen[0] < moment and self._engine is not None:
            asked = max(time.time(), moment)  # where the clock was set back, it has outlived that end too
            try:
                self._seen = (asked, self._running(self._engine, order))
            except EngineError:
                return False  # its exit will tell
        seen, names = self._seen
        return seen >= moment and order.name in names

    def _running(self, engine: Engine, order: ContainerOrder) -> frozenset[str]:
        labels = [f"{name}={order.labels[name]}" for name in (JOB_LABEL, HOME_LABEL)]
        with engine_errors("list the job's containers"):
            found = engine.calls.get("/containers/json", filters={"label": labels, "status": ["running"]})
        return frozenset(name.lstrip("/") for entry in found for name in entry.get("Names") or ())

    def statistics(self, container: str) -> dict[str, Any]:
        """What the engine says a container uses now; nothing where it does not say."""
        try:
            with engine_errors("say what the container uses"):
                path = f"/containers/{container}/stats"
                told: dict[str, Any] = self.engine().calls.get(path, **{"stream": 0, "one-shot": 1})
        except EngineError:
            return {}  # it has ended, or the engine is away
        return told
