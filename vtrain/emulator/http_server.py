"""The HTTP server: its socket, its limits, and its protocol with a limit on headers."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from vtrain.emulator.proxy import LED, Proxy
from vtrain.emulator.request_log import RequestLog, Tell
from vtrain.errors import UnavailableError

SHUTDOWN_SECONDS = 5
"""The time that running requests get when the service shuts down."""
MOST_CONNECTIONS = 400
"""Clients at the same time. Each may hold a connection and a file, and a process has 1024 descriptors."""
_BACKLOG = 128


def listen(host: str, port: int) -> socket.socket:
    """A socket at that address; port 0 is any free one. Raises UnavailableError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is named
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        return listener
    except OSError as error:
        listener.close()
        raise UnavailableError(
            f"Cannot listen on {host}:{port}: {error.strerror or error}.", hint="Take another --port, or 0."
        ) from error


def address(listener: socket.socket, token: str = "") -> str:
    """The URL at which the service answers, with the token as the first part of its path."""
    host, port = listener.getsockname()[:2]
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"http://{place}/{token}" if token else f"http://{place}"


def make_server(app: ASGIApp, proxy: Proxy | None = None) -> uvicorn.Server:
    """The server of an application, within the limits of this module; `run(sockets=[…])` serves.

    With a proxy it also leads clients of Google's hosts to the application.
    """
    config = uvicorn.Config(
        app,
        http=partial(BoundedProtocol, proxy=proxy),  # type: ignore[arg-type]
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        log_config=None,
        log_level="error",  # its warnings are about clients that speak no HTTP
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config)


def serve_app(
    app: ASGIApp, host: str, port: int, ready: Callable[[str], None], tell: Tell, token: str = ""
) -> None:
    """Serve as `run_until_signal` does. `ready` gets the URL once it answers.

    `tell` gets a line about each request.
    """
    with listen(host, port) as listener:
        server = make_server(RequestLog(app, tell))
        ready(address(listener, token))
        run_until_signal(server, listener)


def run_until_signal(server: uvicorn.Server, listener: socket.socket) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP, which are then raised here. Only for the main thread."""
    usual = signal.getsignal(signal.SIGHUP)
    if not callable(usual):  # it is ignored, or ends the process at once
        server.run(sockets=[listener])
        return
    came: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        server.should_exit = True

    # uvicorn does so for the other two. An exception of a handler would break off its event loop.
    signal.signal(signal.SIGHUP, end)
    try:
        server.run(sockets=[listener])
    finally:
        signal.signal(signal.SIGHUP, usual)
    for number in came[:1]:
        signal.raise_signal(number)


LARGEST_HEAD = 64 * 1024
"""Bytes of a request line and its headers."""
HEAD_SECONDS = 30.0
"""Seconds for a request line and its headers, from the connection or from the answer before."""
_IDENTITY = re.compile(rb"\r\nTransfer-Encoding: identity(?=\r\n|$)", re.IGNORECASE)
_TOO_LARGE = "The headers are too large."


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which also closes a connection whose headers are too large or take too long."""

    _in_head = False
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, proxy: Proxy | None = None, is_led: bool = False, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._proxy = proxy
        self._is_led = is_led
        self._taken: asyncio.Task[None] | None = None
        if is_led:
            self.parser.set_dangerous_leniencies(lenient_chunked_length=True)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the first request."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Parse bytes, and refuse headers that are too large."""
        goes_on = self._in_head
        if self._is_led and not goes_on and not (self.cycle and self.cycle.more_body):
            # TensorFlow sends it, and the parser refuses it: it stands for no encoding.
            head, end, body = data.partition(b"\r\n\r\n")
            data = _IDENTITY.sub(b"", head) + end + body
        super().data_received(data)
        self._head_bytes += len(data) if goes_on and self._in_head else 0
        if self._in_head and self._head_bytes > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response(_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Count the bytes of a new request's headers."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        if self._is_led:
            self.scope[LED] = True  # type: ignore[literal-required]

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, unless there are too many. Raises ValueError, which the parser answers with 400."""
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > LARGEST_HEAD:
            raise ValueError(_TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop the timer: `bodies` limits the time of a body. The proxy takes a CONNECT over."""
        self._in_head = False
        self._stop_timer()
        if self.parser.get_method() != b"CONNECT" or self._proxy is None or self.cycle is not None:
            super().on_headers_complete()
            return
        logins = [text.decode("latin-1") for name, text in self.headers if name == b"proxy-authorization"]
        make_http = partial(type(self), self.config, self.server_state, self.app_state, is_led=True)
        self._taken = self._proxy.accept(self.transport, self.url.decode("latin-1"), logins, make_http)
        self._taken.add_done_callback(lambda _: self.connections.discard(self))

    def shutdown(self) -> None:
        """End the connection, as soon as what it was asked is answered; one that the proxy has, at once."""
        if self._taken is None:
            super().shutdown()
        else:
            self._taken.cancel()

    def on_message_complete(self) -> None:
        """End the body of a request, which a CONNECT does not have."""
        if self.cycle is not None:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start the timer for the next request, unless it has begun."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._stop_timer()
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
