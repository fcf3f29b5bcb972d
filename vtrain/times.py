"""Times and durations as text: RFC 3339 timestamps, partial dates, durations."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta, timezone, tzinfo

NANOSECONDS = 1_000_000_000
"""The nanoseconds of a second."""
_RFC_3339 = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|z|[+-]\d\d:\d\d)")
# Every command imports these patterns and few need one, so they are compiled at their first use.
_TIMESTAMP = (
    r"(\d{4})(?:-(\d\d?)(?:-(\d\d?)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*([Zz]|[-+]\d\d:?\d\d)?)?)?)?$"
)
_DURATION = (
    r"(?i)([-+]?)P(?!$)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?"
    r"(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$"
)
_DURATION_UNITS = (365 * 86400, 30 * 86400, 7 * 86400, 86400, 3600, 60, 1)  # seconds in Y M W D H M S
_SECONDS = r"([-+]?\d+(?:\.\d+)?)s$"


def timestamp() -> str:
    """The present time in RFC 3339, as the API writes times: `2026-08-22T10:00:00.123456Z`."""
    return from_nanoseconds(time.time_ns())


def from_epoch(seconds: float, digits: int = 6) -> str:
    """Seconds since 1970 in RFC 3339, with so many digits after the seconds' point."""
    return from_nanoseconds(int(seconds * NANOSECONDS), digits)


def from_nanoseconds(count: int, digits: int = 6) -> str:
    """Nanoseconds since 1970 in RFC 3339, with so many digits after the seconds' point."""
    seconds, rest = divmod(count, NANOSECONDS)
    fraction = f".{rest // 10 ** (9 - digits):0{digits}d}" if digits else ""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + fraction + "Z"


def epoch(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 timestamp. Raises ValueError."""
    return nanoseconds(text) / NANOSECONDS


def took_in_words(start: str, end: str) -> str:
    """The time from one RFC 3339 timestamp to another, or to now if `end` is empty; empty for other texts."""
    try:
        return duration_in_words((epoch(end) if end else time.time()) - epoch(start))
    except ValueError:
        return ""


def nanoseconds(text: str) -> int:
    """Nanoseconds since 1970 of an RFC 3339 timestamp; later digits are cut off. Raises ValueError."""
    match = _RFC_3339.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time in RFC 3339")
    seconds, fraction, zone = match.groups()
    # Python 3.10 reads neither a small letter nor a Z.
    whole = datetime.fromisoformat(seconds.upper() + ("+00:00" if zone in "Zz" else zone))
    return round(whole.timestamp()) * NANOSECONDS + int((fraction or "0").ljust(9, "0"))


def parse_timestamp(text: str, zone: tzinfo | None = None) -> datetime | None:
    """The instant that a whole or partial RFC 3339 timestamp names, with the zone that it was written in.

    Without one it is in `zone`, by default the machine's; a month or a day that is missing is today's. None
    if the text is no timestamp.
    """
    found = re.match(_TIMESTAMP, text)
    if not found:
        return None
    year, month, day, hour, minute, second, fraction, written = found.groups()
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    try:
        date = (int(year), *_month_and_day(int(year), month, day))
        moment = datetime(*date, int(hour or 0), int(minute or 0), int(second or 0), micros)
        if written or zone:
            return moment.replace(tzinfo=_offset(written) if written else zone)
        return moment.astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def _month_and_day(year: int, month: str | None, day: str | None) -> tuple[int, int]:
    if day:
        return int(month or 1), int(day)
    from calendar import monthrange

    today = datetime.now()
    known = int(month or today.month)
    return known, min(today.day, monthrange(year, known)[1])


def _offset(written: str) -> tzinfo:
    if written in "Zz":
        return timezone.utc
    sign = -1 if written[0] == "-" else 1
    return timezone(sign * timedelta(hours=int(written[1:3]), minutes=int(written[-2:])))


def parse_duration(text: str) -> float | None:
    """Seconds in an ISO 8601 duration (a year is 365 days, a month 30) or in text such as ``3600s``."""
    if found := re.match(_SECONDS, text):
        return float(found[1])
    found = re.match(_DURATION, text)
    if not found:
        return None
    sign, *amounts = found.groups()
    total = sum(float(amount or 0) * unit for amount, unit in zip(amounts, _DURATION_UNITS, strict=True))
    return -total if sign == "-" else total


def parse_instant(text: str, now: datetime) -> datetime | None:
    """A timestamp, or an ISO 8601 duration counted from `now`: ``-P2W`` is two weeks ago."""
    if re.match(_DURATION, text):
        try:
            return now + timedelta(seconds=parse_duration(text) or 0)
        except OverflowError:
            return None
    return parse_timestamp(text)


def format_duration(seconds: float, *, parts: int = 3, precision: int = 3) -> str:
    """ISO 8601 text for a duration: at most `parts` units from the largest, seconds to `precision` digits."""
    rest = round(abs(seconds), precision)
    names, sizes = "DHM", (86400, 3600, 60)
    pieces: list[tuple[str, str]] = []
    for name, size in zip(names, sizes, strict=True):
        amount, rest = divmod(rest, size)
        pieces.append((f"{int(amount)}", name))
    pieces.append((f"{rest:.{precision}f}".rstrip("0").rstrip(".") if precision else f"{rest:.0f}", "S"))
    return ("-" if seconds < 0 else "") + _join_pieces(pieces, parts)


def rough_duration(seconds: float) -> str:
    """A duration as people say it, in its largest unit alone: `12 s`, `3 min`, `5 h`, `2 d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(int(seconds), 0)} s"


def ago(moment: str) -> str:
    """How long ago an RFC 3339 timestamp was, in one unit: `3 min ago`; empty for a text that is none."""
    try:
        return f"{rough_duration(time.time() - epoch(moment))} ago"
    except ValueError:
        return ""


def duration_in_words(seconds: float) -> str:
    """`3.2 s`, `34 s`, `12 min 5 s` or `2 h 3 min`."""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"


def _join_pieces(pieces: list[tuple[str, str]], parts: int) -> str:
    first = next((place for place, (amount, _) in enumerate(pieces) if amount not in ("0", "")), len(pieces))
    kept = [piece for piece in pieces[first : first + parts] if piece[0] not in ("0", "")]
    days = "".join(amount + name for amount, name in kept if name == "D")
    clock = "".join(amount + name for amount, name in kept if name != "D")
    if not kept:
        return "P0"
    return "P" + days + ("T" + clock if clock else "")
