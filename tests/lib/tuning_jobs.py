"""Tuning jobs as the API answers with them, for tests that look at trials."""

from __future__ import annotations

from typing import Any

STUDY: dict[str, Any] = {
    "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
    "parameters": [
        {
            "parameterId": "rate",
            "doubleValueSpec": {"minValue": 0.0001, "maxValue": 0.1},
            "scaleType": "UNIT_LOG_SCALE",
        },
        {"parameterId": "units", "integerValueSpec": {"minValue": "1", "maxValue": "100"}},
        {
            "parameterId": "optimizer",
            "categoricalValueSpec": {"values": ["adam", "sgd"]},
            "conditionalParameterSpecs": [
                {
                    "parentCategoricalValues": {"values": ["sgd"]},
                    "parameterSpec": {
                        "parameterId": "momentum",
                        "discreteValueSpec": {"values": [0.0, 0.9]},
                    },
                }
            ],
        },
    ],
}
OUTPUT = "gs://bucket/study"


def trial(number: int, accuracy: float | None, *, state: str = "", **parameters: Any) -> dict[str, Any]:
    """An ended trial: SUCCEEDED with its accuracy, INFEASIBLE without, unless another state is given."""
    document: dict[str, Any] = {
        "id": str(number),
        "state": state or ("INFEASIBLE" if accuracy is None else "SUCCEEDED"),
        "parameters": [{"parameterId": name, "value": value} for name, value in parameters.items()],
        "startTime": f"2026-11-01T10:{number:02}:00Z",
        "endTime": f"2026-11-01T10:{number:02}:12Z",
    }
    if accuracy is not None:
        document["finalMeasurement"] = {
            "stepCount": "19",
            "metrics": [{"metricId": "accuracy", "value": accuracy}],
        }
    elif not state:
        document["infeasibleReason"] = "The trial reported no accuracy."
    return document


TRIALS: list[dict[str, Any]] = [
    trial(1, 0.5, rate=0.001, units=80.0, optimizer="adam"),
    trial(2, 0.9123456, rate=0.0123, units=8.0, optimizer="sgd", momentum=0.9),
    trial(3, None, rate=0.1, units=1.0, optimizer="adam"),
    trial(4, 0.75, rate=0.02, units=16.0, optimizer="sgd", momentum=0.0),
]


def tuning_document(
    name: str, *, trials: list[dict[str, Any]] | None = None, **fields: Any
) -> dict[str, Any]:
    """A tuning job's document; an ended one, unless `fields` say something else."""
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "containerSpec": {"imageUri": "gcr.io/p/i"},
    }
    return {
        "name": name,
        "displayName": "tune",
        "studySpec": STUDY,
        "maxTrialCount": 4,
        "parallelTrialCount": 2,
        "trialJobSpec": {"workerPoolSpecs": [pool], "baseOutputDirectory": {"outputUriPrefix": OUTPUT}},
        "trials": TRIALS if trials is None else trials,
        "state": "JOB_STATE_SUCCEEDED",
        "createTime": "2026-11-01T10:00:00Z",
        "startTime": "2026-11-01T10:00:10Z",
        "endTime": "2026-11-01T10:09:00Z",
    } | fields
