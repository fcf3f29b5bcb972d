"""The body of a `multipart` upload: a JSON document and the content, read as they come."""

from __future__ import annotations

import re
from typing import Any

from vtrain.emulator.storage.call import read_json
from vtrain.emulator.storage.refusals import Refusal, invalid

LARGEST_HEAD = 1 << 20
"""Bytes before the content."""
_HEAD = re.compile(
    rb"\s*--(?P<boundary>[^\r\n]+?)[ \t]*(?P<newline>\r?\n)"
    rb"(?:[^\r\n]+(?P=newline))*(?P=newline)(?P<document>.*?)"
    rb"(?P=newline)--(?P=boundary)[ \t]*(?P=newline)"
    rb"(?P<headers>(?:[^\r\n]+(?P=newline))*)(?P=newline)",
    re.DOTALL,
)
"""The boundary is that of the body's first line: clients quote it in several ways in the request's header."""


class MultipartBody:
    """Takes the bytes of a body and gives those of the content.

    `document` and `content_type` are there when the first byte of the content is.
    """

    def __init__(self) -> None:
        self.document: dict[str, Any] = {}
        self.content_type = ""
        self._buffer = b""
        self._end = b""
        self._ended = False

    def feed(self, data: bytes) -> bytes:
        """What these bytes add to the content. Raises Refusal."""
        self._buffer += data
        if not self._end and not self._read_head():
            return b""
        if self._ended:
            return b""
        content, mark, _ = self._buffer.partition(self._end)
        self._ended = bool(mark)
        kept = 0 if mark else len(self._end) - 1
        cut = max(len(content) - kept, 0)
        self._buffer = content[cut:]
        return content[:cut]

    def close(self) -> None:
        """Raise Refusal unless the content has come to its end."""
        if not self._ended:
            raise invalid("The multipart body breaks off.")

    def _read_head(self) -> bool:
        head = _HEAD.match(self._buffer)
        if head is None:
            if len(self._buffer) > LARGEST_HEAD:
                raise Refusal(400, "parseError", "The body is not multipart/related with two parts.")
            return False
        self._buffer = self._buffer[head.end() :]
        self._end = head["newline"] + b"--" + head["boundary"]
        self.document = read_json(head["document"])
        found = re.search(rb"^content-type:\s*(.+?)\s*$", head["headers"], re.IGNORECASE | re.MULTILINE)
        self.content_type = found[1].decode("latin-1") if found else ""
        return True
