"""The transforms of times and durations: ``date()``, ``iso()`` and ``duration()``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime, timezone, tzinfo
from typing import Any

from vtrain.errors import ConfigError
from vtrain.output.language.keys import get, parse_path
from vtrain.output.language.value_transforms import MOST_DIGITS, to_integer, to_number
from vtrain.times import format_duration, parse_duration, parse_timestamp

_EXTENSION = re.compile(r"%([1-9]?)([EO]?)([fsz])")


def date(
    value: Any,
    format: str = "%Y-%m-%dT%H:%M:%S",
    unit: str = "1",
    undefined: str = "",
    tz: str = "",
    tz_default: str = "",
) -> str:
    """A timestamp, or a number of seconds since 1970 (divided by `unit`), in strftime's `format`.

    Beside strftime's own there are ``%3f`` (digits of a second), ``%Ez`` (Z or +HH:MM) and ``%Oz`` (+HH:MM).
    """
    seconds = to_number(value)
    default = _zone(tz_default)
    if seconds is not None:
        moment = _since_1970(seconds / (to_number(unit) or 1), default)
        return undefined if moment is None else _formatted(moment, format)
    moment = parse_timestamp(value, default) if isinstance(value, str) else _from_parts(value, default)
    if moment is None:
        return undefined
    return _formatted(moment.astimezone(_zone(tz)) if tz else moment, format)


def iso(value: Any, undefined: str = "T") -> str:
    """A timestamp in ISO 8601 with milliseconds and a zone."""
    return date(value, "%Y-%m-%dT%H:%M:%S.%3f%Oz", undefined=undefined)


def _formatted(moment: datetime, format: str) -> str:
    """The moment in `format`; the extensions are replaced first."""

    def extended(found: re.Match[str]) -> str:
        digits, style, letter = found.groups()
        if letter == "f":
            return f"{moment.microsecond:06d}"[: int(digits or 6)]
        if letter == "s":
            return _seconds(moment, digits)
        offset = moment.strftime("%z")
        if style == "E" and offset in ("", "+0000"):
            return "Z"
        return f"{offset[:3]}:{offset[3:]}" if style and offset else offset

    return moment.strftime(_EXTENSION.sub(extended, format))


def _seconds(moment: datetime, digits: str) -> str:
    return (
        f"{moment.timestamp():.{digits or 1}f}"
        if digits or not moment.microsecond
        else repr(moment.timestamp())
    )


def _from_parts(value: Any, zone: tzinfo | None) -> datetime | None:
    """The time in an object with at least three of year, month, day, hour, minute and second."""
    if not isinstance(value, dict):
        return None
    now = datetime.now(zone)
    names = ("year", "month", "day", "hour", "minute", "second")
    given = {name: to_integer(value[name]) for name in names if value.get(name) is not None}
    if len(given) < 3 or None in given.values():
        return None
    try:
        numbers = [given.get(name, getattr(now, name)) or 0 for name in names]
        return datetime(*numbers, tzinfo=zone)  # type: ignore[arg-type, misc]
    except (ValueError, OverflowError):
        return None


def duration(
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
    seconds = None if start else _plain_seconds(value, to_number(unit) or 1)
    if seconds is None:
        begin = _moment(get(value, parse_path(start)) if start else value)
        finish = _moment(get(value, parse_path(end))) if start and end else None
        seconds = None if begin is None else ((finish or datetime.now(timezone.utc)) - begin).total_seconds()
    most, digits = to_integer(parts), to_integer(precision)
    if seconds is None or not math.isfinite(seconds) or most is None or digits is None:
        return undefined
    return format_duration(seconds, parts=most, precision=max(0, min(digits, MOST_DIGITS)))


def _moment(value: Any) -> datetime | None:
    return parse_timestamp(value) if isinstance(value, str) else None


def _since_1970(seconds: float, zone: tzinfo | None) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return None


def _plain_seconds(value: Any, unit: float) -> float | None:
    number = to_number(value)
    if number is not None:
        return number / unit
    return parse_duration(value) if isinstance(value, str) else None


def _zone(name: str) -> tzinfo | None:
    if name.upper() in ("", "LOCAL", "L"):
        return None
    if name.upper() in ("UTC", "Z"):
        return timezone.utc
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = "Use a name such as Europe/Paris, UTC or LOCAL."
        raise ConfigError(f"Unknown time zone [{name}].", hint=hint) from None


TRANSFORMS: tuple[Callable[..., str], ...] = (date, duration, iso)
