"""Questions to an engine that take a millisecond, asked without the SDK, whose import takes a hundred."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote

from vtrain.containers.address import EngineAddress
from vtrain.containers.connection import open_connection
from vtrain.containers.discovery import reason_of
from vtrain.errors import EngineAwayError, EngineError

TIMEOUT_SECONDS = 10.0


def engine_info(address: EngineAddress) -> dict[str, Any]:
    """What the engine says of itself and its machine (`GET /info`). Raises EngineError."""
    info: dict[str, Any] | None = _ask(address, "/info")
    if info is None:
        raise EngineError(f"What answers at {address.host} is no Docker engine: it has no /info.")
    return info


def image_facts(address: EngineAddress, name: str) -> dict[str, Any] | None:
    """An image as `docker image inspect` shows it; None when it is not there. Raises EngineError."""
    found: dict[str, Any] | None = _ask(address, f"/images/{quote(name, safe='/:@')}/json")
    return found


def _ask(address: EngineAddress, path: str) -> Any:
    """The answer to a GET; None for 404. Without a version in the path the engine takes its newest."""
    connection = _Connection(address)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = reason_of(error)
        raise EngineAwayError(f"The Docker engine at {address.host} does not answer: {reason}.") from error
    finally:
        connection.close()
    if response.status == http.HTTPStatus.NOT_FOUND:
        return None
    if response.status != http.HTTPStatus.OK:
        words = body.decode("utf-8", "replace").strip()
        raise EngineError(f"The Docker engine at {address.host} does not tell {path}: {words}")
    return json.loads(body)


class _Connection(http.client.HTTPConnection):
    """HTTP over whatever leads to the engine."""

    def __init__(self, address: EngineAddress) -> None:
        super().__init__("docker")
        self._address = address

    def connect(self) -> None:
        self.sock = open_connection(self._address, TIMEOUT_SECONDS)
