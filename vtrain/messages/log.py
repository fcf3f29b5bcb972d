"""Log entries: what replicas wrote, as Cloud Logging would hold it."""

from __future__ import annotations

from typing import Any

import msgspec

MAX_ENTRY_BYTES = 256 * 1024
"""An entry holds at most this much (Cloud Logging's own limit); longer lines come in parts."""


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One or more whole lines that a replica wrote to one stream in one go.

    `payload` keeps the bytes as they came, without the last newline; lines inside are separated by
    newlines. `time` is in nanoseconds since the epoch, and `timestamp` the same as a service wrote it (empty
    where none did). `insert_id` is unique in the job and names the place in the log. `partial` means that
    the last line goes on in the next entry of the same task and stream. A line that is a JSON object is an
    entry of its own, with `json_payload`, `severity` and message lifted out of it.
    """

    time: int
    insert_id: str
    severity: str
    task_name: str
    payload: bytes
    trial_id: str = ""
    attempt: int = 0
    stream: str = "stdout"
    json_payload: dict[str, Any] | None = None
    partial: bool = False
    timestamp: str = ""

    @property
    def message(self) -> str:
        """The text: bytes that are not UTF-8 are shown as U+FFFD."""
        return self.payload.decode("utf-8", "replace")


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What to read of a job's log: from `cursor` on (empty: from the start), at most about `limit` bytes.

    `task_name` and `trial_id` select, empty selects all; `since` is a time in nanoseconds.
    With `partial`, the beginning of a line whose end has not come yet is handed out too. With `raw`
    entries are what was written, untouched: their payloads in a row are a stream's very bytes, newlines
    included.
    """

    name: str
    task_name: str = ""
    trial_id: str = ""
    since: int = 0
    cursor: str = ""
    limit: int = 4 * 1024 * 1024
    partial: bool = False
    raw: bool = False


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """What there was: entries in order of time, in order of writing per replica, and where to go on.

    With `more` the next page is there at once, else later. An empty page of a job that has ended is the last
    one, unless entries may still be on their way (not `settled`). `trouble` says in a sentence why the log,
    or a part of it, cannot be read; it is no reason to give up the job.
    """

    entries: tuple[LogEntry, ...]
    cursor: str
    more: bool = False
    settled: bool = True
    trouble: str = ""
