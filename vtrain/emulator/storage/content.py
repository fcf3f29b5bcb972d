"""An object's content on its way out."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from vtrain.emulator.storage.refusals import Refusal

SENT_AT_ONCE = 1 << 20
"""Bytes that are read and sent in one step."""
_RANGE = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})")


def read_range(header: str, size: int) -> tuple[int, int] | None:
    """First byte and end of a `Range`; None for all, which is also meant by a range of another form.

    Raises Refusal (416) for one that lies behind the content.
    """
    match = _RANGE.fullmatch(header.strip())
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match.groups()
    start = int(first) if first else max(size - int(last), 0)
    end = min(int(last) + 1, size) if first and last else size
    if start >= end:
        raise Refusal(416, "requestedRangeNotSatisfiable", f"{header} lies outside of {size} bytes.")
    return start, end


class FileContent(Response):
    """The content of an open file, which is closed at the end. Raises OSError if the file became shorter."""

    def __init__(
        self, descriptor: int, span: tuple[int, int] | None, size: int, headers: Mapping[str, str]
    ) -> None:
        self._descriptor = descriptor
        self._start, self._end = span or (0, size)
        about = {"accept-ranges": "bytes", "content-length": str(self._end - self._start)}
        if span is not None:
            about["content-range"] = f"bytes {self._start}-{self._end - 1}/{size}"
        super().__init__(status_code=206 if span else 200, headers={**headers, **about})

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            start = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start", **start})
            if scope["method"] != "HEAD":
                await self._send_content(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            os.close(self._descriptor)

    async def _send_content(self, send: Send) -> None:
        position = self._start
        while position < self._end:
            length = min(SENT_AT_ONCE, self._end - position)
            data = await run_in_threadpool(os.pread, self._descriptor, length, position)
            if not data:
                raise OSError(f"The file ends at {position}, before {self._end}.")
            position += len(data)
            await send({"type": "http.response.body", "body": data, "more_body": True})
