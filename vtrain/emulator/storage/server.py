"""The service at an address."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from vtrain.emulator.storage.app import make_app
from vtrain.errors import UnavailableError

SHUTDOWN_SECONDS = 5
"""How long requests may go on when the service is to end."""
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


def address(listener: socket.socket) -> str:
    """The URL at which the service answers."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_server(home: Path) -> uvicorn.Server:
    """The server over the buckets of a home; `run(sockets=[…])` serves until it is told to end."""
    config = uvicorn.Config(
        make_app(home),
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config)


def serve(home: Path, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM, which are then raised here. `ready` is told the URL once it answers."""
    with listen(host, port) as listener:
        server = make_server(home)
        ready(address(listener))
        server.run(sockets=[listener])
