"""Docker's SDK: the rest of the Engine API, for calls that are seldom, and the user's logins to registries.

One adapter leads its HTTP session over a Unix socket, TCP, TLS or SSH. The SDK's own needs paramiko for SSH,
and reads a pipe there, without time-outs.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import urllib3.connection
import urllib3.connectionpool
from docker import APIClient
from docker.auth import encode_header, load_config, resolve_authconfig, resolve_repository_name
from docker.constants import DEFAULT_DOCKER_API_VERSION

from vtrain.containers.client import older, open_connection
from vtrain.http_session import BoundedAdapter, tell_exchange

if TYPE_CHECKING:
    from vtrain.containers.address import EngineAddress

CALL_SECONDS = 60
"""The longest time for a call that is not a stream, and for each read of its answer."""
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
        base_url="unix:///var/run/docker.sock",
        version=older(engine_version, DEFAULT_DOCKER_API_VERSION),
        timeout=CALL_SECONDS,
    )
    client.get_adapter(_URL).close()
    client.mount("http+docker://", EngineAdapter(address))
    client.trust_env = False  # .netrc, proxies and CA bundles of the environment are for other hosts
    return client


def registry_login(name: str) -> dict[str, str]:
    """The header with this user's credentials for the registry of an image; empty where there are none.

    From Docker's config.json and its credential helpers. Raises docker.errors.DockerException.
    """
    registry, _ = resolve_repository_name(name.partition("@")[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a helper is missing comes as an error too
        credentials = resolve_authconfig(load_config(), registry)
    return {"X-Registry-Auth": encode_header(credentials).decode()} if credentials else {}
