"""Instants as the API writes them."""

from __future__ import annotations

import time
from datetime import datetime

import msgspec


def timestamp() -> str:
    """Now, as the API writes instants: `2026-08-22T10:00:00.123456Z`."""
    now = time.time_ns()
    seconds, rest = divmod(now, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest // 1000:06d}Z"


def epoch(instant: str) -> float:
    """An instant of the API in seconds since the epoch."""
    return msgspec.convert(instant, datetime).timestamp()
