"""A bridge network for each job, with a subnet of its own: the engine's default pools hold only thirty."""

from __future__ import annotations

import hashlib
import ipaddress
import socket
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from vtrain.containers.engine import Engine, engine_errors, status_of, words_of
from vtrain.errors import EngineError

RANGES = tuple(map(ipaddress.IPv4Network, ("10.213.0.0/16", "172.29.0.0/16", "192.168.192.0/19")))
"""Where jobs' subnets are taken from; a range that a route of this machine covers (a VPN) is left alone."""
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
            if OVERLAPS not in words_of(error):
                if _exists(engine, name):  # another supervisor of this job was faster, and died
                    return
                raise
            refusal = error.message
            continue
        return
    raise EngineError(
        f"No subnet of {', '.join(map(str, RANGES))} is free for the job's network. {refusal}".strip()
    )


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
        if status_of(error) != HTTPStatus.NOT_FOUND:
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
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
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
        if status_of(error) == HTTPStatus.NOT_FOUND:
            return False
        raise
    return True
