"""A connection to the Docker Engine, and its errors as vtrain's own."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from vtrain.containers.client import CallRefused, EngineCalls, ping, reason_of
from vtrain.containers.discovery import EngineAddress, find_engine
from vtrain.errors import EngineAwayError, EngineError

if TYPE_CHECKING:
    from docker import APIClient


CONNECT_SECONDS = 10.0
IN_PROGRESS = "is already in progress"
"""Words of the engine about the removal of a container that another request has begun (409)."""
FULL_DISK_HINT = (
    'Free some: "docker system df" shows what uses it, "docker system prune" removes what is unused.'
)
_GOING = re.compile(
    r"transport is closing|error while dialing|connection is closing|shutting down"
    r"|containerd.*not (running|ready)|from store: open |update store for object"
)
"""Words of dockerd while it, or its containerd, stops or starts. The status may be 500, as for any fault."""
_FULL = "no space left on device"
_PREFIXES = re.compile(r"^(Error response from daemon|error from daemon in stream): ", re.IGNORECASE)


class Engine:
    """A Docker engine. Not to be used across a fork."""

    def __init__(self, address: EngineAddress, version: str = "") -> None:
        """`version` is the newest one of the API that the engine speaks; empty where it is not known."""
        self.address = address
        self.calls = EngineCalls(address, version)
        """The client for frequent calls, which needs no SDK; for engines of this machine."""
        self._version = version

    @cached_property
    def client(self) -> APIClient:
        """The SDK's low-level client, a requests session too; imported when it is asked for."""
        from vtrain.containers.sdk import make_client

        with engine_errors(f"be reached at {self.address.host}"):
            return make_client(self.address, self._version)

    def inspect_image(self, name: str) -> Any:
        """An image as `docker image inspect` shows it. Raises what `engine_errors` turns into ours."""
        if self.address.is_local:
            return self.calls.get(f"/images/{name}/json")
        return self.client.inspect_image(name)

    def remove(self, doing: str, path: str, **params: Any) -> None:
        """DELETE what may be gone already, or is being removed by another request. Raises EngineError."""
        try:
            with engine_errors(doing):
                self.calls.delete(path, **params)
        except EngineError as error:
            if error.http_status != HTTPStatus.NOT_FOUND and IN_PROGRESS not in error.words:
                raise

    def info(self) -> dict[str, Any]:
        """The engine's description of itself and its machine (`GET /info`); asked once."""
        return self._info

    @cached_property
    def _info(self) -> dict[str, Any]:
        with engine_errors("describe itself"):
            info = self.calls.get("/info")
        if not isinstance(info, dict) or not all(
            isinstance(info.get(name), int) for name in ("NCPU", "MemTotal")
        ):
            raise _no_engine(self.address)
        return info

    def close(self) -> None:
        """Close the connections."""
        self.calls.close()
        if "client" in self.__dict__:
            self.client.close()


def connect(address: EngineAddress | None = None) -> Engine:
    """The engine at `address`, by default the one that is found. One on another machine is not asked yet.

    Raises EngineAwayError when it does not answer, EngineError for any other reason.
    """
    address = address or find_engine()
    if not address.is_local:
        return Engine(address)
    try:
        version = ping(address, CONNECT_SECONDS)
    except PermissionError as error:
        raise EngineError(f"The Docker engine at {address.host} refuses: permission denied.") from error
    except OSError as error:
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
        raise _refused(doing, error.status, error.explanation) from error
    except (ConnectionError, TimeoutError) as error:
        raise _gone(doing, error) from error
    except Exception as error:
        translated = _of_the_sdk(doing, error)
        if translated is None:
            raise
        raise translated from error


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


def is_going(words: str) -> bool:
    """Whether an engine that says this is about to end, or not ready yet."""
    return _GOING.search(words) is not None and _FULL not in words


def _refused(doing: str, status: int, explanation: str) -> EngineError:
    words = engine_words(explanation)
    is_full = _FULL in words
    if is_going(words) or (status == HTTPStatus.SERVICE_UNAVAILABLE and not is_full):
        return EngineAwayError(
            f"The Docker engine is not ready ({words}).", http_status=status, words=explanation
        )
    hint = FULL_DISK_HINT if is_full else ""
    message = f"The Docker engine cannot {doing}: {words}."
    return EngineError(message, hint=hint, http_status=status, words=explanation)


def _gone(doing: str, error: Exception) -> EngineAwayError:
    return EngineAwayError(f"The Docker engine went away; it cannot {doing} ({_innermost(error)}).")


def engine_words(text: str) -> str:
    """An engine's words as a part of one sentence: one line without its full stop."""
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


def image_facts(address: EngineAddress, name: str) -> dict[str, Any] | None:
    """An image as `docker image inspect` shows it; None when it is not there. Raises EngineError."""
    with closing(Engine(address)) as engine:
        try:
            with engine_errors(f"describe the image {name}"):
                facts = engine.inspect_image(name)
        except EngineError as error:
            if error.http_status == HTTPStatus.NOT_FOUND:
                return None
            raise
    if not isinstance(facts, dict):
        raise _no_engine(address)
    return facts


def _no_engine(address: EngineAddress) -> EngineError:
    return EngineError(f"What answers at {address.host} is no Docker engine: it does not describe itself.")


KIND_LABEL = "vtrain.kind"
"""On images: `image` for one that `package image` made, `runtime` for an executor image with dependencies."""
CONTENT_LABEL = "vtrain.content"
"""On images: the hash of what went in."""
BASE_LABEL = "vtrain.base"
"""On images: the ids of the images that it was built on."""
JOB_LABEL = "vtrain.job"
"""On containers and networks: the job's id."""
REPLICA_LABEL = "vtrain.replica"
ATTEMPT_LABEL = "vtrain.attempt"
HOME_LABEL = "vtrain.home"
"""On containers and networks: which vtrain home the job belongs to."""
IMAGE_HOME_LABEL = "vtrain.image-home"
"""On images: the vtrain home that made it. Not `HOME_LABEL`, which every container of it would inherit."""
SERVING_LABEL = "vtrain.serving"
"""On the container of a model that answers a prediction: the folder whose lock its command holds."""
