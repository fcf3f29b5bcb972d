"""The rules of the API for tuning jobs: each is broken once, and the field that breaks it is named."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrain.errors import FieldError
from vtrain.messages.codec import read_message
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, ParameterSpec
from vtrain.messages.study_rules import MOST_VALUES, check_tuning_job, is_value_of, not_reproduced_of_study

Document = dict[str, Any]

RATE = {
    "parameterId": "rate",
    "doubleValueSpec": {"minValue": 1e-4, "maxValue": 0.1},
    "scaleType": "UNIT_LOG_SCALE",
}
DEPTH = {"parameterId": "depth", "integerValueSpec": {"minValue": "1", "maxValue": "4"}}
BATCH = {"parameterId": "batch", "discreteValueSpec": {"values": [16, 32, 0.5 + 64]}}
KIND = {"parameterId": "kind", "categoricalValueSpec": {"values": ["tree", "net"]}}
POOL = {"containerSpec": {"imageUri": "trainer"}, "replicaCount": "1"}
JOB = {
    "displayName": "study",
    "maxTrialCount": 4,
    "parallelTrialCount": 2,
    "maxFailedTrialCount": 4,
    "studySpec": {
        "metrics": [{"metricId": "acc", "goal": "MAXIMIZE"}, {"metricId": "a/b", "goal": "MINIMIZE"}],
        "parameters": [RATE, DEPTH, BATCH, KIND],
    },
    "trialJobSpec": {"workerPoolSpecs": [POOL]},
}


def job(change: Callable[[Document], Any]) -> HyperparameterTuningJob:
    document = deepcopy(JOB)
    change(document)
    return read_message(HyperparameterTuningJob, document)


def of_parameters(*parameters: Document, **more: Any) -> HyperparameterTuningJob:
    return job(lambda it: it["studySpec"].update({"parameters": list(parameters)} | more))


def below(parent: Document, *children: tuple[str, list[Any], Document]) -> Document:
    """The parent with children: the field of the condition, its values, and the parameter."""
    specs = [{field: {"values": values}, "parameterSpec": child} for field, values, child in children]
    return parent | {"conditionalParameterSpecs": specs}


def refused(broken: HyperparameterTuningJob, path: str) -> str:
    with pytest.raises(FieldError) as caught:
        check_tuning_job(broken)
    assert caught.value.path == path
    return caught.value.message


def test_a_good_job_passes() -> None:
    check_tuning_job(job(lambda it: None))


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("studySpec", lambda it: it.pop("studySpec")),
        ("trialJobSpec", lambda it: it.pop("trialJobSpec")),
        ("maxTrialCount", lambda it: it.update(maxTrialCount=0)),
        ("parallelTrialCount", lambda it: it.update(parallelTrialCount=-1)),
        ("maxFailedTrialCount", lambda it: it.update(maxFailedTrialCount=5)),
        ("maxFailedTrialCount", lambda it: it.update(maxFailedTrialCount=-1)),
        ("displayName", lambda it: it.pop("displayName")),
        ("labels", lambda it: it.update(labels={"A": "b"})),
        ("studySpec.metrics", lambda it: it["studySpec"].update(metrics=[])),
        ("studySpec.metrics[0].metricId", lambda it: it["studySpec"]["metrics"][0].pop("metricId")),
        ("studySpec.metrics[1].metricId", lambda it: it["studySpec"]["metrics"][1].update(metricId="a b")),
        ("studySpec.metrics[1].metricId", lambda it: it["studySpec"]["metrics"][1].update(metricId="acc")),
        ("studySpec.parameters", lambda it: it["studySpec"].update(parameters=[])),
        (
            "studySpec.medianAutomatedStoppingSpec",
            lambda it: it["studySpec"].update(medianAutomatedStoppingSpec={}, decayCurveStoppingSpec={}),
        ),
        ("trialJobSpec.workerPoolSpecs", lambda it: it.update(trialJobSpec={})),
        (
            "trialJobSpec.workerPoolSpecs[0].containerSpec.imageUri",
            lambda it: it["trialJobSpec"]["workerPoolSpecs"][0].update(containerSpec={"args": ["a"]}),
        ),
        (
            "trialJobSpec.scheduling.timeout",
            lambda it: it["trialJobSpec"].update(scheduling={"timeout": "1h"}),
        ),
        (
            "trialJobSpec.workerPoolSpecs[0].machineSpec",
            lambda it: it["trialJobSpec"]["workerPoolSpecs"][0].update(
                machineSpec={"machineType": "cloud-tpu", "acceleratorType": "TPU_V2", "acceleratorCount": 8}
            ),
        ),
    ],
)
def test_a_broken_rule_is_told_with_its_path(path: str, change: Callable[[Document], Any]) -> None:
    refused(job(change), path)


@pytest.mark.parametrize(
    ("below_parameter", "parameter"),
    [
        (".parameterId", RATE | {"parameterId": ""}),
        (".parameterId", RATE | {"parameterId": "the rate"}),
        ("", {"parameterId": "x"}),
        ("", RATE | {"integerValueSpec": {"maxValue": "1"}}),
        (".doubleValueSpec", RATE | {"doubleValueSpec": {"minValue": 2, "maxValue": 1}}),
        (".doubleValueSpec.minValue", RATE | {"doubleValueSpec": {"minValue": 0, "maxValue": 1}}),
        (".integerValueSpec", DEPTH | {"integerValueSpec": {"minValue": "3", "maxValue": "2"}}),
        (
            ".integerValueSpec.minValue",
            DEPTH | {"scaleType": "UNIT_REVERSE_LOG_SCALE", "integerValueSpec": {}},
        ),
        (".integerValueSpec.maxValue", DEPTH | {"integerValueSpec": {"maxValue": str(2**53 + 1)}}),
        (".categoricalValueSpec.values", {"parameterId": "x", "categoricalValueSpec": {}}),
        (
            ".categoricalValueSpec.values[1]",
            {"parameterId": "x", "categoricalValueSpec": {"values": ["a", "a"]}},
        ),
        (".scaleType", KIND | {"scaleType": "UNIT_LINEAR_SCALE"}),
        (".discreteValueSpec.values", {"parameterId": "x", "discreteValueSpec": {}}),
        (
            ".discreteValueSpec.values",
            {"parameterId": "x", "discreteValueSpec": {"values": list(range(1001))}},
        ),
        (".discreteValueSpec.values[1]", {"parameterId": "x", "discreteValueSpec": {"values": [2, 1]}}),
        (
            ".discreteValueSpec.values[1]",
            {"parameterId": "x", "discreteValueSpec": {"values": [1, 1 + 1e-11]}},
        ),
        (
            ".discreteValueSpec.values[0]",
            {"parameterId": "x", "discreteValueSpec": {"values": [0, 1]}, "scaleType": "UNIT_LOG_SCALE"},
        ),
        (".conditionalParameterSpecs[0]", below(RATE, ("parentDiscreteValues", [0.01], DEPTH))),
        (".conditionalParameterSpecs[0]", below(DEPTH, ("parentDiscreteValues", [1], RATE))),
        (".conditionalParameterSpecs[0].parentIntValues.values", below(DEPTH, ("parentIntValues", [], RATE))),
        (
            ".conditionalParameterSpecs[0].parentIntValues.values[1]",
            below(DEPTH, ("parentIntValues", [1, 5], RATE)),
        ),
        (
            ".conditionalParameterSpecs[0].parentDiscreteValues.values[0]",
            below(BATCH, ("parentDiscreteValues", [16 + 1e-9], RATE)),
        ),
        (
            ".conditionalParameterSpecs[0].parentCategoricalValues.values[0]",
            below(KIND, ("parentCategoricalValues", ["forest"], RATE)),
        ),
        (
            ".conditionalParameterSpecs[0].parameterSpec.doubleValueSpec.minValue",
            below(KIND, ("parentCategoricalValues", ["net"], RATE | {"doubleValueSpec": {"maxValue": 1}})),
        ),
        (
            ".conditionalParameterSpecs[0].parameterSpec",
            below(KIND, ("parentCategoricalValues", ["net"], DEPTH | {"parameterId": "kind"})),
        ),
        (
            ".conditionalParameterSpecs[1].parameterSpec",
            below(
                KIND,
                ("parentCategoricalValues", ["net"], RATE),
                ("parentCategoricalValues", ["tree", "net"], RATE),
            ),
        ),
    ],
)
def test_a_wrong_parameter_is_told_with_its_path(below_parameter: str, parameter: Document) -> None:
    other = {"parameterId": "first", "integerValueSpec": {"maxValue": "1"}}
    refused(of_parameters(other, parameter), f"studySpec.parameters[1]{below_parameter}")


def test_a_child_needs_a_parameter() -> None:
    parent = KIND | {"conditionalParameterSpecs": [{"parentCategoricalValues": {"values": ["net"]}}]}
    refused(of_parameters(parent), "studySpec.parameters[0].conditionalParameterSpecs[0].parameterSpec")


def test_ids_are_unique_among_parameters_that_may_be_active_together() -> None:
    refused(of_parameters(RATE, DEPTH, RATE), "studySpec.parameters[2]")
    inside = below(KIND, ("parentCategoricalValues", ["net"], RATE))
    assert "rate is there twice" in refused(of_parameters(RATE, inside), "studySpec.parameters[1]")


def test_an_id_may_return_where_the_parents_values_exclude_one_another() -> None:
    deep = below(DEPTH, ("parentIntValues", [1], RATE))
    twice = below(
        KIND, ("parentCategoricalValues", ["net"], deep), ("parentCategoricalValues", ["tree"], RATE)
    )
    check_tuning_job(of_parameters(twice))


def test_discrete_parents_match_with_a_tolerance() -> None:
    check_tuning_job(of_parameters(below(BATCH, ("parentDiscreteValues", [16 + 1e-11], RATE))))


def test_conditions_have_any_depth() -> None:
    parameter: Document = {"parameterId": "p0", "integerValueSpec": {"maxValue": "1"}}
    for level in range(1, 60):
        parent = {"parameterId": f"p{level}", "integerValueSpec": {"maxValue": "1"}}
        parameter = below(parent, ("parentIntValues", [1], parameter))
    check_tuning_job(of_parameters(parameter))


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("studySpec.parameters[1].doubleValueSpec", [DEPTH, RATE]),
        (
            "studySpec.parameters[0].conditionalParameterSpecs[0].parameterSpec.doubleValueSpec",
            [below(KIND, ("parentCategoricalValues", ["net"], RATE))],
        ),
    ],
)
def test_a_grid_has_no_double_parameter(path: str, parameters: list[Document]) -> None:
    refused(of_parameters(*parameters, algorithm="GRID_SEARCH"), path)
    check_tuning_job(of_parameters(DEPTH, BATCH, KIND, algorithm="GRID_SEARCH"))


def test_a_package_needs_its_image_only_where_images_run() -> None:
    package = {"pythonPackageSpec": {"pythonModule": "trainer.task"}}
    found = job(lambda it: it.update(trialJobSpec={"workerPoolSpecs": [package]}))
    check_tuning_job(found)
    with pytest.raises(FieldError, match="executorImageUri"):
        check_tuning_job(found, executor_required=True)


@pytest.mark.parametrize(
    ("word", "change"),
    [
        ("convexAutomatedStoppingSpec", {"convexAutomatedStoppingSpec": {}}),
        ("studyStoppingConfig", {"studyStoppingConfig": {}}),
        ("observationNoise", {"observationNoise": "HIGH"}),
        ("safetyConfig", {"metrics": [{"metricId": "acc", "safetyConfig": {"safetyThreshold": 1}}]}),
        (
            "defaultValue",
            {"parameters": [DEPTH | {"integerValueSpec": {"maxValue": "4", "defaultValue": "2"}}]},
        ),
    ],
)
def test_fields_without_effect_are_told(word: str, change: Document) -> None:
    found = job(lambda it: it["studySpec"].update(change))
    assert found.study_spec is not None
    check_tuning_job(found)
    (sentence,) = not_reproduced_of_study(found.study_spec)
    assert word in sentence and sentence.endswith(".")


def test_of_an_ordinary_study_everything_has_an_effect() -> None:
    found = job(lambda it: it["studySpec"].update(medianAutomatedStoppingSpec={}, algorithm="RANDOM_SEARCH"))
    assert found.study_spec is not None
    assert not_reproduced_of_study(found.study_spec) == ()


@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20),
    low=st.integers(-(2**60), 2**60),
    high=st.integers(-(2**60), 2**60),
)
def test_values_and_bounds_are_taken_or_refused(values: list[float], low: int, high: int) -> None:
    """Whatever the numbers are, nothing else than a FieldError is raised, and taken values are values."""
    for spec in (
        {"discreteValueSpec": {"values": values}},
        {"integerValueSpec": {"minValue": str(low), "maxValue": str(high)}},
        {"doubleValueSpec": {"minValue": float(low), "maxValue": float(high)}},
    ):
        found = of_parameters({"parameterId": "x", **spec})
        try:
            check_tuning_job(found)
        except FieldError:
            continue
        assert found.study_spec is not None
        parameter: ParameterSpec = found.study_spec.parameters[0]
        ends = values if "discreteValueSpec" in spec else (low, high)
        assert all(is_value_of(parameter, float(end)) for end in ends)
        assert len(ends) <= MOST_VALUES


def test_trials_without_pools_are_told_where_these_belong() -> None:
    with pytest.raises(FieldError, match="a job needs at least one pool") as refusal:
        check_tuning_job(job(lambda it: it.update(trialJobSpec={})))
    assert refusal.value.hint.startswith("Describe one in the file")
