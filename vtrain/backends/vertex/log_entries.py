"""Entries of Cloud Logging, as the API writes them, made entries of ours."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime
from typing import Any

import msgspec

from vtrain.messages.log import LogEntry

NO_SEVERITY = "DEFAULT"
NO_TASK = "unknown_task"
TRIAL_LABEL = "ml.googleapis.com/trial_id"
_NANO = 1_000_000_000
_LATEST = 2**63 - 1
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|z|[+-]\d\d:\d\d)")


class _Resource(msgspec.Struct):
    labels: dict[str, str] | None = None


class Entry(msgspec.Struct, rename="camel"):
    """What is read of an entry of the API."""

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

    entries: tuple[Entry, ...] | None = None
    next_page_token: str | None = None


def read_entry(entry: Entry) -> LogEntry:
    """One entry. Of a JSON payload the message is taken, as gcloud does; one that is no text, as JSON."""
    labels = (entry.resource.labels if entry.resource else None) or {}
    timestamp = entry.timestamp or entry.receive_timestamp or ""
    return LogEntry(
        time=nanoseconds(timestamp),
        timestamp=timestamp,
        insert_id=entry.insert_id or "",
        severity=entry.severity or NO_SEVERITY,
        task_name=labels.get("task_name") or NO_TASK,
        trial_id=(entry.labels or {}).get(TRIAL_LABEL) or "",
        payload="\n".join(_message(entry).splitlines()).encode("utf-8", "replace"),
    )


def nanoseconds(timestamp: str) -> int:
    """An instant of the API in nanoseconds since 1970, in 64 bits, from any number of digits; 0 for none."""
    match = _INSTANT.fullmatch(timestamp)
    if match is None:
        return 0
    seconds, fraction, zone = match.groups()
    try:
        whole = datetime.fromisoformat(seconds.upper() + ("+00:00" if zone in "Zz" else zone))
    except ValueError:
        return 0
    exact = round(whole.timestamp()) * _NANO + int((fraction or "0").ljust(9, "0"))
    return min(max(exact, 0), _LATEST)


def instant(time_ns: int) -> str:
    """Nanoseconds since the epoch as the API writes instants, with every digit."""
    seconds, fraction = divmod(time_ns, _NANO)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{fraction:09d}Z"


def _message(entry: Entry) -> str:
    if entry.json_payload is None:
        return entry.text_payload or ""
    message = entry.json_payload.get("message")
    if message is None or isinstance(message, str):
        return message or ""
    return json.dumps(message, ensure_ascii=False)
