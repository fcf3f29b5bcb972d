"""Sessions of `requests` whose every exchange ends at its deadline, and whose answers have a largest size.

`http_limits` has the part that needs no library, for code that speaks HTTP without `requests`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import ReadTimeout, RequestException
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from vtrain import http_limits
from vtrain.errors import UnusableAnswerError

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.auth.transport.requests import AuthorizedSession

USUAL_SECONDS = 60.0
TOKEN_SECONDS = 20.0
"""The deadline of a request for an access token."""
_BLOCK = 64 * 1024
_exchange = threading.local()


def authorized_session(credentials: Credentials, adapter: HTTPAdapter | None = None) -> AuthorizedSession:
    """A session that sends an access token along, and gets new ones within their own deadline."""
    from google.auth.transport.requests import AuthorizedSession

    session = AuthorizedSession(credentials, auth_request=token_request())
    mount(session, adapter or BoundedAdapter())
    return session


def token_request() -> Callable[..., Any]:
    """The request that google-auth's credentials make for a token. Raises its TransportError."""
    from google.auth.transport.requests import Request

    session = Session()
    mount(session, BoundedAdapter())
    request = Request(session)

    def ask(*args: Any, **options: Any) -> Any:
        # The callers inside google-auth have time-outs of two minutes, and hold them for each read.
        return request(*args, **{**options, "timeout": TOKEN_SECONDS})

    return ask


def mount(session: Session, adapter: HTTPAdapter) -> None:
    """Send all requests of the session through the adapter."""
    for scheme in ("https://", "http://"):
        session.mount(scheme, adapter)


class BoundedAdapter(HTTPAdapter):
    """Reads each answer whole, within its deadline: the time-out of the request, for all of the answer.

    Raises requests' ReadTimeout after the deadline, and UnusableAnswerError for an answer that is too large.
    """

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Make the pools, of connections that can be found by the deadline."""
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        """The pools of a proxy."""
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = _POOLS
        return manager

    def send(self, request: PreparedRequest, stream: bool = False, **options: Any) -> Response:  # type: ignore[override]
        """Send one request. With `stream` the caller reads the answer."""
        if stream:
            return super().send(request, stream=True, **options)
        seconds = _seconds(options.get("timeout"), request)
        _exchange.holder = holder = _Holder()
        with http_limits.deadline(seconds, lambda: holder.socket) as expiry:
            try:
                response = super().send(request, stream=True, **options)
                _read(response)
            except (RequestException, AttributeError, ValueError) as error:
                # the layers below say in many ways that a socket has gone
                if not expiry.passed:
                    raise
                raise ReadTimeout(f"no whole answer within {seconds:g} s", request=request) from error
        if expiry.passed:
            raise ReadTimeout(f"no whole answer within {seconds:g} s", request=request)
        return response


class _Holder:
    """The socket that carries an exchange, once it is known."""

    def __init__(self) -> None:
        self.socket: Any = None


def tell_exchange(connected: Any) -> None:
    """Name the socket that carries this thread's exchange; None for one that is not yet connected."""
    holder = getattr(_exchange, "holder", None)
    if holder is not None and connected is not None:
        holder.socket = connected


class _Connection(HTTPConnection):
    def connect(self) -> None:
        """Connect, for this thread's exchange."""
        super().connect()
        tell_exchange(self.sock)

    def putrequest(self, *args: Any, **options: Any) -> Any:
        """Begin a request of this thread's exchange."""
        tell_exchange(self.sock)
        return super().putrequest(*args, **options)


class _SecureConnection(_Connection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


_POOLS = {"http": _Pool, "https": _SecurePool}


def _seconds(timeout: Any, request: PreparedRequest) -> float:
    """The deadline of a request in seconds from now; a large body has more time."""
    parts = timeout if isinstance(timeout, tuple) else (timeout,)
    seconds = sum(part if isinstance(part, int | float) else USUAL_SECONDS for part in parts)
    length = request.headers.get("Content-Length", "0")
    return float(seconds) + int(length) / http_limits.SLOWEST_UPLOAD


def _read(response: Response) -> None:
    """Read the body into the response. Raises UnusableAnswerError for one that is too large."""
    blocks, size = [], 0
    for block in response.iter_content(_BLOCK):
        blocks.append(block)
        size += len(block)
        if size > http_limits.LARGEST_ANSWER:
            response.close()
            address, most = str(response.url).partition("?")[0], http_limits.LARGEST_ANSWER
            raise UnusableAnswerError(f"{address} answered with more than {most} bytes.")
    # The library has no public way to give a response its body.
    response._content = b"".join(blocks)
    response._content_consumed = True
