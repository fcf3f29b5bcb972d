"""Log entries: the output of replicas, in the form of Cloud Logging."""

from __future__ import annotations

import re
from typing import Any

import msgspec

DETAIL_MARGIN = "    "
"""The beginning of a line that a tool wrote while a job was prepared, such as an installer."""
STREAM_LABEL, ATTEMPT_LABEL = "vtrain/stream", "vtrain/attempt"
"""Labels of entries of emulated jobs: Cloud Logging itself knows neither."""
SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
"""`google.logging.type.LogSeverity`, whose numbers are hundreds."""
MAX_ENTRY_BYTES = 256 * 1024
"""The largest entry, by Cloud Logging's own limit; longer lines are split."""
_REDRAWING = re.compile(rb"\x1b\[[0-9]{0,3}[A-GK]|\x1b\[\?25[hl]|\x08")
"""The control sequences that redraw a line; programs also use the carriage return."""
_BAR = re.compile(r"[0-9]%\s?\||[\u2501\u2588-\u258f]{3}|\[[=#>.-]{10,}\]")


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One or more whole lines that a replica wrote to one stream in one go.

    `payload` is the written bytes without the last newline; lines inside are separated by newlines. `time` is
    in nanoseconds since the epoch, and `timestamp` is the same as a service wrote it (empty without one).
    `insert_id` is unique in the job and gives the position in the log. With `partial`, the last line
    continues in the next entry of the same task and stream. A line that is a JSON object is a separate entry,
    with `json_payload`, `severity` and message taken from the object.
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

    def __str__(self) -> str:
        return self.message

    @property
    def message(self) -> str:
        """The payload as text, with U+FFFD for bytes that are not UTF-8."""
        return self.payload.decode("utf-8", "replace")


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a job's log from `cursor` on (empty: from the start), at most about `limit` bytes.

    `task_name` and `trial_id` select entries, empty ones select all; `since` is a time in nanoseconds. With
    `partial`, the page includes the start of an unfinished line. With `by_end`, a line has the time of its
    newline: one that is redrawn for long is not dated back. With `raw`, the payloads of a stream's
    entries, one after another, are exactly the written bytes, newlines included.
    """

    name: str
    task_name: str = ""
    trial_id: str = ""
    since: int = 0
    cursor: str = ""
    limit: int = 4 * 1024 * 1024
    partial: bool = False
    raw: bool = False
    by_end: bool = False


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """Entries in order of time, those of one replica in order of writing, and the next page's cursor.

    A page with entries has another cursor than its query, else its entries count as repeated. With `more` the
    next page exists already. An empty page of a job that has ended is the last one, unless entries may still
    arrive (not `settled`). `trouble` is a sentence about a log that cannot be read, or not in full; the job
    is followed all the same.
    """

    entries: tuple[LogEntry, ...]
    cursor: str
    more: bool = False
    settled: bool = True
    trouble: str = ""


def is_bar(line: str) -> bool:
    """Whether a line is a progress bar of tqdm, Rich, pip or Keras: on stderr, and no error."""
    return _BAR.search(line) is not None


class LastStates:
    """Entries as a terminal would show them at last; of a redrawn line that goes on, the last state waits."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], bytes] = {}

    def of(self, entry: LogEntry) -> bytes | None:
        """The lines of the next entry; None where a later one has more of its only line."""
        stream = (entry.task_name, entry.stream)
        payload = self._waiting.pop(stream, b"") + entry.payload
        if entry.partial and b"\r" in payload:
            self._waiting[stream] = last_frame(payload)
            return None
        return last_states(payload)


def last_states(lines: bytes) -> bytes:
    """The lines as a terminal would show them at last: of one that was redrawn, the last state."""
    if b"\r" not in lines:
        return lines
    return b"\n".join(last_frame(line).rstrip(b"\r") for line in lines.split(b"\n"))


def last_frame(line: bytes) -> bytes:
    """The last state of a line that was redrawn. A carriage return at its end is kept: another may follow."""
    if b"\r" not in line:
        return line
    body = line.rstrip(b"\r")
    return _REDRAWING.sub(b"", body[body.rfind(b"\r") + 1 :]) + line[len(body) :][:1]
