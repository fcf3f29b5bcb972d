"""The transforms of times and durations: ``date()``, ``iso()`` and ``duration()``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone, tzinfo
from typing import Any

from vtrain.errors import ConfigError
from vtrain.output.instants import format_duration, parse_duration, parse_timestamp


def date(
    value: Any, format: str = "%Y-%m-%dT%H:%M:%S", unit: str = "1", undefined: str = "", tz: str = ""
) -> str:
    """A timestamp, or a number of seconds since 1970 (divided by `unit`), in strftime's `format`."""
    moment = _moment(value, to_number(unit) or 1)
    if moment is None:
        return undefined
    if format == "%s":
        return repr(moment.timestamp())
    return moment.astimezone(_zone(tz)).strftime(format)


def iso(value: Any, undefined: str = "T") -> str:
    """A timestamp in ISO 8601 with milliseconds and a zone."""
    moment = _moment(value, 1)
    return undefined if moment is None else moment.isoformat(timespec="milliseconds")


def duration(
    find: Callable[[str], object],
    value: Any,
    start: str = "",
    end: str = "",
    parts: str = "3",
    precision: str = "3",
    calendar: str = "true",
    unit: str = "1",
    undefined: str = "",
) -> str:
    """A duration, or the time from key `start` (default: the value) to key `end` (default: now).

    In ISO 8601, with at most `parts` units and `precision` digits after the seconds' point.
    """
    del calendar  # accepted for compatibility: years and months are never used
    seconds = None if start or end else _plain_seconds(value, to_number(unit) or 1)
    if seconds is None:
        begin = _moment(find(start) if start else value, 1)
        finish = _moment(find(end) if end else None, 1) or datetime.now(timezone.utc)
        seconds = None if begin is None else (finish - begin).total_seconds()
    if seconds is None:
        return undefined
    return format_duration(seconds, parts=to_integer(parts), precision=to_integer(precision))


def _moment(value: Any, unit: float) -> datetime | None:
    moment = parse_timestamp(value) if isinstance(value, str) else None
    seconds = to_number(value)
    if seconds is None or (moment and len(value) != 4):
        return moment
    try:
        return datetime.fromtimestamp(seconds / unit, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None


def _plain_seconds(value: Any, unit: float) -> float | None:
    seconds = parse_duration(value) if isinstance(value, str) else to_number(value)
    number = to_number(value) if seconds is None else seconds
    return None if number is None else number / unit


def _zone(name: str) -> tzinfo | None:
    if not name or name.upper() in ("UTC", "Z"):
        return timezone.utc
    if name.upper() == "LOCAL":
        return None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = "Use a name such as Europe/Paris, UTC or LOCAL."
        raise ConfigError(f"Unknown time zone [{name}].", hint=hint) from None


def to_integer(text: str) -> int:
    """A transform's argument as a whole number; raises ConfigError if it is none."""
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"A transform needs a whole number, not [{text}].", hint="Correct it.") from None


def to_number(value: Any) -> float | None:
    """A value as a number; None if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
