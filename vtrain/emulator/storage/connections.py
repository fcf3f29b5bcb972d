"""Connections of clients that may mean ill: what comes before a body is bounded in size and in time."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 64 * 1024
"""Bytes of a request line and its headers."""
HEAD_SECONDS = 30.0
"""Seconds for a request line and its headers, from the connection or from the answer before."""
_TOO_LARGE = "The headers are too large."


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which ends a connection whose request does not come to the end of its headers."""

    _in_head = False
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes, and end the connection where a head does not end."""
        goes_on = self._in_head
        super().data_received(data)
        self._head_bytes += len(data) if goes_on and self._in_head else 0
        if self._in_head and self._head_bytes > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response(_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, unless there are too many. Raises ValueError, which the parser answers with 400."""
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > LARGEST_HEAD:
            raise ValueError(_TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Let a body take its time, which is bounded where it is read."""
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is there."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_timer()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._stop_timer()
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
