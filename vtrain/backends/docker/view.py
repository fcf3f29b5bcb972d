"""One container as the engine tells of it: asked by name, patiently, and only as far as it knows."""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

from vtrain.backends.docker.frames import FrameReader, Piece, read_pieces
from vtrain.backends.docker.transcript import Transcript
from vtrain.containers.address import EngineAddress
from vtrain.containers.engine import Engine, connect, engine_errors
from vtrain.errors import EngineAwayError, EngineError

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 0.5
"""Between two looks at an engine that does not answer; doubled each time."""


class ContainerView:
    """A connection to the engine of one thread's own, and what was learned over it.

    `gap` is when the engine was away last, in seconds since the epoch; `log_error` says why a part of the
    log could not be read.
    """

    def __init__(self, address: EngineAddress, name: str) -> None:
        self.gap: tuple[float, float] | None = None
        self.log_error = ""
        self._address = address
        self._name = name
        self._engine: Engine | None = None
        self._pause = FIRST_PAUSE_SECONDS
        self._away_since = 0.0

    @property
    def is_connected(self) -> bool:
        """Whether the engine has answered at least once."""
        return self._engine is not None

    @property
    def engine(self) -> Engine:
        """The engine, connected when it is asked for the first time. Raises EngineError."""
        if self._engine is None:
            self._engine = connect(self._address)
        return self._engine

    def close(self) -> None:
        """Close the connections."""
        if self._engine is not None:
            self._engine.close()

    def patiently(self, act: Callable[[], T]) -> T:
        """What `act` answers, however often the engine goes away meanwhile."""
        while True:
            try:
                return act()
            except EngineAwayError:
                self._away_since = self._away_since or time.time()
                time.sleep(self._pause)
                self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)

    def inspect(self) -> dict[str, Any] | None:
        """The container's State; None when there is no such container."""
        client = self.engine.client
        found = self._unless_gone("look at the container", lambda: client.inspect_container(self._name))
        return found["State"] if found is not None else None

    def create(self, config: dict[str, Any]) -> dict[str, Any]:
        """Create the container; its State. A supervisor that died may have asked for the same before."""
        try:
            with engine_errors("create the container"):
                self.engine.client.create_container_from_config(config, self._name)
        except EngineError as error:
            if getattr(error.__cause__, "status_code", 0) != HTTPStatus.CONFLICT:
                raise
            found = self.inspect()
            if found is None:
                raise EngineAwayError(error.message) from error
            return found
        return {"Status": "created", "Error": "", "ExitCode": 0}

    def start(self) -> None:
        """Start the container. Raises EngineError."""
        with engine_errors("start the container"):
            self.engine.client.start(self._name)

    def signal(self, name: str) -> None:
        """Send a signal, such as SIGTERM. Raises EngineError, for a container that does not run too."""
        with engine_errors("stop the container"):
            self.engine.client.kill(self._name, name)

    def remove(self) -> None:
        """Take away what an engine that died while it started the container has left of it."""
        with engine_errors("remove the container"):
            self.engine.client.remove_container(self._name, force=True)

    def read_log(self, transcript: Transcript) -> None:
        """Follow the log from where the transcript ends, until the stream does."""
        since = transcript.resume()
        response = self._open_log({"follow": 1, **({"since": _instant(since)} if since else {})})
        if response is None:
            return
        frames = FrameReader()
        with engine_errors("read the container's log"), response:
            for pieces in read_pieces(response, frames):
                transcript.take(pieces)
        self.log_error = frames.error or self.log_error

    def read_tail(self, count: int) -> list[Piece]:
        """The last pieces of the log, as many as asked for."""
        response = self._open_log({"tail": count})
        if response is None:
            return []
        frames = FrameReader()
        with engine_errors("read the container's log"), response:
            pieces = frames.feed(response.content)
        self.log_error = frames.error or self.log_error
        return pieces

    def _open_log(self, params: dict[str, Any]) -> Any:
        """The response with the log; None where the container is gone."""
        from vtrain.containers.transport import open_log

        client = self.engine.client
        return self._unless_gone("read the container's log", lambda: open_log(client, self._name, params))

    def _unless_gone(self, doing: str, ask: Callable[[], Any]) -> Any:
        """What the engine answers; None where there is no such container, or it is being removed."""
        answer = None
        try:
            with engine_errors(doing):
                answer = ask()
        except EngineError as error:
            if getattr(error.__cause__, "status_code", 0) not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                raise
        self._answered()
        return answer

    def _answered(self) -> None:
        """The engine answers: if it was away, that is over."""
        if self._away_since:
            self.gap = (self._away_since, time.time())
        self._away_since = 0.0
        self._pause = FIRST_PAUSE_SECONDS


def _instant(nanoseconds: int) -> str:
    """A time as the Engine API takes it."""
    return f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}"
