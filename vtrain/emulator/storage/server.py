"""The service at an address."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from vtrain.emulator.storage.app import make_app
from vtrain.emulator.storage.connections import BoundedProtocol
from vtrain.emulator.storage.guard import TOKEN_USER, Admission
from vtrain.errors import UnavailableError

SHUTDOWN_SECONDS = 5
"""How long requests may go on when the service is to end."""
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
    """The URL at which the service answers, with the token that clients send."""
    host, port = listener.getsockname()[:2]
    user = f"{TOKEN_USER}:{token}@" if token else ""
    return f"http://{user}[{host}]:{port}" if ":" in host else f"http://{user}{host}:{port}"


def make_server(home: Path, admission: Admission | None = None) -> uvicorn.Server:
    """The server over the buckets of a home; `run(sockets=[…])` serves until it is told to end."""
    config = uvicorn.Config(
        make_app(home, admission or Admission()),
        http=BoundedProtocol,
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config)


def serve(home: Path, host: str, port: int, admission: Admission, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM, which are then raised here. `ready` is told the URL once it answers."""
    with listen(host, port) as listener:
        server = make_server(home, admission)
        ready(address(listener, admission.token))
        server.run(sockets=[listener])
