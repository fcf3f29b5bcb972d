"""The parameters of the next trial."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_specs import BATCH, LAYERS, LEARNING_RATE, MOMENTUM, OPTIMIZER, distance, ended, study, suggested

from vtrain.runtime.tuning.study import Parameters, StudyTrial, arguments
from vtrain.runtime.tuning.suggestion import choose_sampler, grid, next_parameters

SAMPLERS = ("random", "tpe")
WIDE = study(LEARNING_RATE, MOMENTUM | {"parameterId": "decay"}, LAYERS, BATCH, OPTIMIZER)


@pytest.fixture(params=SAMPLERS)
def sampler(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "tpe":
        pytest.importorskip("optuna", reason="needs the extra tuning")
    yield request.param


def test_suggestions_lie_in_the_space(sampler: str) -> None:
    for found in suggested(WIDE, sampler, 40):
        assert 1e-5 <= float(found["lr"]) <= 1.0
        assert 0.5 <= float(found["decay"]) <= 0.999
        assert found["layers"] in (1.0, 2.0, 3.0)
        assert found["batch"] in (16.0, 32.0, 256.0)
        names = ["lr", "decay", "layers", "batch", "optimizer"]
        assert list(found) == [*names, "momentum" if found["optimizer"] == "sgd" else "warmup"]
        assert all(isinstance(value, float) for name, value in found.items() if name != "optimizer")


def test_the_same_seed_and_results_give_the_same_suggestions(sampler: str) -> None:
    assert suggested(WIDE, sampler, 15, seed=3) == suggested(WIDE, sampler, 15, seed=3)
    assert suggested(WIDE, sampler, 15, seed=3) != suggested(WIDE, sampler, 15, seed=4)


def test_trials_that_run_at_the_same_time_differ(sampler: str) -> None:
    trials: list[StudyTrial] = []
    for number in range(1, 31):
        found = next_parameters(WIDE, trials, sampler=sampler, seed=1, number=number)
        assert found is not None
        assert found not in [trial.parameters for trial in trials]
        trials.append(StudyTrial(id=number, parameters=found, state="ACTIVE"))


def test_scales_decide_what_is_even() -> None:
    drawn = [next_parameters(WIDE, (), sampler="random", seed=seed, number=1) or {} for seed in range(400)]
    middle = math.sqrt(1e-5 * 1.0)
    assert 150 < sum(float(found["lr"]) < middle for found in drawn) < 250
    assert 150 < sum(1.499 - float(found["decay"]) < math.sqrt(0.5 * 0.999) for found in drawn) < 250
    assert all(90 < sum(found["layers"] == layers for found in drawn) < 180 for layers in (1.0, 2.0, 3.0))


def test_results_guide_bayesian_optimisation() -> None:
    pytest.importorskip("optuna", reason="needs the extra tuning")
    spec = study(LEARNING_RATE)
    late = suggested(spec, "tpe", 60)[40:]
    early = suggested(spec, "random", 60)[40:]

    def typical(found: list[Parameters]) -> float:
        return sorted(map(distance, found))[len(found) // 2]

    assert typical(late) < typical(early) / 2


def test_trials_of_another_space_are_left_out() -> None:
    pytest.importorskip("optuna", reason="needs the extra tuning")
    spec = study(LEARNING_RATE, LAYERS)
    good = [ended(number, {"lr": 10.0**-number, "layers": 1.0}, 1.0) for number in range(1, 5)] * 4
    others = [
        ended(21, {"lr": 0.1}, 9.0),
        ended(22, {"lr": 5.0, "layers": 1.0}, 9.0),
        ended(23, {"lr": "text", "layers": 1.0}, 9.0),
        ended(24, {"lr": 0.1, "layers": 1.0, "more": 1.0}, 9.0),
        ended(25, {"lr": 0.1, "layers": 1.5}, 9.0),
    ]
    for number in (31, 33):  # by TPE, and close to the best one
        alone = next_parameters(spec, good, sampler="tpe", seed=1, number=number)
        assert next_parameters(spec, [*good, *others], sampler="tpe", seed=1, number=number) == alone


def test_a_grid_has_every_point_once_and_then_ends() -> None:
    spec = study(
        LAYERS, OPTIMIZER | {"conditionalParameterSpecs": OPTIMIZER["conditionalParameterSpecs"][1:]}
    )
    points = list(grid(spec))
    assert len(points) == 3 * (1 + 3)
    assert points[0] == {"layers": 1.0, "optimizer": "adam", "warmup": 16.0}
    assert points[-1] == {"layers": 3.0, "optimizer": "sgd"}
    trials = [ended(number, point) for number, point in enumerate(points, 1)]
    assert next_parameters(spec, trials[:-1], sampler="grid", seed=1, number=12) == points[-1]
    assert next_parameters(spec, trials, sampler="grid", seed=1, number=13) is None


@pytest.mark.timeout(20)
def test_a_huge_grid_is_not_made() -> None:
    many = [
        {"parameterId": f"n{place}", "integerValueSpec": {"minValue": "0", "maxValue": str(10**12)}}
        for place in range(5)
    ]
    assert [point["n4"] for point in itertools.islice(grid(study(*many)), 3)] == [0.0, 1.0, 2.0]


def test_arguments_are_written_as_the_service_writes_them() -> None:
    found = {"lr": 0.001, "decay": 0.75, "layers": 2.0, "batch": 256.0, "optimizer": "sgd", "momentum": 0.9}
    assert arguments(WIDE, found) == (
        "--lr=0.001",
        "--decay=0.75",
        "--layers=2",
        "--batch=256",
        "--optimizer=sgd",
        "--momentum=0.9",
    )


def test_the_algorithm_of_the_study_comes_first() -> None:
    assert choose_sampler(study(LAYERS, algorithm="GRID_SEARCH"), "tpe").name == "grid"
    assert choose_sampler(study(LAYERS, algorithm="RANDOM_SEARCH"), "gp").name == "random"


@given(st.integers(0, 2**63), st.integers(1, 1000))
def test_any_seed_suggests_at_random(seed: int, number: int) -> None:
    found = next_parameters(WIDE, (), sampler="random", seed=seed, number=number)
    assert found == next_parameters(WIDE, (), sampler="random", seed=seed, number=number)


def test_several_metrics_are_searched_for_their_front(sampler: str) -> None:
    spec = study(LEARNING_RATE, LAYERS, OPTIMIZER, goals=("MAXIMIZE", "MINIMIZE"))
    trials: list[StudyTrial] = []
    for number in range(1, 41):
        found = next_parameters(spec, trials, sampler=sampler, seed=1, number=number)
        assert found == next_parameters(spec, trials, sampler=sampler, seed=1, number=number)
        assert found is not None
        trials.append(ended(number, found, -distance(found), float(found["layers"])))
    fronts = [trial for trial in trials[20:] if distance(trial.parameters) < 0.5]
    assert len(fronts) >= (8 if sampler == "tpe" else 1)
