"""The trials of a study as suggestions, early stopping and ranking see them, and the space they come from.

A parameter's values are those of the API: text where it is categorical, else a number, whole numbers as 80.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from vtrain.messages.hyperparameter_tuning_job import Measurement, ParameterSpec, StudySpec
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
ENDED = (SUCCEEDED, INFEASIBLE)


class StudyTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One trial. `state` is a Trial.State of the API, `final` the measurement that counts at its end."""

    id: int
    parameters: Parameters
    state: str
    measurements: tuple[Measurement, ...] = ()
    final: Measurement | None = None


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


def results(spec: StudySpec, trials: Sequence[StudyTrial]) -> list[tuple[StudyTrial, tuple[float, ...]]]:
    """The trials that succeeded with all metrics, and their losses."""
    succeeded = [trial for trial in trials if trial.state == SUCCEEDED]
    found = [(trial, losses(spec, trial.final)) for trial in succeeded]
    return [(trial, values) for trial, values in found if values is not None]
