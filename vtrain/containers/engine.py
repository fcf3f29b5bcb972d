"""A connection to the Docker engine, and its errors in our words."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from vtrain.containers.address import EngineAddress
from vtrain.containers.calls import CallRefused, EngineCalls
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

    def __init__(self, address: EngineAddress, version: str) -> None:
        """`version` is the newest one of the API that the engine speaks; empty where it does not say."""
        self.address = address
        self.calls = EngineCalls(address, version)
        """What needs no SDK."""
        self._version = version

    @cached_property
    def client(self) -> APIClient:
        """The SDK's low-level client, a requests session too; imported when it is asked for."""
        from vtrain.containers.transport import make_client

        with engine_errors(f"be used at {self.address.host}"):
            return make_client(self.address, self._version)

    def info(self) -> dict[str, Any]:
        """What the engine says of itself and its machine (`GET /info`); asked once. Raises EngineError."""
        return self._info

    @cached_property
    def _info(self) -> dict[str, Any]:
        with engine_errors("describe itself"):
            info: dict[str, Any] = self.calls.get("/info")
        return info

    def close(self) -> None:
        """Close the connections."""
        self.calls.close()
        if "client" in self.__dict__:
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
    return Engine(address, version)


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turns errors of our calls and of the SDK into ours; the cause stays. `doing` is a verb: "start it".

    EngineAwayError: the connection broke, or the engine is going down or coming up; else EngineError.
    """
    try:
        yield
    except CallRefused as error:
        raise _refused(doing, error.status_code, error.explanation) from error
    except (ConnectionError, TimeoutError) as error:
        raise _gone(doing, error) from error
    except Exception as error:
        translated = _of_the_sdk(doing, error)
        if translated is None:
            raise
        raise translated from error


def status_of(error: EngineError) -> int:
    """The HTTP status with which the engine refused; 0 where it did not."""
    return int(getattr(error.__cause__, "status_code", 0) or 0)


def words_of(error: EngineError) -> str:
    """The engine's own words of a refusal; empty where there are none."""
    return str(getattr(error.__cause__, "explanation", "") or "")


def _of_the_sdk(doing: str, error: Exception) -> EngineError | None:
    """An error of the SDK, or of the HTTP library below it, in our words; None for any other."""
    if "docker" not in sys.modules:  # which takes its time to import, and raised nothing then
        return None
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    if isinstance(error, APIError):
        return _refused(doing, error.status_code or 0, error.explanation or str(error))
    if isinstance(error, RequestException | HTTPError):
        return _gone(doing, error)
    if isinstance(error, DockerException):
        return EngineError(f"The Docker engine cannot {doing}: {engine_words(str(error))}.")
    return None


def _refused(doing: str, status: int, explanation: str) -> EngineError:
    words = engine_words(explanation)
    is_full = "no space left on device" in words
    is_going = status == HTTPStatus.SERVICE_UNAVAILABLE or _GOING.search(words)
    if is_going and not is_full:
        return EngineAwayError(f"The Docker engine is not ready ({words}).")
    return EngineError(f"The Docker engine cannot {doing}: {words}.", hint=FULL_DISK_HINT if is_full else "")


def _gone(doing: str, error: Exception) -> EngineAwayError:
    return EngineAwayError(f"The Docker engine went away; it cannot {doing} ({_innermost(error)}).")


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
