"""A connection to the Docker engine, and its errors in our words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from vtrain.containers.address import EngineAddress
from vtrain.containers.connection import SSH_CONNECT_SECONDS, ping
from vtrain.containers.discovery import find_engine, reason_of
from vtrain.errors import EngineAwayError, EngineError

if TYPE_CHECKING:
    from docker import APIClient

CONNECT_SECONDS = 10.0
FULL_DISK_HINT = (
    'Free some: "docker system df" shows what uses it, "docker system prune" removes what is unused.'
)
_GOING = re.compile(
    r"transport is closing|error while dialing|connection is closing|shutting down"
    r"|containerd.*not (running|ready)|from store: open |update store for object"
)
_PREFIXES = re.compile(r"^(Error response from daemon|error from daemon in stream): ", re.IGNORECASE)


class Engine:
    """A Docker engine that answered. Not to be used across a fork."""

    def __init__(self, address: EngineAddress, client: APIClient) -> None:
        self.address = address
        self.client = client
        """The SDK's low-level client, a requests session too."""

    def info(self) -> dict[str, Any]:
        """What the engine says of itself and its machine (`GET /info`); asked once. Raises EngineError."""
        return self._info

    @cached_property
    def _info(self) -> dict[str, Any]:
        with engine_errors("describe itself"):
            info: dict[str, Any] = self.client.info()
        return info

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


def connect(address: EngineAddress | None = None) -> Engine:
    """The engine at `address`, by default the one that is found.

    Raises EngineAwayError when it does not answer, EngineError for any other reason.
    """
    address = address or find_engine()
    try:
        version = ping(address, SSH_CONNECT_SECONDS if address.host.startswith("ssh:") else CONNECT_SECONDS)
    except PermissionError as error:
        raise EngineError(f"The Docker engine at {address.host} refuses: permission denied.") from error
    except (OSError, ValueError) as error:
        place = f"{address.host} (from {address.origin})"
        raise EngineAwayError(f"The Docker engine at {place} does not answer: {reason_of(error)}.") from error
    from vtrain.containers.transport import make_client

    with engine_errors(f"be used at {address.host}"):
        return Engine(address, make_client(address, version))


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turns errors of the SDK into ours; the cause stays. `doing` is a verb: "start the container".

    EngineAwayError: the connection broke, or the engine is going down or coming up; else EngineError.
    """
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except APIError as error:
        words = engine_words(error.explanation or str(error))
        is_full = "no space left on device" in words
        is_going = error.status_code == HTTPStatus.SERVICE_UNAVAILABLE or _GOING.search(words)
        if is_going and not is_full:
            raise EngineAwayError(f"The Docker engine is not ready ({words}).") from error
        hint = FULL_DISK_HINT if is_full else ""
        raise EngineError(f"The Docker engine cannot {doing}: {words}.", hint=hint) from error
    except (RequestException, HTTPError, ConnectionError, TimeoutError) as error:
        reason = _innermost(error)
        raise EngineAwayError(f"The Docker engine went away; it cannot {doing} ({reason}).") from error
    except DockerException as error:
        raise EngineError(f"The Docker engine cannot {doing}: {engine_words(str(error))}.") from error


def engine_words(text: str) -> str:
    """What an engine said, as a part of one sentence: one line without its full stop."""
    line = " ".join(text.split())
    return _PREFIXES.sub("", line).rstrip(".") or "it gives no reason"


def _innermost(error: BaseException) -> str:
    """The system's own words below the layers of the HTTP library."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.strerror:
            return seen.strerror
        if isinstance(seen, TimeoutError):
            return "no answer in time"
        seen = seen.__cause__ or seen.__context__
    return engine_words(str(error))
