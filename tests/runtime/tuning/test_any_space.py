"""Spaces of any kind: what is suggested lies in them, and the same question has the same answer."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_specs import LAYERS, LEARNING_RATE, ended, study

from vtrain.messages.custom_job import ContainerSpec, CustomJobSpec, WorkerPoolSpec
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, ParameterSpec, StudySpec
from vtrain.messages.study_rules import check_tuning_job, in_condition, is_value_of
from vtrain.runtime.tuning.study import Parameters, StudyTrial, arguments, assignment
from vtrain.runtime.tuning.suggestion import grid, next_parameters

Document = dict[str, Any]

SCALES = ("UNIT_LINEAR_SCALE", "UNIT_LOG_SCALE", "UNIT_REVERSE_LOG_SCALE")
needs_optuna = pytest.mark.skipif(find_spec("optuna") is None, reason="needs the extra tuning")
each_sampler = pytest.mark.parametrize("sampler", ["random", pytest.param("tpe", marks=needs_optuna)])


@st.composite
def parameters(draw: st.DrawFn, name: str = "p", depth: int = 2, finite: bool = False) -> Document:
    """A parameter of any kind, with children down to a depth; a finite one fits into a grid."""
    kinds = [_categorical, _discrete, _integer] + ([] if finite else [_double])
    document, field, values = draw(st.sampled_from(kinds))(draw, finite)
    document["parameterId"] = name
    if depth and field:
        chosen = draw(st.lists(st.sampled_from(values), unique=True, max_size=2))
        document["conditionalParameterSpecs"] = [
            # Children of different values may share their id, and be of different kinds.
            {field: {"values": [value]}, "parameterSpec": draw(parameters(f"{name}c", depth - 1, finite))}
            for value in chosen
        ]
    return document


def _categorical(draw: st.DrawFn, finite: bool) -> tuple[Document, str, list[Any]]:
    values = draw(st.lists(st.text(max_size=3), min_size=1, max_size=3, unique=True))
    return {"categoricalValueSpec": {"values": values}}, "parentCategoricalValues", values


def _discrete(draw: st.DrawFn, finite: bool) -> tuple[Document, str, list[Any]]:
    steps = draw(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=3))
    values = [math.fsum(steps[: place + 1]) for place in range(len(steps))]
    scale = draw(st.sampled_from(SCALES))
    return {"discreteValueSpec": {"values": values}, "scaleType": scale}, "parentDiscreteValues", values


def _integer(draw: st.DrawFn, finite: bool) -> tuple[Document, str, list[Any]]:
    scale = draw(st.sampled_from(SCALES))
    lowest, highest = (1 if scale != SCALES[0] else -(2**53)), 2**53
    low = draw(st.integers(lowest, highest))
    high = draw(st.integers(low, min(low + 3, highest) if finite else highest))
    ends = sorted({low, high})
    spec = {"minValue": str(low), "maxValue": str(high)}
    return {"integerValueSpec": spec, "scaleType": scale}, "parentIntValues", [str(end) for end in ends]


def _double(draw: st.DrawFn, finite: bool) -> tuple[Document, str, list[Any]]:
    scale = draw(st.sampled_from(SCALES))
    number = st.floats(
        allow_nan=False, allow_infinity=False, min_value=5e-324 if scale != SCALES[0] else None
    )
    low, high = sorted((draw(number), draw(number)))
    return {"doubleValueSpec": {"minValue": low, "maxValue": high}, "scaleType": scale}, "", []


spaces = st.builds(study, parameters("a"), parameters("b", depth=1))
grids = st.builds(study, parameters("a", finite=True), parameters("b", finite=True))


def check_point(spec: StudySpec, found: Parameters) -> None:
    seen: list[str] = []

    def take(parameter: ParameterSpec, _place: str) -> float | str:
        value = found[parameter.parameter_id]
        assert is_value_of(parameter, value), (parameter, value)
        seen.append(parameter.parameter_id)
        return value

    assignment(spec, take)
    assert list(found) == seen


@given(spec=spaces)
def test_any_space_keeps_the_rules(spec: StudySpec) -> None:
    """Else the other tests would speak of spaces that are refused."""
    pool = WorkerPoolSpec(container_spec=ContainerSpec(image_uri="trainer"), replica_count=1)
    job = HyperparameterTuningJob(
        display_name="study",
        max_trial_count=1,
        parallel_trial_count=1,
        study_spec=spec,
        trial_job_spec=CustomJobSpec(worker_pool_specs=(pool,)),
    )
    check_tuning_job(job)


@each_sampler
@settings(max_examples=25)
@given(data=st.data())
def test_any_suggestion_lies_in_its_space(sampler: str, data: st.DataObject) -> None:
    spec, seed = data.draw(spaces), data.draw(st.integers(0, 2**32))
    trials: list[StudyTrial] = []
    for number in range(1, 15):
        found = next_parameters(spec, trials, sampler=sampler, seed=seed, number=number)
        assert found is not None
        check_point(spec, found)
        assert len(arguments(spec, found)) == len(found)
        result = data.draw(st.one_of(st.none(), st.floats(allow_nan=False)))
        trials.append(ended(number, found, *(() if result is None else (result,))))
        again = next_parameters(spec, trials[:-1], sampler=sampler, seed=seed, number=number)
        assert again == found


@given(spec=grids)
def test_any_grid_has_each_point_once(spec: StudySpec) -> None:
    points = list(grid(spec))
    assert len({tuple(point.items()) for point in points}) == len(points) == size(list(spec.parameters))
    for point in points:
        check_point(spec, point)


def size(specs: list[ParameterSpec]) -> int:
    """The points of a grid, counted in another way than by making them."""
    return math.prod(sum(size(children(spec, value)) for value in values(spec)) for spec in specs)


def values(spec: ParameterSpec) -> list[float | str]:
    if spec.integer_value_spec is not None:
        whole = spec.integer_value_spec
        return [float(value) for value in range(whole.min_value, whole.max_value + 1)]
    chosen = spec.categorical_value_spec or spec.discrete_value_spec
    assert chosen is not None
    return list(chosen.values)


def children(spec: ParameterSpec, value: float | str) -> list[ParameterSpec]:
    below = spec.conditional_parameter_specs
    return [child.parameter_spec for child in below if child.parameter_spec and in_condition(child, value)]


@each_sampler
def test_the_ends_of_what_a_double_can_be_are_a_range(sampler: str) -> None:
    wide = {"parameterId": "x", "doubleValueSpec": {"minValue": -1.7e308, "maxValue": 1.7e308}}
    found = [next_parameters(study(wide), (), sampler=sampler, seed=1, number=n) or {} for n in range(1, 60)]
    assert 10 < sum(float(each["x"]) < 0 for each in found) < 49


def test_each_argument_is_written_by_the_kind_that_its_parameter_has_there() -> None:
    whole = {"parameterId": "size", "integerValueSpec": {"minValue": "1", "maxValue": "9"}}
    broken = {"parameterId": "size", "doubleValueSpec": {"minValue": 0, "maxValue": 9}}
    parent = {
        "parameterId": "model",
        "categoricalValueSpec": {"values": ["tree", "net"]},
        "conditionalParameterSpecs": [
            {"parentCategoricalValues": {"values": ["tree"]}, "parameterSpec": whole},
            {"parentCategoricalValues": {"values": ["net"]}, "parameterSpec": broken},
        ],
    }
    assert arguments(study(parent), {"model": "tree", "size": 3.0}) == ("--model=tree", "--size=3")
    assert arguments(study(parent), {"model": "net", "size": 3.0}) == ("--model=net", "--size=3.0")
    assert arguments(study(parent), {"model": "net", "size": 0.25}) == ("--model=net", "--size=0.25")


@needs_optuna
def test_a_trial_that_failed_teaches_nothing_though_it_measured() -> None:
    spec = study(LEARNING_RATE, LAYERS)
    point: Parameters = {"lr": 0.01, "layers": 2.0}
    good = [ended(n, {"lr": 10.0**-n, "layers": 1.0}, float(n)) for n in range(1, 5)] * 4
    silent = [ended(n, point) for n in range(20, 30)]
    measured = [
        StudyTrial(id=n, parameters=point, state="INFEASIBLE", final=good[0].final) for n in range(20, 30)
    ]
    asked = [
        next_parameters(spec, [*good, *failed], sampler="tpe", seed=1, number=31)
        for failed in (silent, measured)
    ]
    assert asked[0] == asked[1]
