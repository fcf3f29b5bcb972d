"""Points that need no model."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_specs import LAYERS, LEARNING_RATE, OPTIMIZER, ended, study

from vtrain.runtime.tuning.study import Parameters, share_of
from vtrain.runtime.tuning.suggestion import near_best, spread_point

SPACE = study(LEARNING_RATE, LAYERS, OPTIMIZER)
BEST: Parameters = {"lr": 0.01, "layers": 2.0, "optimizer": "sgd", "momentum": 0.9}


def known(count: int) -> list[Parameters]:
    return [
        {"lr": 10.0 ** -(n % 5), "layers": 1.0, "optimizer": "adam", "warmup": 16.0} for n in range(count)
    ]


@given(seed=st.integers(0, 2**32), count=st.integers(1, 12))
def test_points_are_spread_over_each_scale(seed: int, count: int) -> None:
    points = [spread_point(SPACE, seed, number, count) for number in range(1, count + 1)]
    shares = sorted((math.log10(float(point["lr"])) + 5) / 5 for point in points)
    assert all(part / count - 1e-9 <= share <= (part + 1) / count + 1e-9 for part, share in enumerate(shares))
    if count % 6 == 0:
        assert [sum(point["layers"] == layers for point in points) for layers in (1, 2, 3)] == [
            count // 3
        ] * 3
        assert sum(point["optimizer"] == "sgd" for point in points) == count // 2


def test_a_point_near_the_best_differs_a_little_in_its_doubles() -> None:
    far = []
    for count in (10, 100):
        trials = [ended(number, point, 0.1) for number, point in enumerate(known(count))]
        trials.append(ended(999, BEST, 0.9))
        points = [near_best(SPACE, trials, Random(seed), 8) or {} for seed in range(50)]
        for point in points:
            assert list(point) == list(BEST)
            assert (point["layers"], point["optimizer"]) == (2.0, "sgd")
            assert 1e-5 <= float(point["lr"]) <= 1.0 and 0.5 <= float(point["momentum"]) <= 0.999
        far.append(sorted(abs(math.log10(float(point["lr"])) + 2) for point in points)[25])
    assert 0 < far[1] < far[0] / 5


def test_the_best_may_lie_at_the_end_of_its_range() -> None:
    spec = study(LEARNING_RATE)
    trials = [ended(number, {"lr": 1.0}, 0.5) for number in range(10)]
    points = [near_best(spec, trials, Random(seed), 8) or {} for seed in range(50)]
    assert all(1e-5 <= float(point["lr"]) < 1.0 for point in points)


def test_there_is_not_always_a_point_near_the_best() -> None:
    trials = [ended(number, point, 0.1) for number, point in enumerate(known(10))]
    assert near_best(SPACE, trials, Random(1), 8) is not None
    assert near_best(SPACE, trials[:7], Random(1), 8) is None, "too little is known"
    assert near_best(study(LAYERS), [ended(n, {"layers": 1.0}, 0.1) for n in range(10)], Random(1), 8) is None
    two = study(LEARNING_RATE, goals=("MAXIMIZE", "MINIMIZE"))
    assert near_best(two, [ended(n, {"lr": 0.1}, 0.1, 0.2) for n in range(10)], Random(1), 8) is None


@pytest.mark.parametrize("scale", ["UNIT_LINEAR_SCALE", "UNIT_LOG_SCALE", "UNIT_REVERSE_LOG_SCALE"])
@pytest.mark.parametrize("low", [5e-324, 1e10])
def test_a_range_too_narrow_for_floats_has_one_place(scale: str, low: float) -> None:
    bounds = {"minValue": low, "maxValue": math.nextafter(low, math.inf)}
    parameter = study({"parameterId": "x", "doubleValueSpec": bounds, "scaleType": scale}).parameters[0]
    for value in bounds.values():
        assert 0 <= share_of(parameter, value) <= 1
