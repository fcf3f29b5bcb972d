"""The lines of a server about requests: one for each, with status and milliseconds; and its refusals."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vtrain.messages.secrets import masked_text

Tell = Callable[[str], None]
MOST_HOSTS = 1000
LONGEST_PATH = 1000
"""Characters of a path: what a client sends must not fill the log."""


class RequestLog:
    """ASGI middleware that tells of each request, without its token and its query: that may hold others."""

    def __init__(self, app: ASGIApp, tell: Tell) -> None:
        self._app = app
        self._tell = tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = "no answer"

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        path = masked_text(scope["raw_path"].decode("latin-1")[:LONGEST_PATH], (), {})
        with timed(self._tell, lambda: f"{scope['method']} {path} {status}"):
            await self._app(scope, receive, noted)


class OncePerHost:
    """Prints refusals on stderr: of each host the first, as a program may ask it again and again."""

    def __init__(self) -> None:
        self._hosts: set[str] = set()

    def record(self, host: str, sentence: str) -> None:
        """Report that a request to the host was refused."""
        if host not in self._hosts and len(self._hosts) < MOST_HOSTS:
            self._hosts.add(host)
            print(f"Refused: {masked_text(sentence, (), {})}", file=sys.stderr, flush=True)


@contextmanager
def timed(tell: Tell, what: Callable[[], str]) -> Iterator[None]:
    """A block, at the end of which `what` is reported with the time that it took."""
    began = time.monotonic()
    try:
        yield
    finally:
        tell(f"{what()} {(time.monotonic() - began) * 1000:.0f} ms")
