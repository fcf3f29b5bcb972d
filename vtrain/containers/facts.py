"""Questions to an engine that take a millisecond, asked without the SDK, whose import takes a hundred."""

from __future__ import annotations

from contextlib import closing
from http import HTTPStatus
from typing import Any

from vtrain.containers.address import EngineAddress
from vtrain.containers.calls import CallRefused, EngineCalls
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
    found: dict[str, Any] | None = _ask(address, f"/images/{name}/json")
    return found


def _ask(address: EngineAddress, path: str) -> Any:
    """The answer to a GET; None for 404. Without a version in the path the engine takes its newest."""
    with closing(EngineCalls(address, seconds=TIMEOUT_SECONDS)) as calls:
        try:
            return calls.get(path)
        except (ConnectionError, TimeoutError) as error:
            reason = reason_of(error)
            raise EngineAwayError(
                f"The Docker engine at {address.host} does not answer: {reason}."
            ) from error
        except CallRefused as refused:
            if refused.status_code == HTTPStatus.NOT_FOUND:
                return None
            told = f"does not tell {path}: {refused.explanation.strip()}"
            raise EngineError(f"The Docker engine at {address.host} {told}") from refused
