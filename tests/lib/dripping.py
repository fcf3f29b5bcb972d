"""A service at an address of this machine whose answers never come to an end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nApi-Version: 1.44\r\n"
DRIP_SECONDS = 0.02
HEADERS = (HEAD + b"X-Slow: ", b"x")
"""What is sent first, and what is sent again and again: here the headers do not end."""
BODY = (HEAD + b"Content-Length: 1000000\r\n\r\n{", b" ")
ENDLESS_BODY = (HEAD + b"Connection: close\r\n\r\n{", b" ")
CHUNKS = (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n")
DRIPS = {"headers": HEADERS, "body": BODY, "until it closes": ENDLESS_BODY, "chunks": CHUNKS}
FLOODS = {
    "body": (HEAD + b"Content-Length: 100000000000\r\n\r\n{", b" " * 65536),
    "until it closes": (HEAD + b"Connection: close\r\n\r\n{", b" " * 65536),
    "chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n"),
}


@contextmanager
def answering(first: bytes, again: bytes, *, pause: float = DRIP_SECONDS) -> Iterator[str]:
    """The address of a service that answers each request so, until its client hangs up."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads: list[threading.Thread] = []

        def accept() -> None:
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threads.append(_start(_answer, connection, first, again, pause, over))

        accepting = _start(accept)
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            for thread in (accepting, *threads):
                thread.join()


def _start(run: Callable[..., None], *words: Any) -> threading.Thread:
    thread = threading.Thread(target=run, args=words)
    thread.start()
    return thread


def _answer(
    connection: socket.socket, first: bytes, again: bytes, pause: float, over: threading.Event
) -> None:
    with connection:
        connection.settimeout(30)
        try:
            request = b""
            while b"\r\n\r\n" not in request:
                data = connection.recv(65536)
                if not data:
                    return
                request += data
            connection.sendall(first)
            while not over.wait(pause):
                connection.sendall(again)
        except OSError:
            return  # the client has hung up
