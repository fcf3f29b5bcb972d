"""The way of the SDK's HTTP session to the engine. What vtrain uses of the SDK's inside is all here.

One adapter serves paths, TCP, TLS and SSH. The SDK's own needs paramiko for SSH, and reads a pipe there,
without time-outs.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import urllib3.connection
import urllib3.connectionpool
from docker import APIClient
from docker.auth import get_config_header, resolve_repository_name
from docker.constants import DEFAULT_DOCKER_API_VERSION
from docker.errors import DockerException

from vtrain.containers.connection import open_connection
from vtrain.http_adapter import BoundedAdapter, tell_exchange
from vtrain.http_limits import LARGEST_ANSWER

if TYPE_CHECKING:
    from vtrain.containers.address import EngineAddress

CALL_SECONDS = 60
"""How long a call that is not a stream may take, and each read of its answer."""
CONNECT_SECONDS = 10
_URL = "http+docker://localhost"


class EngineConnection(urllib3.connection.HTTPConnection):
    """HTTP over whatever leads to the engine."""

    def __init__(self, *args: Any, address: EngineAddress, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._address = address

    def connect(self) -> None:
        """Connect. Raises OSError."""
        seconds = self.timeout if isinstance(self.timeout, int | float) else None
        self.sock = open_connection(self._address, seconds)
        tell_exchange(self.sock)

    def putrequest(self, *args: Any, **options: Any) -> Any:
        """Begin a request of this thread's exchange."""
        tell_exchange(self.sock)
        return super().putrequest(*args, **options)


class EngineConnectionPool(urllib3.connectionpool.HTTPConnectionPool):
    """Connections to one engine."""

    ConnectionCls = EngineConnection


class EngineAdapter(BoundedAdapter):
    """Sends a session's requests to one engine, whatever host their URL names."""

    def __init__(self, address: EngineAddress) -> None:
        super().__init__()
        self._pool = EngineConnectionPool("localhost", maxsize=10, address=address)

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> Any:
        """The pool (requests 2.32 and later)."""
        return self._pool

    def get_connection(self, *_: Any, **__: Any) -> Any:
        """The pool (requests before 2.32)."""
        return self._pool

    def request_url(self, request: Any, _: Any) -> str:
        """The path alone: no proxy is asked."""
        return str(request.path_url)

    def close(self) -> None:
        """Close what is idle."""
        super().close()
        self._pool.close()


def make_client(address: EngineAddress, engine_version: str) -> APIClient:
    """A client that speaks the newest API version that the engine and the SDK both know.

    Nothing is asked yet. Raises docker.errors.DockerException for an engine that is too old.
    """
    client = APIClient(
        base_url="unix:///var/run/docker.sock", version=_common_version(engine_version), timeout=CALL_SECONDS
    )
    client.get_adapter(_URL).close()
    client.mount("http+docker://", EngineAdapter(address))
    client.trust_env = False  # .netrc, proxies and CA bundles of the environment are for other hosts
    return client


def _common_version(engine_version: str) -> str:
    def order(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in version.split("."))

    try:
        return str(min(engine_version, DEFAULT_DOCKER_API_VERSION, key=order))
    except ValueError:
        return str(DEFAULT_DOCKER_API_VERSION)


def post_stream(
    client: APIClient,
    path: str,
    *names: str,
    params: Mapping[str, Any],
    headers: Mapping[str, str] = {},
    data: Iterable[bytes] | bytes = b"",
) -> Generator[dict[str, Any], None, None]:
    """The messages that the engine answers a POST with, as they come; each is a JSON object.

    Closing the generator ends the request: the engine stops what it does. Reads wait as long as the engine
    is silent. Raises what `engine_errors` knows.
    """
    response = client.post(
        client._url(path, *names),
        params=params,
        headers=headers,
        data=data,
        stream=True,
        timeout=(CONNECT_SECONDS, None),
    )
    with response:
        client._raise_for_status(response)
        rest = b""
        for block in response.iter_content(None):
            *lines, rest = (rest + block).split(b"\n")
            if len(rest) > LARGEST_ANSWER:
                raise DockerException(f"a line of its answer has more than {LARGEST_ANSWER} bytes")
            for line in lines:
                if line.strip():
                    yield json.loads(line)
        if rest.strip():
            yield json.loads(rest)


def registry_login(client: APIClient, name: str) -> dict[str, str]:
    """The header with this user's credentials for the registry of an image; empty where there are none.

    From Docker's config.json and its credential helpers. Raises docker.errors.DockerException.
    """
    registry, _ = resolve_repository_name(name.partition("@")[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a helper is missing comes as an error too
        header = get_config_header(client, registry)
    return {"X-Registry-Auth": header.decode()} if header else {}


__all__ = ["DockerException", "make_client", "post_stream", "registry_login"]
