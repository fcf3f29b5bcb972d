"""The engine of one job: the connection and the limits that its containers share, requests about one of them,
and the job's network."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, suppress
from http import HTTPStatus
from typing import Any, TypeVar

from vtrain.backends.docker.container import DEFAULT_BRIDGE
from vtrain.containers.discovery import EngineAddress
from vtrain.containers.engine import Engine, connect, engine_errors
from vtrain.containers.streams import Piece, PieceReader, read_blocks, read_pieces
from vtrain.errors import EngineAwayError, EngineError
from vtrain.retry import growing, retry
from vtrain.times import NANOSECONDS

STARTS_AT_ONCE = 8
"""Containers that start at the same time. More make an engine no faster."""
SIGNALS_AT_ONCE = 4
"""Signals that are sent at the same time. With more, the engine cleans up ended containers before it has sent
all signals, which takes longer."""


class JobEngine:
    """The engine of one supervisor. Any thread may call its methods."""

    def __init__(self, address: EngineAddress) -> None:
        self.turns = threading.BoundedSemaphore(STARTS_AT_ONCE)
        self.signals = threading.BoundedSemaphore(SIGNALS_AT_ONCE)
        self._address = address
        self._engine: Engine | None = None
        self._connecting = threading.Lock()
        self._making = threading.Lock()
        self._made: set[str] = set()

    def engine(self) -> Engine:
        """The engine, which the first call connects. Raises EngineError."""
        with self._connecting:
            if self._engine is None:
                self._engine = connect(self._address)
            return self._engine

    @property
    def is_connected(self) -> bool:
        """Whether the engine has answered at least once."""
        return self._engine is not None

    def hang_up(self) -> None:
        """Close all connections. On old ones an engine that shuts down gives wrong answers.

        For example, it says that a network does not exist, which is there again when it is back.
        """
        if self._engine is not None:
            self._engine.close()

    def have_network(self, name: str, labels: Mapping[str, str], *, again: bool = False) -> None:
        """Make the job's network unless it exists. An empty name needs none. Raises EngineError.

        `again` asks the engine even if this process has made the network.
        """
        with self._making:  # engines make two networks of one name for two requests at once
            if name and (again or name not in self._made):
                ensure_network(self.engine(), name, labels)
                self._made.add(name)


def ensure_network(engine: Engine, name: str, labels: Mapping[str, str]) -> None:
    """Make the job's network unless it exists, in the engine's address pools. Raises EngineError."""
    body = {"Name": name, "Driver": "bridge", "CheckDuplicate": True, "Labels": dict(labels)}
    try:
        with engine_errors("make the job's network"):
            engine.calls.post("/networks/create", body)
    except EngineError as error:
        if has_network(
            engine, name
        ):  # a previous supervisor of this job made it; old versions of Podman say 500
            return
        if "address pool" in error.words:
            error.hint = "Its pools are used up: end other jobs, or give it more (default-address-pools)."
        raise


def has_network(engine: Engine, name: str = DEFAULT_BRIDGE) -> bool:
    """Whether the engine has a network. dockerd may run without its default bridge, and Podman has none."""
    try:
        with engine_errors("look for its networks"):
            engine.calls.get(f"/networks/{name}")
    except EngineError as error:
        if error.http_status == HTTPStatus.NOT_FOUND:
            return False
        raise
    return True


def server_hosts(engine: Engine, network: str) -> tuple[str, str]:
    """Where a server for a network's containers listens, and the name of that for them, where it is another.

    It listens at this machine's address in the network. If the engine runs in a virtual machine, that is
    there, and containers reach this machine as `host.docker.internal`. Raises EngineError.
    """
    with engine_errors("describe the job's network"):
        (found,) = engine.calls.get(f"/networks/{network}")["IPAM"]["Config"]
    address = str(found.get("Gateway") or next(ipaddress.ip_network(found["Subnet"]).hosts()))
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return "127.0.0.1", "host.docker.internal"
    return address, ""


def remove_network(engine: Engine, name: str) -> None:
    """Remove the job's network, if it exists. Raises EngineError while a container uses it."""
    engine.remove("remove the job's network", f"/networks/{name}")


def cut_loose(engine: Engine, name: str) -> None:
    """Disconnect containers that no longer exist: an engine that was restarted can forget their end.

    Call it only if no container uses the network any more. Raises EngineError.
    """
    with engine_errors("remove the job's network"):
        found = engine.calls.get(f"/networks/{name}")
        for endpoint in (found.get("Containers") or {}).values():
            body = {"Container": endpoint["Name"], "Force": True}
            engine.calls.post(f"/networks/{name}/disconnect", body)


T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 0.5
"""Between two looks at an engine that does not answer; doubled each time."""
READING = "read the container's log"
BOTH_STREAMS = {"stdout": 1, "stderr": 1}
WITH_TIMES = {**BOTH_STREAMS, "timestamps": 1}


class ContainerView:
    """One container, and what was learned of it.

    `gap` is when the engine was away last, in seconds since the epoch; `log_error` says why a part of the
    log could not be read; `id` is the engine's own name for the container, empty until it was seen.
    """

    def __init__(self, job_engine: JobEngine, name: str) -> None:
        self.gap: tuple[float, float] | None = None
        self.log_error = ""
        self.id = ""
        self._job_engine = job_engine
        self._name = name
        self._working_folder = "/"
        self._away_since = 0.0

    @property
    def engine(self) -> Engine:
        """The engine, connected when it is asked for the first time. Raises EngineError."""
        return self._job_engine.engine()

    def patiently(self, act: Callable[[], T]) -> T:
        """The answer of `act`, repeated as often as the engine goes away."""

        def hang_up(_: EngineAwayError) -> None:
            self._job_engine.hang_up()
            self._away_since = self._away_since or time.time()

        pauses = growing(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        return retry(act, EngineAwayError, pauses=pauses, before_pause=hang_up)

    def inspect(self) -> dict[str, Any] | None:
        """The container's State; None when there is no such container."""
        found = self._unless_gone(
            "look at the container", lambda: self.engine.calls.get(f"/containers/{self._name}/json")
        )
        if found is None:
            return None
        self.id = found["Id"]
        self._working_folder = (found.get("Config") or {}).get("WorkingDir") or "/"
        state: dict[str, Any] = found["State"]
        return state

    def has_in_working_folder(self, name: str) -> bool:
        """Whether that is in the container's working directory; false where the engine does not tell."""
        path, params = f"/containers/{self._name}/archive", {"path": f"{self._working_folder}/{name}"}
        with suppress(EngineError), engine_errors("look into the container"):
            self.engine.calls.send("HEAD", path, params)
            return True
        return False

    def create(self, config: dict[str, Any]) -> dict[str, Any]:
        """Create the container; its State. A supervisor that died may have asked for the same before."""
        try:
            with engine_errors("create the container"):
                made = self.engine.calls.post("/containers/create", config, name=self._name)
        except EngineError as error:
            if error.http_status != HTTPStatus.CONFLICT:
                raise
            found = self.inspect()
            if found is None:
                raise EngineAwayError(error.message) from error
            return found
        self._answered()
        self.id = made["Id"]
        return {"Status": "created", "Error": "", "ExitCode": 0}

    def start(self) -> None:
        """Start the container. Raises EngineError."""
        with engine_errors("start the container"):
            self.engine.calls.post(f"/containers/{self._name}/start")

    def signal(self, name: str) -> None:
        """Send a signal, such as SIGTERM. Raises EngineError, for a container that does not run too."""
        with engine_errors("stop the container"):
            self.engine.calls.post(f"/containers/{self._name}/kill", signal=name)

    def remove(self) -> None:
        """Remove the container, running or not. Raises EngineError."""
        with engine_errors("remove the container"):
            self.engine.calls.delete(f"/containers/{self._name}", force=1, v=1)

    def read_log(self, since: int, *, follow: bool) -> Generator[list[Piece], None, None]:
        """The log from that time on (nanoseconds; 0: all); `follow` waits for what is still to come."""
        begin = {"since": f"{since // NANOSECONDS}.{since % NANOSECONDS:09d}"} if since else {}
        reader = PieceReader()
        yield from read_pieces(self._blocks({"follow": int(follow), **WITH_TIMES, **begin}), reader)
        self.log_error = reader.error or self.log_error

    def read_tail(self, count: int) -> list[Piece]:
        """The last pieces of the log, as many as asked for."""
        reader = PieceReader()
        pieces = reader.feed(self._tail({**WITH_TIMES, "tail": count}))
        self.log_error = reader.error or self.log_error
        return pieces

    def read_terminal(self, *, follow: bool) -> Generator[bytes, None, None]:
        """All that a program on a terminal has written; `follow` waits for what is still to come."""
        return self._blocks({"follow": int(follow), **BOTH_STREAMS})

    def read_terminal_tail(self, lines: int) -> bytes:
        """The last lines that a program on a terminal has written."""
        return self._tail({**BOTH_STREAMS, "tail": lines})

    def _blocks(self, params: dict[str, Any]) -> Generator[bytes, None, None]:
        try:
            with (
                engine_errors(READING),
                self.engine.calls.stream(f"/containers/{self._name}/logs", params) as response,
            ):
                self._answered()
                yield from read_blocks(response)
        except EngineError as error:
            if not _is_gone(error):
                raise

    def _tail(self, params: dict[str, Any]) -> bytes:
        path = f"/containers/{self._name}/logs"
        return self._unless_gone(READING, lambda: self.engine.calls.send("GET", path, params)) or b""

    def attach(self) -> AbstractContextManager[socket.socket]:
        """The output of a program on a terminal, as it comes; the connection ends with the container."""
        params = {"stream": 1, "stdout": 1, "stderr": 1}
        return self.engine.calls.hijack(f"/containers/{self._name}/attach", params=params)

    def _unless_gone(self, doing: str, ask: Callable[[], Any]) -> Any:
        """The engine's answer; None where there is no such container, or it is being removed."""
        answer = None
        try:
            with engine_errors(doing):
                answer = ask()
        except EngineError as error:
            if not _is_gone(error):
                raise
        self._answered()
        return answer

    def _answered(self) -> None:
        """The engine answers: if it was away, that is over."""
        if self._away_since:
            self.gap = (self._away_since, time.time())
        self._away_since = 0.0


def _is_gone(error: EngineError) -> bool:
    return error.http_status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
