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


GRID_TRAINER = '''
import argparse, json, os, signal, sys, time

parser = argparse.ArgumentParser()
parser.add_argument("--case", default="good")
parser.add_argument("--n", type=int, required=True)
parser.add_argument("--kind")
options = parser.parse_args()
trial, reports = os.environ["CLOUD_ML_TRIAL_ID"], []


def report(value, name="accuracy", step=1):
    """Write the file as cloudml-hypertune does: the whole of it, anew."""
    entry = {"checkpoint_path": "", "global_step": str(step), "timestamp": time.time(), "trial": trial}
    reports.append(json.dumps(entry | {name: str(value)}, sort_keys=True))
    with open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "w") as file:
        file.writelines(line + "\\n" for line in reports)


print("argv", sys.argv[1:], flush=True)
folder = os.environ["AIP_MODEL_DIR"].replace("gs://", "/gcs/", 1)  # a bucket is mounted below /gcs
os.makedirs(folder, exist_ok=True)
open(os.path.join(folder, "model.txt"), "w").write(str(options.n))
if options.case == "nothing":
    sys.exit()
if options.case == "wrong-name":
    report(0.5, name="acc")
if options.case in ("nan", "text"):
    report("nan" if options.case == "nan" else "high")
if options.case == "fails" or options.case == "one-fails" and options.n == 4:
    sys.exit("out of luck")
if options.case in ("good", "one-fails"):
    report(options.n / 100, step=1)
    report(options.n / 10, step=2)
if options.case == "hangs":
    report(options.n / 10)
    signal.sigwait([signal.SIGUSR1])
if options.case == "slow-if-poor":
    for step in range(1, 4):
        report(options.n / 10, step=step)
    if options.n == 1:
        time.sleep(600)
'''


GRID_STUDY = """
maxTrialCount: {trials}
parallelTrialCount: {parallel}
maxFailedTrialCount: {failures}
studySpec:
  algorithm: GRID_SEARCH
  metrics: [{{metricId: accuracy, goal: MAXIMIZE}}]
  parameters: [{{parameterId: n, integerValueSpec: {{minValue: 1, maxValue: {most}}}}}]
"""
