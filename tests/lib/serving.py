"""A server of the tests, which answers in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer

POLL_SECONDS = 0.01
"""How long the end of a server may wait for its thread."""


@contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """A block during which the server answers; it is closed afterwards, and its thread has ended."""
    thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
