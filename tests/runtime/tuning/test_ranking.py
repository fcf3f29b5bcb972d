"""Which measurement counts, which trial is the best."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from study_specs import LAYERS, ended, measured, study

from vtrain.messages.hyperparameter_tuning_job import Measurement, Metric
from vtrain.runtime.tuning.study import best, final_measurement, ranked

REPORTS = (measured(0.5, step=1), measured(0.9, step=2), measured(0.7, step=3))


def test_the_last_measurement_counts_unless_the_best_is_selected() -> None:
    assert final_measurement(study(LAYERS), REPORTS) == REPORTS[2]
    selected = {"measurementSelectionType": "BEST_MEASUREMENT"}
    assert final_measurement(study(LAYERS, **selected), REPORTS) == REPORTS[1]
    assert final_measurement(study(LAYERS, goals=("MINIMIZE",), **selected), REPORTS) == REPORTS[0]


def test_without_the_metric_there_is_no_measurement() -> None:
    assert final_measurement(study(LAYERS), ()) is None
    assert final_measurement(study(LAYERS, goals=("MAXIMIZE", "MINIMIZE")), REPORTS) is None


def test_metrics_reported_apart_are_taken_together() -> None:
    apart = (measured(0.5, step=1), Measurement(step_count=2, metrics=(Metric(metric_id="m1", value=3.0),)))
    found = final_measurement(study(LAYERS, goals=("MAXIMIZE", "MINIMIZE")), apart)
    assert found is not None
    assert [(metric.metric_id, metric.value) for metric in found.metrics] == [("m0", 0.5), ("m1", 3.0)]
    assert found.step_count == 2


def test_the_first_of_equals_is_the_best() -> None:
    trials = [ended(3, {}, 0.9), ended(1, {}), ended(2, {}, 0.9), ended(4, {}, 0.5)]
    assert [trial.id for trial in best(study(LAYERS), trials)] == [2]
    assert [trial.id for trial in ranked(study(LAYERS), trials)] == [2, 3, 4, 1]
    assert [trial.id for trial in best(study(LAYERS, goals=("MINIMIZE",)), trials)] == [4]
    assert best(study(LAYERS), [ended(1, {})]) == []


def test_several_metrics_have_a_pareto_front() -> None:
    spec = study(LAYERS, goals=("MAXIMIZE", "MINIMIZE"))
    trials = [
        ended(1, {}, 0.9, 10.0),
        ended(2, {}, 0.8, 5.0),
        ended(3, {}, 0.7, 7.0),
        ended(4, {}, 0.9, 10.0),
    ]
    assert [trial.id for trial in best(spec, trials)] == [1, 4, 2]
    assert [trial.id for trial in ranked(spec, trials)] == [1, 4, 2, 3]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_any_pareto_front_is_what_no_other_beats(points: list[tuple[int, int]]) -> None:
    spec = study(LAYERS, goals=("MAXIMIZE", "MAXIMIZE"))
    trials = [ended(number, {}, *map(float, point)) for number, point in enumerate(points, 1)]
    unbeaten = {
        number
        for number, (a, b) in enumerate(points, 1)
        if not any(x >= a and y >= b and (x, y) != (a, b) for x, y in points)
    }
    assert {trial.id for trial in best(spec, trials)} == unbeaten


def test_a_value_that_is_no_number_is_no_result() -> None:
    """Vertex AI may answer with any; `nan` would turn the order into chance."""
    trials = [ended(1, {}, math.nan), ended(2, {}, 0.5), ended(3, {}, math.inf), ended(4, {}, 0.9)]
    assert [trial.id for trial in ranked(study(LAYERS), trials)] == [4, 2, 1, 3]
    assert [trial.id for trial in best(study(LAYERS, goals=("MINIMIZE",)), trials)] == [2]
