"""The engine as the containers of one job share it: connection, turns to start, network, meter."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from vtrain.backends.docker.container import DEFAULT_BRIDGE, ContainerOrder
from vtrain.backends.docker.meter import Meter
from vtrain.backends.docker.waiting import keep_waiting
from vtrain.containers.address import EngineAddress
from vtrain.containers.engine import Engine, connect, engine_errors
from vtrain.containers.labels import HOME_LABEL, JOB_LABEL
from vtrain.digests import content_digest
from vtrain.errors import EngineError

STARTS_AT_ONCE = 8
"""More make an engine no faster."""
KEEP_AFTER_SECONDS = 1.0
"""So long after the start of a replica, if its job lasts longer, a container is made for the next job."""
SIGNALS_AT_ONCE = 4
"""More make it slower: a container that has ended is cleaned up while the others still get their signal."""


class JobEngine:
    """One for each supervisor; its methods may be called by any thread."""

    def __init__(self, address: EngineAddress) -> None:
        self.turns = threading.BoundedSemaphore(STARTS_AT_ONCE)
        self.signals = threading.BoundedSemaphore(SIGNALS_AT_ONCE)
        self.meter = Meter(self.statistics)
        self._address = address
        self._engine: Engine | None = None
        self._connecting = threading.Lock()
        self._making = threading.Lock()
        self._made: set[str] = set()
        self._job_is_over = threading.Event()
        self._keeper: threading.Thread | None = None
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
        """Make the job's network unless it is there; an empty name asks for none. Raises EngineError.

        With `again` it is looked for even if it was there.
        """
        with self._making:  # engines make two networks of one name for two requests at once
            if name and (again or name not in self._made):
                ensure_network(self.engine(), name, labels, replicas)
                self._made.add(name)

    def keep_waiting(self, order: ContainerOrder) -> None:
        """Have a container made that waits for the next job, where the order has a place for it.

        Not while the trainer starts, which it would slow down.
        """

        def keep() -> None:
            self._job_is_over.wait(KEEP_AFTER_SECONDS)
            keep_waiting(self.engine(), order)

        if order.waiting is not None and self._keeper is None:
            self._keeper = threading.Thread(target=keep, name="keep waiting", daemon=True)
            self._keeper.start()

    def finish_keeping(self) -> None:
        """Make that container now, unless it is there already."""
        self._job_is_over.set()
        if self._keeper is not None:
            self._keeper.join()

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
        """The engine's statistics of a container; empty where it gives none."""
        try:
            with engine_errors("say what the container uses"):
                path = f"/containers/{container}/stats"
                told: dict[str, Any] = self.engine().calls.get(path, **{"stream": 0, "one-shot": 1})
        except EngineError:
            return {}  # it has ended, or the engine is away
        return told


RANGES = tuple(map(ipaddress.IPv4Network, ("10.213.0.0/16", "172.29.0.0/16", "192.168.192.0/19")))
"""The ranges of jobs' subnets; a range that a route of this machine covers (a VPN) is left alone."""
SPARE_ADDRESSES = 3
"""Network, gateway and broadcast."""
OVERLAPS = "overlap"
"""The word in the engine's refusal (403, `Pool overlaps with other one on this address space`)."""


def ensure_network(engine: Engine, name: str, labels: Mapping[str, str], replicas: int) -> None:
    """Make the job's network unless it is there. Raises EngineError."""
    if _exists(engine, name):
        return
    refusal = ""
    for subnet in free_subnets(name, replicas):
        try:
            with engine_errors("make the job's network"):
                engine.calls.post("/networks/create", _description(name, labels, subnet))
        except EngineError as error:
            if OVERLAPS not in error.words:
                if _exists(engine, name):  # another supervisor of this job was faster, and died
                    return
                raise
            refusal = error.message
            continue
        return
    raise EngineError(
        f"No subnet of {', '.join(map(str, RANGES))} is free for the job's network. {refusal}".strip()
    )


def has_default_bridge(engine: Engine) -> bool:
    """Whether containers can use Docker's own bridge: dockerd may run without one, and Podman has none."""
    return _exists(engine, DEFAULT_BRIDGE)


def gateway(engine: Engine, name: str) -> str:
    """The address of the engine's machine in a network. Raises EngineError."""
    with engine_errors("describe the job's network"):
        (found,) = engine.calls.get(f"/networks/{name}")["IPAM"]["Config"]
    return str(found.get("Gateway") or next(ipaddress.ip_network(found["Subnet"]).hosts()))


def can_listen(address: str) -> bool:
    """Whether that address is one of this machine's own."""
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def remove_network(engine: Engine, name: str) -> None:
    """Remove the job's network, if it is there. Raises EngineError while a container uses it."""
    try:
        with engine_errors("remove the job's network"):
            engine.calls.delete(f"/networks/{name}")
    except EngineError as error:
        if error.http_status != HTTPStatus.NOT_FOUND:
            raise


def cut_loose(engine: Engine, name: str) -> None:
    """Take what is gone already off the network: an engine that was restarted can forget that it ended.

    To be called when no container is left that uses the network. Raises EngineError.
    """
    with engine_errors("remove the job's network"):
        found = engine.calls.get(f"/networks/{name}")
        for endpoint in (found.get("Containers") or {}).values():
            body = {"Container": endpoint["Name"], "Force": True}
            engine.calls.post(f"/networks/{name}/disconnect", body)


def free_subnets(
    name: str, replicas: int, routes: Path = Path("/proc/net/route")
) -> Iterator[ipaddress.IPv4Network]:
    """Subnets that are large enough and that no route leads to, beginning at a place of the job's own.

    The engine looks at its own networks, and not at the machine's routes or VPNs.
    """
    prefix = 32 - max((replicas + SPARE_ADDRESSES - 1).bit_length(), 6)
    taken = routed(routes)
    number = int(content_digest(name.encode())[:8], 16)
    for addresses in RANGES:
        subnets = list(addresses.subnets(new_prefix=prefix))
        begin = number % len(subnets)
        for subnet in (*subnets[begin:], *subnets[:begin]):
            if not any(subnet.overlaps(other) for other in taken):
                yield subnet


def routed(routes: Path) -> list[ipaddress.IPv4Network]:
    """The networks that this machine has routes to, the default route left out; none where it cannot say."""
    try:
        rows = [line.split() for line in routes.read_text().splitlines()[1:]]
    except OSError:
        return []
    found = []
    for row in rows:
        address, mask = (int.from_bytes(bytes.fromhex(row[column]), "little") for column in (1, 7))
        if mask:
            found.append(ipaddress.IPv4Network((address & mask, mask.bit_count())))
    return found


def _description(name: str, labels: Mapping[str, str], subnet: ipaddress.IPv4Network) -> dict[str, Any]:
    """The body of `POST /networks/create`."""
    return {
        "Name": name,
        "Driver": "bridge",
        "CheckDuplicate": True,
        "Labels": dict(labels),
        "IPAM": {"Config": [{"Subnet": str(subnet)}]},
    }


def _exists(engine: Engine, name: str) -> bool:
    try:
        with engine_errors("look for the job's network"):
            engine.calls.get(f"/networks/{name}")
    except EngineError as error:
        if error.http_status == HTTPStatus.NOT_FOUND:
            return False
        raise
    return True
