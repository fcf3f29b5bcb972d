"""Studies and trials for tests, in few words."""

from __future__ import annotations

import math
from typing import Any

from vtrain.messages.codec import from_document
from vtrain.messages.hyperparameter_tuning_job import Measurement, Metric, StudySpec
from vtrain.runtime.tuning.study import Parameters, StudyTrial
from vtrain.runtime.tuning.suggestion import next_parameters

LEARNING_RATE = {
    "parameterId": "lr",
    "doubleValueSpec": {"minValue": 1e-5, "maxValue": 1.0},
    "scaleType": "UNIT_LOG_SCALE",
}
MOMENTUM = {
    "parameterId": "momentum",
    "doubleValueSpec": {"minValue": 0.5, "maxValue": 0.999},
    "scaleType": "UNIT_REVERSE_LOG_SCALE",
}
LAYERS = {"parameterId": "layers", "integerValueSpec": {"minValue": "1", "maxValue": "3"}}
BATCH = {"parameterId": "batch", "discreteValueSpec": {"values": [16, 32, 256]}}
OPTIMIZER = {
    "parameterId": "optimizer",
    "categoricalValueSpec": {"values": ["adam", "sgd"]},
    "conditionalParameterSpecs": [
        {"parentCategoricalValues": {"values": ["sgd"]}, "parameterSpec": MOMENTUM},
        {
            "parentCategoricalValues": {"values": ["adam"]},
            "parameterSpec": BATCH | {"parameterId": "warmup"},
        },
    ],
}


def study(*parameters: dict[str, Any], goals: tuple[str, ...] = ("MAXIMIZE",), **more: Any) -> StudySpec:
    """A study of these parameters; its metrics are called m0, m1, …"""
    metrics = [{"metricId": f"m{number}", "goal": goal} for number, goal in enumerate(goals)]
    return from_document(StudySpec, {"metrics": metrics, "parameters": list(parameters)} | more)


def measured(*values: float, step: int = 1, seconds: float = 0.0) -> Measurement:
    """A measurement of m0, m1, …"""
    metrics = tuple(Metric(metric_id=f"m{number}", value=value) for number, value in enumerate(values))
    return Measurement(step_count=step, elapsed_duration=f"{seconds:g}s", metrics=metrics)


def ended(number: int, parameters: Parameters, *values: float) -> StudyTrial:
    """A trial that succeeded with these results; without any it is INFEASIBLE."""
    return StudyTrial(
        id=number,
        parameters=parameters,
        state="SUCCEEDED" if values else "INFEASIBLE",
        final=measured(*values) if values else None,
    )


def running(number: int, *values: float, **fields: Any) -> StudyTrial:
    """A trial that has reported m0 at steps 1, 2, …"""
    reports = tuple(measured(value, step=step, seconds=step) for step, value in enumerate(values, 1))
    return StudyTrial(id=number, parameters={}, state="ACTIVE", measurements=reports, **fields)


def distance(found: Parameters) -> float:
    """How far from the best learning rate, in orders of magnitude."""
    return abs(math.log10(float(found["lr"])) + 2)


def suggested(spec: StudySpec, sampler: str, count: int, seed: int = 1) -> list[Parameters]:
    """The parameters of a study in which each trial ends before the next begins."""
    trials: list[StudyTrial] = []
    for number in range(1, count + 1):
        found = next_parameters(spec, trials, sampler=sampler, seed=seed, number=number)
        assert found is not None
        trials.append(ended(number, found, *([-(distance(found) ** 2)] if number % 5 else [])))
    return [trial.parameters for trial in trials]
