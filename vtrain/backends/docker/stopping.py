"""Ends a container when its job wants that: SIGTERM, and SIGKILL when the grace period is over."""

from __future__ import annotations

import threading
import time

from vtrain.backends.docker.meter import Meter
from vtrain.backends.docker.view import ContainerView
from vtrain.errors import EngineError

STOP_RETRY_SECONDS = 0.5


class Stopping:
    """Asked again and again until the container has ended; `wanted` says that it has to."""

    def __init__(self, view: ContainerView, meter: Meter, grace_seconds: float) -> None:
        self.wanted = False
        self._view = view
        self._meter = meter
        self._grace_seconds = grace_seconds
        self._terminated_at = 0.0
        self._asked_at = 0.0
        self._asking: threading.Thread | None = None

    def ask(self) -> None:
        """Comes back at once, so that the containers of a job are stopped at the same time."""
        self.wanted = True
        if self._may_ask() and (self._asking is None or not self._asking.is_alive()):
            self._asking = threading.Thread(target=self._ask, name="stop", daemon=True)
            self._asking.start()

    def kill(self) -> None:
        """End the container now."""
        self.wanted = True
        self._asked_at = 0.0
        self._signal("SIGKILL")

    def _ask(self) -> None:
        now = time.monotonic()
        if not self._terminated_at:
            self._meter.look(self._view.id)
            self._terminated_at = now if self._signal("SIGTERM") else 0.0
        elif now - self._terminated_at > self._grace_seconds:
            self._signal("SIGKILL")

    def _may_ask(self) -> bool:
        """At most twice a second, and not before the engine has answered at all."""
        return self._view.is_connected and time.monotonic() - self._asked_at >= STOP_RETRY_SECONDS

    def _signal(self, name: str) -> bool:
        """Whether the engine took the signal."""
        if not self._may_ask():
            return False
        self._asked_at = time.monotonic()
        try:
            self._view.signal(name)
        except EngineError:
            return False  # away, or not running: not yet, or not any more; the watch finds out which
        return True
