"""The contract of Vertex AI with a serving container: its variables, its routes, a request and an answer.

Source: Vertex AI, "Custom container requirements for prediction".
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec

from vtrain.errors import ConfigError, ServiceError
from vtrain.http_limits import LARGEST_ANSWER, deadline
from vtrain.messages.model import Model, ModelContainerSpec
from vtrain.messages.names import LOCAL_PROJECT_NUMBER
from vtrain.program_output import reason
from vtrain.retry import wait_until
from vtrain.runtime.process.process_tree import LINUX
from vtrain.runtime.replica.vertex_view import expand_env, expand_words

Address = int | Path
"""A port of 127.0.0.1, or the path of a Unix socket. Other users of the machine reach the port alone."""
DEFAULT_PORT = 8080
ENDPOINT_ID, DEPLOYED_MODEL_ID = "1000000000000000001", "1000000000000000002"
"""The ids of what is not made here: nothing is deployed to an endpoint."""
_ROUTE = f"/v1/endpoints/{ENDPOINT_ID}/deployedModels/{DEPLOYED_MODEL_ID}"
_PATH = re.compile(r"/[!-~]*")
HEALTH_SECONDS = 10.0
"""The time that Vertex AI gives a container for the answer to one health check."""
START_SECONDS = 1800.0
"""The time for a container to become healthy where its model does not say: Vertex AI's half an hour."""
TELL_SECONDS = 15.0
"""The time between two messages about a server that is not healthy."""
_JSON = "application/json"
PREDICT_SECONDS = 600.0
LARGEST_REQUEST = 1_500_000
"""Bytes of a request, and of an answer, that Vertex AI takes."""


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A model's container as it would be started: its command line, as far as the model says it, and more."""

    port: int
    health_route: str
    predict_route: str
    env: dict[str, str]
    command: tuple[str, ...]
    args: tuple[str, ...]


def served(model: Model, storage_uri: str) -> Served:
    """The variables and the command line for a model, whose files the server finds at `storage_uri`.

    Raises ConfigError for a route that is no path.
    """
    spec = model.container_spec or ModelContainerSpec()
    port = spec.ports[0].container_port if spec.ports else DEFAULT_PORT
    health, predict = spec.health_route or _ROUTE, spec.predict_route or f"{_ROUTE}:predict"
    for route in (health, predict):
        if not _PATH.fullmatch(route):
            raise ConfigError(
                f"The route {route!r} of the model's container is no path of HTTP.",
                hint="Upload the model with a path such as /predict: it begins with / and has no spaces.",
            )
    service = {
        "AIP_DEPLOYED_MODEL_ID": DEPLOYED_MODEL_ID,
        "AIP_ENDPOINT_ID": ENDPOINT_ID,
        "AIP_FRAMEWORK": "CUSTOM_CONTAINER",
        "AIP_HEALTH_ROUTE": health,
        "AIP_HTTP_PORT": str(port),
        "AIP_MODE": "PREDICTION",
        "AIP_MODE_VERSION": "1.0.0",
        "AIP_PREDICT_ROUTE": predict,
        "AIP_PROJECT_NUMBER": LOCAL_PROJECT_NUMBER,
        "AIP_STORAGE_URI": storage_uri,
        "AIP_VERSION_NAME": model.version_id,
    }
    env = service | expand_env(spec.env, service)
    return Served(
        port=port,
        health_route=health,
        predict_route=predict,
        env=env,
        command=expand_words(spec.command, env),
        args=expand_words(spec.args, env),
    )


def start_seconds(model: Model) -> float:
    """The longest wait for the health of a model's container."""
    spec = model.container_spec
    given = spec.deployment_timeout if spec is not None else ""
    return float(given.removesuffix("s") or 0) or START_SECONDS


def await_health(
    address: Address, route: str, seconds: float, failure: Callable[[], str], tell: Callable[[str], None]
) -> None:
    """Wait until the server is healthy. In a long wait, `tell` gets its last answer from time to time.

    `failure` gives the last words of a server that has ended, else nothing. Raises ServiceError where the
    server ends, or is not healthy in time.
    """
    answer, began, reports = "nothing", time.monotonic(), 0

    def is_settled() -> bool:
        nonlocal answer
        try:
            status, *_ = _ask(address, "GET", route, seconds=min(HEALTH_SECONDS, seconds))
        except (OSError, http.client.HTTPException) as error:
            answer = str(error) or type(error).__name__
            return bool(failure())
        answer = f"{status.value} {status.phrase}"
        return status == HTTPStatus.OK or bool(failure())

    def is_settled_or_reported() -> bool:
        nonlocal reports
        if is_settled():
            return True
        if time.monotonic() - began > TELL_SECONDS * (reports + 1):
            reports += 1
            tell(f"It is not healthy after {TELL_SECONDS * reports:.0f} s: GET {route} gave {answer}.")
        return False

    is_in_time = wait_until(is_settled_or_reported, seconds, 0.02, longest=1.0)
    if said := failure():
        raise ServiceError(f"The model's server ended before it was healthy.\n{said}")
    if not is_in_time:
        raise ServiceError(
            f"The model's server was not healthy after {time.monotonic() - began:.0f} s: GET {route} at "
            f"{address} gave {answer}.",
            hint="It has to listen on AIP_HTTP_PORT and to answer AIP_HEALTH_ROUTE with 200.",
        )


def ask(address: Address, route: str, request: dict[str, Any]) -> list[Any]:
    """The predictions that a server answers a request with, one for each instance.

    Raises ConfigError for a request that the model refuses, ServiceError for any other failure.
    """
    _, content = ask_raw(address, route, json.dumps(request).encode())
    found = _object(content).get("predictions")
    if not isinstance(found, list):
        raise ServiceError(
            f'The model\'s server answered without a list "predictions": {_words(content)}',
            hint='The contract of Vertex AI has it answer with the JSON object {"predictions": […]}.',
        )
    return found


def ask_raw(address: Address, route: str, body: bytes, content_type: str = _JSON) -> tuple[str, bytes]:
    """What a server answers a request with: its type, and its content. Raises as `ask`."""
    try:
        status, answered, content = _ask(
            address, "POST", route, body=body, content_type=content_type, seconds=PREDICT_SECONDS
        )
    except (OSError, http.client.HTTPException) as error:
        words = str(error) or type(error).__name__
        raise ServiceError(f"The model's server did not answer the prediction: {words}.") from error
    said = _words(content)
    if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
        raise ConfigError(f"The model refuses the request ({status.value} {status.phrase}): {said}")
    if status != HTTPStatus.OK:
        raise ServiceError(f"The model failed to predict ({status.value} {status.phrase}): {said}")
    return answered, content


def _words(content: bytes) -> str:
    """The beginning of an answer's error: of its `error`, or of the answer itself."""
    found = str(_object(content).get("error") or "") or content[:500].decode("utf-8", "replace")
    return found[:500] or "an empty answer"


def _object(content: bytes) -> dict[str, Any]:
    """The JSON object of an answer; empty for any other answer."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def listen_at(path: Path) -> socket.socket:
    """A Unix socket for a server, which reaches nobody who may not enter its folder. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX)
    with _short_name(path) as name:
        listener.bind(name)
    listener.listen()
    return listener


@contextmanager
def _short_name(path: Path) -> Iterator[str]:
    """A name of a socket's file: it has at most 107 bytes, and a path may have more."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}" if LINUX else str(path)
    finally:
        os.close(folder)


class _ServerConnection(http.client.HTTPConnection):
    """A connection to a server of this machine."""

    def __init__(self, address: Address, seconds: float) -> None:
        super().__init__("127.0.0.1", address if isinstance(address, int) else 0, timeout=seconds)
        self._address = address

    def connect(self) -> None:
        if isinstance(self._address, int):
            super().connect()
            return
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        with _short_name(self._address) as name:
            self.sock.connect(name)


def _ask(
    address: Address,
    method: str,
    route: str,
    *,
    seconds: float,
    body: bytes | None = None,
    content_type: str = "",
) -> tuple[HTTPStatus, str, bytes]:
    """One exchange with a server of this machine: status, type and content of its answer.

    Raises OSError and HTTPException.
    """
    connection = _ServerConnection(address, seconds)
    try:
        connection.connect()
        opened = connection.sock  # the connection itself lets go of it while the answer is read
        with deadline(seconds, lambda: opened) as expiry:
            headers = {"Content-Type": content_type} if content_type else {}
            connection.request(method, route, body=body, headers=headers)
            answer = connection.getresponse()
            content = answer.read(LARGEST_ANSWER + 1)
        if expiry.passed:
            raise TimeoutError("it takes too long")
        if len(content) > LARGEST_ANSWER:
            raise http.client.HTTPException(f"the answer is larger than {LARGEST_ANSWER} bytes")
        return HTTPStatus(answer.status), answer.getheader("Content-Type", ""), content
    except ValueError as error:
        raise http.client.HTTPException(f"it answered with no status of HTTP: {error}") from error
    finally:
        connection.close()


def last_words(output: Iterable[str]) -> str:
    """The end of a server's output, or the error in it, for a message."""
    return "\n".join(reason(output)) or "It wrote nothing."
