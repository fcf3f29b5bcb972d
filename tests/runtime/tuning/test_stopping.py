"""Which trials are ended early."""

from __future__ import annotations

import math

import msgspec
import pytest
from lib.pace import at_most
from study_specs import LAYERS, measured, running, study

from vtrain.runtime.tuning.stopping import MIN_COMPARED, extrapolated, should_stop
from vtrain.runtime.tuning.study import StudyTrial

MEDIAN = {"medianAutomatedStoppingSpec": {}}
DECAY = {"decayCurveStoppingSpec": {}}


def completed(number: int, *values: float) -> StudyTrial:
    return msgspec.structs.replace(running(number, *values), state="SUCCEEDED")


OTHERS = [completed(2, 0.2, 0.4, 0.6), completed(3, 0.4, 0.6, 0.8), completed(4, 0.1, 0.5, 0.9)]


def test_a_trial_below_the_median_of_averages_is_stopped() -> None:
    spec = study(LAYERS, **MEDIAN)
    assert should_stop(spec, running(1, 0.1, 0.2), OTHERS)  # averages at step 2: 0.3, 0.5, 0.3
    assert not should_stop(spec, running(1, 0.1, 0.35), OTHERS)
    assert not should_stop(spec, running(1, 0.35, 0.1), OTHERS), "the best value counts, and not the last"


def test_goals_turn_the_comparison() -> None:
    spec = study(LAYERS, goals=("MINIMIZE",), **MEDIAN)
    assert should_stop(spec, running(1, 0.9, 0.8), OTHERS)
    assert not should_stop(spec, running(1, 0.1, 0.2), OTHERS)


@pytest.mark.parametrize("rule", [MEDIAN, DECAY])
def test_few_trials_stop_none(rule: dict[str, dict[str, bool]]) -> None:
    spec = study(LAYERS, **rule)
    poor = running(1, *([0.0] * 10))
    assert not should_stop(spec, poor, OTHERS[: MIN_COMPARED - 1])
    assert not should_stop(spec, poor, [msgspec.structs.replace(o, state="ACTIVE") for o in OTHERS])
    assert not should_stop(spec, running(1), OTHERS)


def test_elapsed_time_takes_the_place_of_steps() -> None:
    spec = study(LAYERS, medianAutomatedStoppingSpec={"useElapsedDuration": True})
    late = running(1, 0.3, 0.3)
    slow = [
        msgspec.structs.replace(
            other,
            measurements=tuple(
                msgspec.structs.replace(one, elapsed_duration=f"{100 * place}s")
                for place, one in enumerate(other.measurements, 1)
            ),
        )
        for other in OTHERS
    ]
    assert not should_stop(spec, late, slow), "no other trial had reported so early"
    assert should_stop(study(LAYERS, **MEDIAN), running(1, 0.2, 0.2), slow)


def test_a_curve_that_stays_below_the_best_is_stopped() -> None:
    spec = study(LAYERS, **DECAY)
    good = [completed(n, *(0.9 - 0.8 * math.exp(-step / 5) for step in range(30))) for n in (2, 3, 4)]
    poor = running(1, *(0.4 - 0.3 * math.exp(-step / 3) for step in range(12)))
    rising = running(1, *(0.95 - 0.9 * math.exp(-step / 9) for step in range(8)))
    assert should_stop(spec, poor, good)
    assert not should_stop(spec, rising, good)
    assert not should_stop(study(LAYERS), poor, good), "no rule, no end"


def test_curves_are_drawn_on() -> None:
    points = [(float(step), 1 + 2 * math.exp(-step / 4)) for step in range(10)]
    value, deviation = extrapolated(points, 40.0)
    assert abs(value - 1) < 0.1
    assert deviation < 0.05
    assert extrapolated([(3.0, 2.0)] * 5, 9.0) == (2.0, 0.0)


def without_steps(trial: StudyTrial) -> StudyTrial:
    """The trial of a trainer that reports no steps, as hypertune writes them: all are 0."""
    reports = tuple(msgspec.structs.replace(one, step_count=0) for one in trial.measurements)
    return msgspec.structs.replace(trial, measurements=reports)


def test_without_steps_the_measurements_are_counted() -> None:
    """Else a trial's first value would be compared with the whole curves of the others."""
    others = [without_steps(other) for other in OTHERS]
    spec = study(LAYERS, **MEDIAN)
    assert not should_stop(
        spec, without_steps(running(1, 0.3)), others
    )  # averages of the first: 0.2, 0.4, 0.1
    assert should_stop(spec, without_steps(running(1, 0.1, 0.2)), others)


def test_a_trial_without_an_elapsed_time_is_compared_all_the_same() -> None:
    spec = study(LAYERS, medianAutomatedStoppingSpec={"useElapsedDuration": True})
    bare = [
        msgspec.structs.replace(
            trial,
            measurements=tuple(
                msgspec.structs.replace(one, elapsed_duration="") for one in trial.measurements
            ),
        )
        for trial in (running(1, 0.1), *OTHERS)
    ]
    assert should_stop(spec, bare[0], bare[1:])


def test_a_trainer_that_began_again_stops_no_study() -> None:
    """After a restart the steps count from 0 again, far before the first one that was read."""
    spec = study(LAYERS, **DECAY)
    steps = (1000, *range(6), 1001)
    again = running(1, *([0.1] * len(steps)))
    own = tuple(
        msgspec.structs.replace(one, step_count=step)
        for one, step in zip(again.measurements, steps, strict=True)
    )
    good = [completed(n, *([0.9] * 2000)) for n in (2, 3, 4)]
    assert should_stop(spec, msgspec.structs.replace(again, measurements=own), good)


@pytest.mark.parametrize("rule", [MEDIAN, DECAY])
def test_metrics_that_grow_without_bound_stop_no_study(rule: dict[str, dict[str, bool]]) -> None:
    largest = 1.7e308
    spec = study(LAYERS, goals=("MINIMIZE",), **rule)
    diverged = running(1, *(largest / 10**n for n in range(9, -1, -1)))
    others = [completed(n, *([largest] * 20)) for n in (2, 3, 4)]
    assert not should_stop(spec, diverged, others)
    good = [completed(n, *([0.1] * 20)) for n in (2, 3, 4)]
    assert should_stop(spec, diverged, good) == (rule is MEDIAN), "such a curve is not drawn on"


def test_a_curve_of_very_many_points_is_drawn_on_from_some_of_them() -> None:
    spec = study(LAYERS, **DECAY)
    poor = running(1, *(0.4 - 0.3 * math.exp(-step / 3000) for step in range(100_000)))
    last = measured(0.9, step=200_000)
    good = [msgspec.structs.replace(completed(n), measurements=(last,)) for n in (2, 3, 4)]
    with at_most(1.5, "This is asked after every report."):
        assert should_stop(spec, poor, good)
