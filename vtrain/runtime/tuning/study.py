"""The trials of a study as suggestions, early stopping and ranking see them, and the space they come from.

A parameter's values are those of the API: text where it is categorical, else a number, whole numbers as 80.0.
Its scale says where a value lies between the ends of its range. The trials are ranked by the measurement that
counts.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from vtrain.messages.hyperparameter_tuning_job import Measurement, Metric, ParameterSpec, StudySpec
from vtrain.messages.study_rules import in_condition, is_value_of

ParameterValue = float | str
Parameters = dict[str, ParameterValue]
"""The active parameters of one trial, in the order of the spec: a parent comes before its children."""
Pick = Callable[[ParameterSpec, str], ParameterValue]
"""Chooses the value of a parameter. The text tells it from others of that id, by its conditions."""
T = TypeVar("T")

AUTO, TPE, GP, RANDOM, GRID = "auto", "tpe", "gp", "random", "grid"
"""The samplers; `auto` chooses between TPE and GP."""
SUCCEEDED, INFEASIBLE = "SUCCEEDED", "INFEASIBLE"


class StudyTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One trial. `state` is a Trial.State of the API, `final` the measurement that counts at its end."""

    id: int
    parameters: Parameters
    state: str
    measurements: tuple[Measurement, ...] = ()
    final: Measurement | None = None


S = TypeVar("S", bound=StudyTrial)


def assignment(spec: StudySpec, pick: Pick) -> Parameters:
    """The parameters that are active by the values that `pick` chooses."""
    found: Parameters = {}
    for parameter in spec.parameters:
        _assign(parameter, "", pick, found)
    return found


def _assign(parameter: ParameterSpec, place: str, pick: Pick, found: Parameters) -> None:
    found[parameter.parameter_id] = value = pick(parameter, f"{place}{parameter.parameter_id}")
    for number, child in enumerate(parameter.conditional_parameter_specs):
        if child.parameter_spec is not None and in_condition(child, value):
            _assign(child.parameter_spec, f"{place}{parameter.parameter_id}/{number}/", pick, found)


def fits(spec: StudySpec, parameters: Parameters) -> bool:
    """Whether the parameters are a point of the study's space; those of an earlier study may not be."""

    def take(parameter: ParameterSpec, _place: str) -> ParameterValue:
        value = parameters[parameter.parameter_id]
        if not is_value_of(parameter, value):
            raise KeyError(parameter.parameter_id)
        return value

    try:
        return assignment(spec, take).keys() == parameters.keys()
    except KeyError:
        return False


def every_parameter(spec: StudySpec) -> Iterator[ParameterSpec]:
    """All parameters, each before its children."""
    waiting = list(reversed(spec.parameters))
    while waiting:
        parameter = waiting.pop()
        yield parameter
        children = [child.parameter_spec for child in parameter.conditional_parameter_specs]
        waiting += reversed([child for child in children if child is not None])


def arguments(spec: StudySpec, parameters: Parameters) -> tuple[str, ...]:
    """The elements of argv that give a trial's program its parameters: `--name=value`.

    Whole numbers have no point: Google's samples read integers and discrete values alike by `type=int` of
    argparse. A user of the service has seen `256.0` for a discrete value.
    """
    found: list[str] = []

    def take(parameter: ParameterSpec, _place: str) -> ParameterValue:
        value = parameters[parameter.parameter_id]
        is_listed = parameter.discrete_value_spec is not None
        is_whole = parameter.integer_value_spec is not None or (is_listed and float(value).is_integer())
        found.append(f"--{parameter.parameter_id}={int(value) if is_whole else value}")
        return value

    assignment(spec, take)
    return tuple(found)


def losses(spec: StudySpec, measurement: Measurement | None) -> tuple[float, ...] | None:
    """The study's metrics in a measurement, turned so that less is better.

    None where one is missing, or is no finite number.
    """
    found = {metric.metric_id: metric.value for metric in measurement.metrics} if measurement else {}
    values = [found.get(metric.metric_id, math.nan) for metric in spec.metrics]
    if not values or not all(map(math.isfinite, values)):
        return None
    return tuple(loss(metric.goal, value) for metric, value in zip(spec.metrics, values, strict=True))


def thinned(items: Sequence[T], most: int) -> Sequence[T]:
    """At most so many of the items, evenly chosen, the last one among them."""
    step = -(-len(items) // most) or 1
    return items[::-1][::step][::-1]


def loss(goal: str, value: float) -> float:
    """A metric's value, turned so that less is better. Without a goal it is maximized, as in the API."""
    return value if goal == "MINIMIZE" else -value


def results(spec: StudySpec, trials: Sequence[S]) -> list[tuple[S, tuple[float, ...]]]:
    """The trials that succeeded with all metrics, and their losses."""
    succeeded = [trial for trial in trials if trial.state == SUCCEEDED]
    found = [(trial, losses(spec, trial.final)) for trial in succeeded]
    return [(trial, values) for trial, values in found if values is not None]


LOG, REVERSE_LOG = "UNIT_LOG_SCALE", "UNIT_REVERSE_LOG_SCALE"


def is_logarithmic(parameter: ParameterSpec) -> bool:
    return parameter.scale_type in (LOG, REVERSE_LOG)


def value_at(parameter: ParameterSpec, share: float) -> float | str:
    """The value of any parameter that far along its scale, or along its list; `share` is less than 1."""
    if parameter.double_value_spec is not None:
        return double_at(parameter, share)
    if parameter.integer_value_spec is not None:
        return float(integer_at(parameter, share))
    if parameter.categorical_value_spec is not None:
        texts = parameter.categorical_value_spec.values
        return texts[int(share * len(texts))]
    assert parameter.discrete_value_spec is not None
    values = parameter.discrete_value_spec.values
    return float(values[int(share * len(values))])


def double_at(parameter: ParameterSpec, share: float) -> float:
    """The value of a DOUBLE parameter that far along its scale: 0 is its lowest value, 1 its highest."""
    low, high = _ends(parameter)
    if parameter.scale_type == REVERSE_LOG:
        value = _mirrored(_log_at(low, high, 1 - share), low, high)
    elif parameter.scale_type == LOG:
        value = _log_at(low, high, share)
    else:
        value = low * (1 - share) + high * share  # high - low may be more than a float can be
    return min(max(value, low), high)


def share_of(parameter: ParameterSpec, value: float) -> float:
    """How far along its scale a value of a DOUBLE parameter is: the inverse of `double_at`."""
    low, high = _ends(parameter)
    reverse = parameter.scale_type == REVERSE_LOG
    if is_logarithmic(parameter):
        inner = max(_mirrored(value, low, high), low) if reverse else value
        offset, width = math.log(inner) - math.log(low), math.log(high) - math.log(low)
    else:
        offset, width = value / 2 - low / 2, high / 2 - low / 2
    if not width:  # also where the ends differ by less than a float can hold
        return 0.0
    return min(max(1 - offset / width if reverse else offset / width, 0.0), 1.0)


def integer_at(parameter: ParameterSpec, share: float) -> int:
    """The value of an INTEGER parameter that far along its scale.

    Each value has the part of the scale that is half a step around it, also the lowest and the highest.
    """
    low, high = (int(end) for end in _ends(parameter))
    if not is_logarithmic(parameter):
        return min(low + int(share * (high - low + 1)), high)
    drawn = round(_log_at(low - 0.5, high + 0.5, share))
    return mirrored_integer(parameter, min(max(drawn, low), high))


def mirrored_integer(parameter: ParameterSpec, value: int) -> int:
    """On a reversed scale the value counted from the other end, and back; on others the value itself."""
    low, high = (int(end) for end in _ends(parameter))
    return high - (value - low) if parameter.scale_type == REVERSE_LOG else value


def _ends(parameter: ParameterSpec) -> tuple[float, float]:
    span = parameter.double_value_spec or parameter.integer_value_spec
    assert span is not None
    return span.min_value, span.max_value


def _log_at(low: float, high: float, share: float) -> float:
    return math.exp(min(math.log(low) * (1 - share) + math.log(high) * share, math.log(high)))


def _mirrored(value: float, low: float, high: float) -> float:
    return high - (value - low)


BEST_MEASUREMENT = "BEST_MEASUREMENT"


def final_measurement(spec: StudySpec, measurements: Sequence[Measurement]) -> Measurement | None:
    """The last measurement, or the best by the first metric, as the study selects.

    Metrics that were never reported together are taken together: the newest value of each. None where one of
    them was never reported.
    """
    whole = [one for one in measurements if losses(spec, one) is not None]
    if not whole:
        return _newest_of_each(spec, measurements)
    if spec.measurement_selection_type != BEST_MEASUREMENT:
        return whole[-1]
    first = spec.metrics[0]
    return min(whole, key=lambda one: loss(first.goal, value_of(one, first.metric_id) or 0.0))


def _newest_of_each(spec: StudySpec, measurements: Sequence[Measurement]) -> Measurement | None:
    newest: dict[str, float] = {}
    for measurement in measurements:
        newest |= {metric.metric_id: metric.value for metric in measurement.metrics}
    if not measurements or any(metric.metric_id not in newest for metric in spec.metrics):
        return None
    last = measurements[-1]
    return Measurement(
        elapsed_duration=last.elapsed_duration,
        step_count=last.step_count,
        metrics=tuple(Metric(metric_id=m.metric_id, value=newest[m.metric_id]) for m in spec.metrics),
    )


def value_of(measurement: Measurement, metric_id: str) -> float | None:
    """A metric's value in a measurement; None where it has none."""
    return next((metric.value for metric in measurement.metrics if metric.metric_id == metric_id), None)


def best(spec: StudySpec, trials: Sequence[S]) -> list[S]:
    """The best trial, the first of equals. With several metrics the Pareto front: no other beats them."""
    found = sorted(results(spec, trials), key=lambda pair: (pair[1], pair[0].id))
    if len(spec.metrics) == 1:
        return [trial for trial, _ in found[:1]]
    front: list[tuple[S, tuple[float, ...]]] = []
    for trial, values in found:  # in this order a trial is only ever beaten by one before it
        as_good = (other for _, other in front if all(map(operator.le, other, values)))
        if all(other == values for other in as_good):
            front.append((trial, values))
    return [trial for trial, _ in front]


def ranked(spec: StudySpec, trials: Sequence[StudyTrial]) -> list[StudyTrial]:
    """All trials: the Pareto front, then the others by their results, then those without one."""
    front = {trial.id for trial in best(spec, trials)}
    found = {trial.id: values for trial, values in results(spec, trials)}
    return sorted(
        trials,
        key=lambda trial: (trial.id not in front, trial.id not in found, found.get(trial.id, ()), trial.id),
    )
