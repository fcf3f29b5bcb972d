"""Log entries as text: `SEVERITY<TAB>time<TAB>replica<TAB>message`, a line each, as gcloud prints them.

Works on bytes: an entry of many lines costs one `replace`, not one step per line.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from vtrain.messages.log import LogEntry

Style = Callable[[str, bytes], bytes]
"""Dresses up a prefix, given the name of the task."""
Clean = Callable[[bytes], bytes]


class LineFormatter:
    """Turns entries into lines, and joins partial entries of one line again."""

    def __init__(
        self, *, multiline: bool = False, style: Style | None = None, clean: Clean | None = None
    ) -> None:
        """`multiline` leaves newlines inside a message alone; `style` wraps a prefix by task name.

        `clean` makes a message fit for where it is shown.
        """
        self._multiline = multiline
        self._style = style
        self._clean = clean
        self._open: tuple[str, str] | None = None
        self._second = -1
        self._stamp = b""

    def format(self, entry: LogEntry) -> bytes:
        """The entry's lines with their prefixes. A partial line is left open for its continuation."""
        stream = (entry.task_name, entry.stream)
        prefix = self._prefix(entry)
        payload = valid_utf8(entry.payload)
        payload = self._clean(payload) if self._clean else payload
        body = payload if self._multiline else payload.replace(b"\n", b"\n" + prefix)
        head = self._head(stream, prefix)
        self._open = stream if entry.partial else None
        return head + body + (b"" if entry.partial else b"\n")

    def close(self) -> bytes:
        """What ends a line that is still open."""
        ending = b"\n" if self._open else b""
        self._open = None
        return ending

    def _head(self, stream: tuple[str, str], prefix: bytes) -> bytes:
        if self._open == stream:
            return b""
        return self.close() + prefix

    def _prefix(self, entry: LogEntry) -> bytes:
        second = entry.time // 1_000_000_000
        if second != self._second:
            self._second, self._stamp = second, local_time(entry.time).encode()
        task = entry.task_name.encode()
        prefix = b"\t".join((entry.severity.encode(), self._stamp, task, b""))
        return self._style(entry.task_name, prefix) if self._style else prefix


def local_time(nanoseconds: int) -> str:
    """`2026-11-21 09:30:00 +0100`: the local time, as gcloud's stream-logs writes it."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(nanoseconds // 1_000_000_000))


def utc_time(nanoseconds: int) -> str:
    """RFC 3339 in UTC with microseconds."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest // 1000:06d}Z"


def valid_utf8(payload: bytes) -> bytes:
    """The same bytes, with U+FFFD where they are not UTF-8."""
    try:
        payload.decode("utf-8")
    except UnicodeDecodeError:
        return payload.decode("utf-8", "replace").encode()
    return payload


def records(entry: LogEntry, *, multiline: bool = False) -> list[dict[str, Any]]:
    """The entry as documents for `--format`, one a line."""
    common: dict[str, Any] = {
        "timestamp": entry.timestamp or utc_time(entry.time),
        "severity": entry.severity,
        "task_name": entry.task_name,
    }
    if entry.trial_id:
        common["trial_id"] = entry.trial_id
    if entry.json_payload is not None:
        common["json"] = entry.json_payload
    messages = [entry.message] if multiline else entry.message.split("\n")
    return [common | {"message": message} for message in messages]
