"""A bridge network for each job, with a subnet of its own: the engine's default pools hold only thirty."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from vtrain.containers.engine import Engine, engine_errors
from vtrain.errors import EngineError

RANGES = tuple(map(ipaddress.IPv4Network, ("10.213.0.0/16", "172.29.0.0/16", "192.168.192.0/19")))
"""Where jobs' subnets are taken from; a range that a route of this machine covers (a VPN) is left alone."""
SPARE_ADDRESSES = 3
"""Network, gateway and broadcast."""
OVERLAPS = "overlap"
"""The word in the engine's refusal (403, `Pool overlaps with other one on this address space`)."""


def ensure_network(engine: Engine, name: str, labels: Mapping[str, str], replicas: int) -> None:
    """Make the job's network unless it is there. Raises EngineError."""
    from docker.errors import APIError
    from docker.types import IPAMConfig, IPAMPool

    if _exists(engine, name):
        return
    refusal = ""
    for subnet in free_subnets(name, replicas):
        addresses = IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))])
        try:
            with engine_errors("make the job's network"):
                engine.client.create_network(
                    name, driver="bridge", ipam=addresses, check_duplicate=True, labels=dict(labels)
                )
        except EngineError as error:
            cause = error.__cause__
            if not isinstance(cause, APIError) or OVERLAPS not in str(cause.explanation):
                if _exists(engine, name):  # another supervisor of this job was faster, and died
                    return
                raise
            refusal = error.message
            continue
        return
    raise EngineError(
        f"No subnet of {', '.join(map(str, RANGES))} is free for the job's network. {refusal}".strip()
    )


def remove_network(engine: Engine, name: str) -> None:
    """Remove the job's network, if it is there. Raises EngineError while a container uses it."""
    from docker.errors import NotFound

    with engine_errors("remove the job's network"), suppress(NotFound):
        engine.client.remove_network(name)


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


def _exists(engine: Engine, name: str) -> bool:
    from docker.errors import NotFound

    try:
        with engine_errors("look for the job's network"):
            engine.client.inspect_network(name)
    except EngineError as error:
        if isinstance(error.__cause__, NotFound):
            return False
        raise
    return True
