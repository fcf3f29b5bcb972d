"""The parts that the containers of one job share: the connection, limits on requests, and network."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from vtrain.backends.docker.container import DEFAULT_BRIDGE
from vtrain.containers.address import EngineAddress
from vtrain.containers.engine import Engine, connect, engine_errors
from vtrain.digests import content_digest
from vtrain.errors import EngineError

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

    def have_network(
        self, name: str, labels: Mapping[str, str], replicas: int, *, again: bool = False
    ) -> None:
        """Make the job's network unless it exists. An empty name needs none. Raises EngineError.

        `again` asks the engine even if this process has made the network.
        """
        with self._making:  # engines make two networks of one name for two requests at once
            if name and (again or name not in self._made):
                ensure_network(self.engine(), name, labels, replicas)
                self._made.add(name)


RANGES = tuple(map(ipaddress.IPv4Network, ("10.213.0.0/16", "172.29.0.0/16", "192.168.192.0/19")))
"""The ranges of jobs' subnets. A subnet that a route of this machine covers, such as a VPN, is not used."""
SPARE_ADDRESSES = 3
"""Network, gateway and broadcast."""
OVERLAPS = "overlap"
"""The word in the engine's refusal (403, `Pool overlaps with other one on this address space`)."""


def ensure_network(engine: Engine, name: str, labels: Mapping[str, str], replicas: int) -> None:
    """Make the job's network unless it exists. Raises EngineError."""
    if _exists(engine, name):
        return
    refusal = ""
    for subnet in free_subnets(name, replicas):
        try:
            with engine_errors("make the job's network"):
                engine.calls.post("/networks/create", _description(name, labels, subnet))
        except EngineError as error:
            if OVERLAPS not in error.words:
                if _exists(engine, name):  # a previous supervisor of this job made it, and died
                    return
                raise
            refusal = error.message
            continue
        return
    raise EngineError(
        f"No subnet of {', '.join(map(str, RANGES))} is free for the job's network. {refusal}".strip()
    )


def has_default_bridge(engine: Engine) -> bool:
    """Whether containers can use Docker's default bridge. dockerd may run without it, and Podman has none."""
    return _exists(engine, DEFAULT_BRIDGE)


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


def free_subnets(
    name: str, replicas: int, routes: Path = Path("/proc/net/route")
) -> Iterator[ipaddress.IPv4Network]:
    """The subnets that are large enough and that no route covers. Each job begins at another one.

    The engine compares a subnet with its own networks only, not with the machine's routes or VPNs.
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
    """The networks that this machine has routes to, without the default route. None if it does not tell."""
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
