"""The servers of deployed models: each is started once, kept, and started again where it has ended."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from vtrain.atomic import scratch_folder
from vtrain.backends import BackendSettings
from vtrain.backends.model_interface import ModelServer, ServingOrder
from vtrain.backends.registry import choose_for
from vtrain.errors import ConfigError, ServiceError, VtrainError
from vtrain.messages.model import Model
from vtrain.messages.names import LOCAL_PROJECT
from vtrain.runtime.serving.artifacts import check_artifacts, foreign_part
from vtrain.runtime.serving.prediction_images import prediction_image
from vtrain.runtime.serving.serving_contract import ask, await_health, served, start_seconds

MOST_SERVERS = 16
"""Servers at once. One more ends the one that was asked the longest time ago, until that is asked again."""
END_SECONDS = 30.0
"""The time for a server to end that is just being made: what installs its framework is not stopped."""


class ServersBusy(ConfigError):
    """All servers that there may be are starting, or answer somebody."""


class ModelServers:
    """The servers of one emulator, by the ids of deployed models. Several threads use it."""

    def __init__(self, home: Path, backend: str, tell: Callable[[str], None]) -> None:
        """`backend` is that of the emulator's jobs; `tell` gets what is said while a server starts."""
        self._home = home
        self._backend = backend
        self._tell = tell
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self._ending: set[_Slot] = set()
        """Those that nobody new comes to, until their servers have ended."""
        self._lock = threading.Condition()
        self._is_closed = False

    @contextmanager
    def using(
        self, key: str, model: Model, is_over: Callable[[], bool] = lambda: False
    ) -> Iterator[ModelServer]:
        """A block with a healthy server of the model, which is started where none runs, and is kept in it.

        A server that starts gets healthy no more once it `is_over`.
        Raises ServiceError for a server that ends or does not get healthy, ServersBusy, and another
        VtrainError where nothing of this machine can serve the model.
        """
        slot = self._enter(key)
        try:
            with slot.lock:
                if slot.is_over:
                    raise ConfigError("The model is not deployed any more.")
                if slot.server is None or _has_ended(slot.server):
                    slot.clear()
                    slot.server = self._serve(model, slot, is_over)
                server = slot.server
            yield server
        finally:
            self._leave(key, slot)

    def stop(self, key: str) -> None:
        """End the server of a model, if there is one, once it has answered everybody who asked it before."""
        with self._lock:
            if key not in self._slots:
                return
            slot = self._take(key)
            slot.is_over = True
            self._lock.wait_for(lambda: self._is_closed or not slot.users)
        self._end(slot)

    def close(self) -> None:
        """End all servers at once; no other is started."""
        with self._lock:
            self._is_closed = True
            self._lock.notify_all()
            slots = [*self._slots.values(), *self._ending]
        for slot in slots:
            slot.end()

    def _take(self, key: str) -> _Slot:
        """Take a slot away, with the lock held, for `_end`; meanwhile `close` knows it."""
        slot = self._slots.pop(key)
        self._ending.add(slot)
        return slot

    def _end(self, slot: _Slot) -> None:
        slot.end()
        with self._lock:
            self._ending.discard(slot)

    def _enter(self, key: str) -> _Slot:
        """The place of a model's server, with one user more. Raises ServersBusy where there is no room."""
        with self._lock:
            if self._is_closed:
                raise ConfigError("The emulator ends.")
            evicted = None
            if key not in self._slots and len(self._slots) >= MOST_SERVERS:
                oldest = next((name for name, each in self._slots.items() if not each.users), None)
                if oldest is None:
                    raise ServersBusy(f"{MOST_SERVERS} models are starting or answering.", hint="Ask again.")
                evicted = self._take(oldest)
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            slot.users += 1
        if evicted is not None:
            self._end(evicted)
        return slot

    def _leave(self, key: str, slot: _Slot) -> None:
        with self._lock:
            slot.users -= 1
            self._lock.notify_all()
            if slot.server is None and not slot.users and self._slots.get(key) is slot:
                del self._slots[key]  # a model that cannot be served takes no room

    def _serve(self, model: Model, slot: _Slot, is_over: Callable[[], bool]) -> ModelServer:
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
                return "It is not wanted any more." if slot.is_over or is_over() else server.failure()

            route = served(model, "").health_route
            await_health(server.address, route, start_seconds(model), failure, self._tell)
        except BaseException:
            slot.clear()
            raise
        return server


def ask_model(server: ModelServer, model: Model, request: dict[str, Any]) -> list[Any]:
    """The predictions of a model. Raises ConfigError for a request that it refuses, and ServiceError."""
    predictions = ask(server.address, served(model, "").predict_route, request)
    try:
        msgspec.json.encode(predictions)
    except (ValueError, OverflowError, RecursionError) as error:
        raise ServiceError(f"The model's answer has no form in JSON: {error}.") from error
    return predictions


def _has_ended(server: ModelServer) -> bool:
    """Whether a server has ended, or is gone altogether, as a container that somebody removed."""
    try:
        return bool(server.failure())
    except VtrainError:
        return True


class _Slot:
    """The place of one model's server; its lock is held while the server starts or ends."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.server: ModelServer | None = None
        self.stack = ExitStack()
        self.users = 0
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
