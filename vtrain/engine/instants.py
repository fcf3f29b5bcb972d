"""Instants as the API writes them."""

from __future__ import annotations

import time
from datetime import datetime

import msgspec


def timestamp() -> str:
    """Now, as the API writes instants: `2026-08-22T10:00:00.123456Z`."""
    return _written(time.time_ns())


def from_epoch(seconds: float) -> str:
    """Seconds since the epoch, as the API writes instants."""
    return _written(int(seconds * 1_000_000_000))


def _written(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest // 1000:06d}Z"


def epoch(instant: str) -> float:
    """An instant of the API in seconds since the epoch."""
    return msgspec.convert(instant, datetime).timestamp()
