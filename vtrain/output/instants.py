"""Times and durations as text: RFC 3339 timestamps, partial dates, ISO 8601 durations and ``3600s``."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import datetime, timedelta, timezone, tzinfo

_TIMESTAMP = re.compile(
    r"(\d{4})(?:-(\d\d?)(?:-(\d\d?)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*([Zz]|[-+]\d\d:?\d\d)?)?)?)?$"
)
_DURATION = re.compile(
    r"([-+]?)P(?!$)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?"
    r"(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$",
    re.IGNORECASE,
)
_DURATION_UNITS = (365 * 86400, 30 * 86400, 7 * 86400, 86400, 3600, 60, 1)  # seconds in Y M W D H M S
_SECONDS = re.compile(r"([-+]?\d+(?:\.\d+)?)s$")


def parse_timestamp(text: str, zone: tzinfo | None = None) -> datetime | None:
    """The instant that a whole or partial RFC 3339 timestamp names, with the zone that it was written in.

    Without one it is in `zone`, by default the machine's; a month or a day that is missing is today's. None
    if the text is no timestamp.
    """
    found = _TIMESTAMP.match(text)
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
    if found := _SECONDS.match(text):
        return float(found[1])
    found = _DURATION.match(text)
    if not found:
        return None
    sign, *amounts = found.groups()
    total = sum(float(amount or 0) * unit for amount, unit in zip(amounts, _DURATION_UNITS, strict=True))
    return -total if sign == "-" else total


def parse_instant(text: str, now: datetime) -> datetime | None:
    """A timestamp, or an ISO 8601 duration counted from `now`: ``-P2W`` is two weeks ago."""
    if _DURATION.match(text):
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


def _join_pieces(pieces: list[tuple[str, str]], parts: int) -> str:
    first = next((place for place, (amount, _) in enumerate(pieces) if amount not in ("0", "")), len(pieces))
    kept = [piece for piece in pieces[first : first + parts] if piece[0] not in ("0", "")]
    days = "".join(amount + name for amount, name in kept if name == "D")
    clock = "".join(amount + name for amount, name in kept if name != "D")
    if not kept:
        return "P0"
    return "P" + days + ("T" + clock if clock else "")
