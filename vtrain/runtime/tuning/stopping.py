"""Early stopping: whether a running trial has so little prospect that it is ended.

Sources: `MedianAutomatedStoppingSpec` and `DecayCurveAutomatedStoppingSpec` of `study.proto`. The first
metric is compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

from vtrain.messages.hyperparameter_tuning_job import StudySpec
from vtrain.runtime.tuning.study import SUCCEEDED, StudyTrial, loss, thinned, value_of
from vtrain.times import parse_duration

MIN_COMPARED = 3
"""The fewest completed trials to compare with: the median of fewer says little. The API names no number."""
MIN_POINTS, MAX_POINTS = 5, 500
"""Measurements that a curve is drawn through: at least, and at most, as each report draws it anew."""
_RATES = tuple(0.05 * 1.25**n for n in range(36))
"""Rates of decay that are tried, per length of the curve that was seen: from almost straight to a step."""
_DOUBT = 2.0
"""Standard deviations by which the end of a curve may be better than foreseen."""

Curve = Sequence[tuple[float, float]]
"""The loss of each measurement, by step or by seconds."""


def should_stop(spec: StudySpec, trial: StudyTrial, others: Sequence[StudyTrial]) -> bool:
    """Whether the study's rule ends this running trial now."""
    by_median = spec.median_automated_stopping_spec
    rule = by_median or spec.decay_curve_stopping_spec
    if rule is None:
        return False
    completed = (other for other in others if other.state == SUCCEEDED and other.id != trial.id)
    own, *curves = (curve(spec, one, rule.use_elapsed_duration) for one in (trial, *completed))
    return (_is_below_median if by_median else _is_hopeless)(own, curves)


def curve(spec: StudySpec, trial: StudyTrial, by_time: bool) -> Curve:
    """The first metric over steps, or over seconds, in their order; less is better.

    A trainer that reports no steps gives each measurement the step 0: they are counted instead.
    """
    first = spec.metrics[0]
    points = [(one, value_of(one, first.metric_id)) for one in trial.measurements]
    found = [(one, loss(first.goal, value)) for one, value in points if value is not None]
    if not by_time and not any(one.step_count for one, _ in found):
        return [(float(count), value) for count, (_, value) in enumerate(found, 1)]
    places = [
        parse_duration(one.elapsed_duration) or 0.0 if by_time else float(one.step_count) for one, _ in found
    ]
    # A trainer that was restarted may count its steps from an earlier one on.
    return sorted(zip(places, (value for _, value in found), strict=True), key=lambda point: point[0])


def _is_below_median(own: Curve, others: list[Curve]) -> bool:
    """Whether the best value so far is worse than the median of the others' averages up to then."""
    if not own:
        return False
    reached = own[-1][0]
    averages = [
        _mean(values) for other in others if (values := [loss for at, loss in other if at <= reached])
    ]
    return len(averages) >= MIN_COMPARED and min(value for _, value in own) > median(averages)


def _mean(values: Sequence[float]) -> float:
    try:
        return fmean(values)
    except OverflowError:  # of their sum: a metric that diverges comes close to the largest float
        return sum(value / len(values) for value in values)


def _is_hopeless(own: Curve, others: list[Curve]) -> bool:
    """Whether the curve, drawn on to where the others ended, stays worse than the best of them."""
    others = [other for other in others if other]
    if len(own) < MIN_POINTS or len(others) < MIN_COMPARED:
        return False
    end = max(other[-1][0] for other in others)
    if end <= own[-1][0]:
        return False
    try:
        foreseen, deviation = extrapolated(thinned(own, MAX_POINTS), end)
    except OverflowError:  # a metric that diverges has squares beyond every float: no curve is foreseen
        return False
    best = min(min(value for _, value in other) for other in others)
    return min(foreseen, *(value for _, value in own)) - _DOUBT * deviation > best


def extrapolated(points: Curve, end: float) -> tuple[float, float]:
    """The value at `end` of the decaying curve `a + b * exp(-rate * x)` that fits best, and its deviation."""
    start, length = points[0][0], (points[-1][0] - points[0][0]) or 1.0
    fits = [_fit(points, start, rate / length, end) for rate in _RATES]
    error, value = min(fits)
    return value, math.sqrt(error / len(points))


def _fit(points: Curve, start: float, rate: float, end: float) -> tuple[float, float]:
    """The squared errors of the best line through the points for a rate of decay, and its value at `end`."""
    decays = [math.exp(-rate * (at - start)) for at, _ in points]
    values = [value for _, value in points]
    mean_decay, mean_value = fmean(decays), fmean(values)
    spread = sum((decay - mean_decay) ** 2 for decay in decays)
    product = sum((d - mean_decay) * (v - mean_value) for d, v in zip(decays, values, strict=True))
    slope = product / spread if spread > 0 else 0.0
    base = mean_value - slope * mean_decay
    error = sum((base + slope * d - v) ** 2 for d, v in zip(decays, values, strict=True))
    return error, base + slope * math.exp(-rate * (end - start))
