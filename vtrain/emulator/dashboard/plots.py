"""Plots as shapes for a template: series of numbers become paths and ticks in a fixed view box."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from vtrain.output.trials import shown_value

WIDTH, HEIGHT = 420, 210
LEFT, RIGHT, TOP, BOTTOM = 52, 412, 12, 182
MOST_POINTS = 400
"""Points of one series that are drawn."""


LARGEST, LEAST = 1e300, 1e-290
"""Numbers that are drawn, and distances between them: arithmetic with others overflows."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A point that is drawn as a dot, with its text; `kind` is a class of the style sheet."""

    x: float
    y: float
    text: str
    kind: str = ""


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """A place on an axis, and the number that stands there."""

    place: float
    text: str


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    """A chart: a line, dots, and ticks. `summary` says in words what it shows."""

    title: str
    along: str
    summary: str
    path: str
    marks: tuple[Mark, ...]
    columns: tuple[Tick, ...]
    rows: tuple[Tick, ...]


class Point(msgspec.Struct, frozen=True):
    """A measured value; `kind` and `text` are those of its mark, where it has one of its own."""

    x: float
    y: float
    text: str = ""
    kind: str = ""


def draw(
    title: str, points: Iterable[Point], *, along: str, line: Sequence[Point] | None = None
) -> Plot | None:
    """A chart of the points that are usual numbers; None without any.

    The line goes through the points, or through those of `line`.
    """
    found = [point for point in points if abs(point.x) < LARGEST and abs(point.y) < LARGEST]
    if not found:
        return None
    across = _ticks([point.x for point in found], whole=all(point.x.is_integer() for point in found))
    up = _ticks([point.y for point in found])
    drawn = _thinned(found)

    def place(point: Point) -> tuple[float, float]:
        return (_scaled(point.x, across, LEFT, RIGHT), _scaled(point.y, up, BOTTOM, TOP))

    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, _thinned(line) if line is not None else drawn))
    shows_all = len(found) <= 60 or any(point.kind for point in found)
    marks = [Mark(x=place(one)[0], y=place(one)[1], text=_text(one, along), kind=one.kind) for one in drawn]
    last = found[-1]
    return Plot(
        title=title,
        along=along,
        summary=f"{title}: {len(found)} values, the last is {shown_value(last.y)}",
        path=path,
        marks=tuple(marks if shows_all else marks[-1:]),
        columns=tuple(Tick(place=_scaled(x, across, LEFT, RIGHT), text=_short(x)) for x in across),
        rows=tuple(Tick(place=_scaled(y, up, BOTTOM, TOP), text=_short(y)) for y in up),
    )


def _text(point: Point, along: str) -> str:
    return point.text or f"{along} {shown_value(point.x)}: {shown_value(point.y)}"


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    """At most so many points, the last one among them."""
    step = math.ceil(len(points) / MOST_POINTS) or 1
    return points[(len(points) - 1) % step :: step]


def _scaled(value: float, ticks: Sequence[float], start: float, end: float) -> float:
    share = (value - ticks[0]) / (ticks[-1] - ticks[0])
    return round(start + share * (end - start), 1)


def _ticks(values: Sequence[float], *, whole: bool = False) -> list[float]:
    """Round numbers from below the least value to above the greatest: three to seven."""
    low, high = min(values), max(values)
    largest = max(abs(low), abs(high))
    if high - low <= max(largest * 1e-12, LEAST):
        margin = largest * 0.1 if largest > LEAST * 100 else 1.0
        low, high = low - margin, high + margin
    rough = (high - low) / 5
    size = 10.0 ** math.floor(math.log10(rough))
    step = next((size * factor for factor in (1, 2, 5) if size * factor >= rough), size * 10)
    step = max(step, 1.0) if whole else step
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _short(value: float) -> str:
    """A number in few characters: `0.25`, `1500`, `2e6`."""
    text = f"{value:.4g}"
    return text.replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
