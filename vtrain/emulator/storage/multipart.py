"""The body of a `multipart` upload: a JSON document and the content, read as they come."""

from __future__ import annotations

import re
from typing import Any

from vtrain.emulator.storage.call import read_json
from vtrain.emulator.storage.refusals import Refusal, invalid

LARGEST_HEAD = 1 << 20
"""Bytes before the content."""


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
        """Take the document and the headers of the content off the buffer, once they are there."""
        head = _split_head(self._buffer[: LARGEST_HEAD + 1])
        if head is None:
            if len(self._buffer) > LARGEST_HEAD:
                raise Refusal(400, "parseError", "The body is not multipart/related with two parts.")
            return False
        self._end, document, headers, length = head
        self._buffer = self._buffer[length:]
        self.document = read_json(document)
        found = re.search(rb"^content-type:([^\r\n]*)", headers, re.IGNORECASE | re.MULTILINE)
        self.content_type = found[1].strip().decode("latin-1") if found else ""
        return True


def _split_head(data: bytes) -> tuple[bytes, bytes, bytes, int] | None:
    """The mark that ends each part, the document, the headers of the content, and where that begins.

    The boundary is that of the first line: clients quote it in several ways in the request's header.
    """
    skipped = len(data) - len(data.lstrip())
    first = data.find(b"\n", skipped)
    if first < 0 or not data.startswith(b"--", skipped):
        return None
    line = data[skipped:first]
    if not line.strip(b"- \t\r"):
        return None
    newline = b"\r\n" if line.endswith(b"\r") else b"\n"
    mark = newline + line.rstrip()
    blank = data.find(newline * 2, first - len(newline) + 1)
    part = data.find(mark, blank + len(newline)) if blank >= 0 else -1
    headers = data.find(newline, part + len(mark)) if part >= 0 else -1
    end = data.find(newline * 2, headers) if headers >= 0 else -1
    if end < 0 or data[part + len(mark) : headers].strip(b" \t"):
        return None
    return mark, data[blank + 2 * len(newline) : part], data[headers:end], end + 2 * len(newline)
