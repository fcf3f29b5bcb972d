"""Entries of Cloud Logging, made entries of ours, and the cursor: how far a log was read.

A look is one question and its pages. Entries become visible later than their timestamps say, and not in
order. So every look begins a while before the newest entry that was seen, and leaves out what was seen.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import msgspec

from vtrain import times
from vtrain.messages.log import ATTEMPT_LABEL, STREAM_LABEL, LogEntry

NO_SEVERITY = "DEFAULT"
NO_TASK = "unknown_task"
TRIAL_LABEL = "ml.googleapis.com/trial_id"
_LATEST = 2**63 - 1
"""The largest number that a cursor holds, in MessagePack."""

FIRST = 3600 * 1_000_000_000
"""The time at which the first look begins, in nanoseconds since the epoch; gcloud has the same."""
REMEMBERED = 500
"""The number of entries that are remembered, so that a look that finds nothing new is one page."""
LOOKS_AT_END = 2
"""The number of looks in a row that have to find nothing after a job's end."""


class _Resource(msgspec.Struct):
    labels: dict[str, str] | None = None


class ServiceEntry(msgspec.Struct, rename="camel"):
    """The fields of an API log entry that vtrain reads."""

    timestamp: str | None = None
    receive_timestamp: str | None = None
    insert_id: str | None = None
    severity: str | None = None
    resource: _Resource | None = None
    labels: dict[str, str] | None = None
    text_payload: str | None = None
    json_payload: dict[str, Any] | None = None


class Answer(msgspec.Struct, rename="camel"):
    """A page of entries."""

    entries: tuple[ServiceEntry, ...] | None = None
    next_page_token: str | None = None


def read_entry(entry: ServiceEntry) -> LogEntry:
    """One entry. Of a JSON payload the message is taken, as gcloud does; one that is no text, as JSON."""
    labels = (entry.resource.labels if entry.resource else None) or {}
    timestamp = entry.timestamp or entry.receive_timestamp or ""
    own = entry.labels or {}
    attempt = own.get(ATTEMPT_LABEL, "")
    return LogEntry(
        time=nanoseconds(timestamp),
        timestamp=timestamp,
        insert_id=entry.insert_id or "",
        severity=entry.severity or NO_SEVERITY,
        task_name=labels.get("task_name") or NO_TASK,
        trial_id=own.get(TRIAL_LABEL) or "",
        attempt=int(attempt) if attempt.isdecimal() and len(attempt) < 10 else 0,
        stream=own.get(STREAM_LABEL) or "stdout",
        payload="\n".join(_message(entry).splitlines()).encode("utf-8", "replace"),
    )


def nanoseconds(timestamp: str) -> int:
    """An instant of the API in nanoseconds since 1970, in 64 bits, from any number of digits; 0 for none."""
    try:
        return min(max(times.nanoseconds(timestamp), 0), _LATEST)
    except ValueError:
        return 0


def _message(entry: ServiceEntry) -> str:
    if entry.json_payload is None:
        return entry.text_payload or ""
    message = entry.json_payload.get("message")
    if message is None or isinstance(message, str):
        return message or ""
    return json.dumps(message, ensure_ascii=False)


class ServicePlace(msgspec.Struct, array_like=True):
    """The place in a log up to which it was read."""

    newest: int = 0
    """The latest time seen, in nanoseconds."""
    forgotten: int = 0
    """The time from which on `seen` is complete, in nanoseconds."""
    seen: list[tuple[int, str]] = []
    """The entries that are known again, in order."""
    lower: int = 0
    """The time at which the look under way began, in nanoseconds."""
    filter: str = ""
    bounded: bool = False
    """Whether the look under way leaves out what is young."""
    page_token: str = ""
    looks: int = 0
    news: bool = False
    """Whether the look under way has found something."""
    quiet: int = 0
    """The number of looks after the end that found nothing."""
    answered: float = 0.0
    """When Cloud Logging last answered, or the end was seen; in seconds."""
    resume: float = 0.0
    """Cloud Logging is not asked before this time, in seconds."""
    failures: int = 0
    ended: float = 0.0
    """When the job ended, in seconds; 0: it has not."""
    closed: bool = False
    """Whether nothing more can be read."""
    pages: int = 0
    """The pages of the look under way."""

    def begin_look(self, filter_text: str, lower: int, *, bounded: bool) -> None:
        """A new look: its filter, the time from which on it asks, and whether it leaves out what is young."""
        self.filter, self.lower, self.bounded, self.news = filter_text, lower, bounded, False
        self.pages = 0

    def begin_at(self, since: int, overlap: int) -> int:
        """The time at which the next look begins, not before `since`."""
        if not self.newest:
            return since or FIRST
        return max(self.newest - overlap, self.forgotten, since)

    def take(self, entries: Sequence[LogEntry], overlap: int) -> tuple[LogEntry, ...]:
        """The new entries of a page, in order; they are remembered from now on."""
        known = set(self.seen)
        fresh = []
        for entry in sorted(entries, key=_key):
            if _key(entry) not in known and entry.time >= self.lower:
                known.add(_key(entry))
                fresh.append(entry)
        self.newest = max([self.newest, *(entry.time for entry in fresh)])
        self._remember(sorted(known), overlap)
        self.news = self.news or bool(fresh)
        return tuple(fresh)

    def end_page(self, next_page_token: str) -> None:
        """A page was read; without a token it was the last of its look."""
        self.page_token = next_page_token
        if not next_page_token:
            everything = self.ended and not self.bounded
            self.quiet = self.quiet + 1 if everything and not self.news else 0
            self.end_look()

    def end_look(self) -> None:
        """Nothing more is asked with this filter."""
        self.looks += 1
        self.filter = self.page_token = ""

    def _remember(self, known: list[tuple[int, str]], overlap: int) -> None:
        kept = [key for key in known if key[0] >= self.newest - overlap]
        if len(kept) > REMEMBERED:
            self.forgotten = max(self.forgotten, kept[-REMEMBERED - 1][0] + 1)
            kept = kept[-REMEMBERED:]
        self.seen = kept

    @property
    def settled(self) -> bool:
        """Whether the whole log of an ended job was read, or nothing more can be."""
        return self.closed or self.quiet >= LOOKS_AT_END

    def encode(self) -> str:
        """The place as a cursor."""
        return base64.b64encode(msgspec.msgpack.encode(self)).decode()


def read_place(cursor: str) -> ServicePlace:
    """The place of a cursor; the beginning for an empty one."""
    return msgspec.msgpack.decode(base64.b64decode(cursor), type=ServicePlace) if cursor else ServicePlace()


def _key(entry: LogEntry) -> tuple[int, str]:
    """The identity of an entry: its time and id. Without an id of the service, its text has to do."""
    return entry.time, entry.insert_id or f"{entry.task_name} {entry.message}"
