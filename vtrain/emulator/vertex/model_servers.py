"""The servers of deployed models: each is started once, kept, and started again where it has ended."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from vtrain.atomic import scratch_folder
from vtrain.backends import BackendSettings
from vtrain.backends.model_interface import ModelServer, ServingOrder
from vtrain.backends.registry import choose_for
from vtrain.errors import ConfigError
from vtrain.messages.model import Model
from vtrain.messages.names import LOCAL_PROJECT
from vtrain.runtime.serving.artifacts import check_artifacts, foreign_part
from vtrain.runtime.serving.prediction_images import prediction_image
from vtrain.runtime.serving.serving_contract import ask, await_health, served, start_seconds

MOST_SERVERS = 16
"""Servers at once. One more ends the one that was asked the longest time ago, until that is asked again."""
END_SECONDS = 30.0
"""The time for a server to end that is just being made: what installs its framework is not stopped."""


class ModelServers:
    """The servers of one emulator, by the ids of deployed models. Several threads use it."""

    def __init__(self, home: Path, backend: str, tell: Callable[[str], None]) -> None:
        """`backend` is that of the emulator's jobs; `tell` gets what is said while a server starts."""
        self._home = home
        self._backend = backend
        self._tell = tell
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, key: str, model: Model) -> ModelServer:
        """A healthy server of the model, started where none runs.

        Raises ServiceError for a server that ends or does not get healthy, and another VtrainError where
        nothing of this machine can serve the model.
        """
        while True:
            slot = self._slot(key)
            with slot.lock:
                if slot.is_over:  # others took its room meanwhile
                    continue
                if slot.server is None or slot.server.failure():
                    slot.clear()
                    slot.server = self._serve(model, slot)
                return slot.server

    def ask(self, key: str, model: Model, request: dict[str, Any]) -> list[Any]:
        """The predictions of the model. Raises as `start`, and ConfigError for a request that it refuses."""
        server = self.start(key, model)
        return ask(server.address, served(model, "").predict_route, request)

    def stop(self, key: str) -> None:
        """End the server of a model, if there is one."""
        with self._lock:
            slot = self._slots.pop(key, None)
        if slot is not None:
            slot.end()

    def close(self) -> None:
        """End all servers."""
        for key in list(self._slots):
            self.stop(key)

    def _slot(self, key: str) -> _Slot:
        """The place of a model's server; those that were asked the longest time ago make room for it."""
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            idle = [name for name, each in self._slots.items() if each.server is not None and name != key]
            surplus = [self._slots.pop(name) for name in idle[: max(len(self._slots) - MOST_SERVERS, 0)]]
        for each in surplus:
            each.end()
        return slot

    def _serve(self, model: Model, slot: _Slot) -> ModelServer:
        """A healthy server, which the slot's stack ends."""
        artifacts = check_artifacts(model, self._home)
        if artifacts is not None and (foreign := foreign_part(artifacts)):
            raise ConfigError(
                f"The model's files may hold code that runs as you, and are not yours: {foreign}"
            )
        image = model.container_spec.image_uri if model.container_spec is not None else ""
        is_prebuilt = prediction_image(image) is not None
        containers = () if is_prebuilt or not image else (image,)
        backend = choose_for(self._backend, containers, (image,) if is_prebuilt else ()).backend
        settings = BackendSettings(home=self._home, project=LOCAL_PROJECT, region="", tell=self._tell)
        try:
            scratch = slot.stack.enter_context(scratch_folder(self._home))
            order = ServingOrder(model=model, artifacts=artifacts, scratch=scratch)
            server: ModelServer = slot.stack.enter_context(backend.model_serving(settings).serve(order))

            def failure() -> str:
                return "It was undeployed." if slot.is_over else server.failure()

            route = served(model, "").health_route
            await_health(server.address, route, start_seconds(model), failure, self._tell)
        except BaseException:
            slot.clear()
            raise
        return server


class _Slot:
    """The place of one model's server; its lock is held while the server starts or ends."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.server: ModelServer | None = None
        self.stack = ExitStack()
        self.is_over = False

    def clear(self) -> None:
        """End the server, if there is one."""
        self.server = None
        self.stack.close()

    def end(self) -> None:
        """End the server for good, also one that starts."""
        self.is_over = True
        if self.lock.acquire(timeout=END_SECONDS):
            self.clear()
            self.lock.release()
