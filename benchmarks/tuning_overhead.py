"""What a study takes beside its trials: per trial, per suggestion, and to read one trial's measurements."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import measure
from measure import VTRAIN, alternate, arguments, judge, scene

OVERHEAD = 0.5
"""Seconds by which a trial may take longer than the bare trainer."""
SUGGESTION = 0.05
"""Seconds for the parameters of trial 100, by TPE."""
LINEAR = 2.5
"""How much longer the reading of twice as many measurements may take."""
TRIALS = 10
REPORTS = 10_000
TRAINER = """
import argparse, json, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--x", type=float, default=0)
x = parser.parse_args().x
time.sleep(0.2)
with open(os.environ.get("CLOUD_ML_HP_METRIC_FILE", os.devnull), "w") as file:
    print(json.dumps({"score": str(x), "global_step": "1"}), file=file)
"""
STUDY = f"""
maxTrialCount: {TRIALS}
parallelTrialCount: 1
studySpec:
  algorithm: RANDOM_SEARCH
  metrics: [{{metricId: score}}]
  parameters: [{{parameterId: x, doubleValueSpec: {{minValue: 0, maxValue: 1}}}}]
"""


def main() -> int:
    options = arguments(__doc__, runs=5)
    with scene() as folder:
        per_trial(folder, options.runs)
        suggestion(options.runs)
        measurements(folder, options.runs)
    return min(measure.failures, 1)


def per_trial(folder: Path, runs: int) -> None:
    """A study whose trials run one after another, against as many runs of the bare trainer."""
    trainer, study = folder / "code" / "train.py", folder / "study.yaml"
    trainer.parent.mkdir()
    trainer.write_text(TRAINER)
    study.write_text(STUDY)
    create = [
        *VTRAIN,
        "hp-tuning-jobs",
        "create",
        "--backend=process",
        "--display-name=a",
        f"--config={study}",
    ]
    create += [f"--local-package-path={trainer.parent}", "--script=train.py", "--wait"]

    def bare() -> float:
        return sum(measure.seconds([sys.executable, str(trainer)]) for _ in range(TRIALS)) / TRIALS

    def tuned() -> float:
        """By the job's own times, so that the start of the command does not count."""
        ended = subprocess.run([*create, "--format=json"], check=True, capture_output=True)
        trials = json.loads(ended.stdout)["trials"]
        first, last = trials[0]["startTime"], trials[-1]["endTime"]
        return (seconds_of(last) - seconds_of(first)) / TRIALS

    trainer_alone, trial = alternate({"the bare trainer": bare, "a trial": tuned}, runs).values()
    judge("a trial over the bare trainer", trial - trainer_alone, OVERHEAD, " s")


def seconds_of(text: str) -> float:
    from vtrain.times import epoch

    return epoch(text)


def suggestion(runs: int) -> None:
    """The parameters of trial 100, with 99 trials to learn from."""
    from vtrain.messages.codec import from_document
    from vtrain.messages.hyperparameter_tuning_job import Measurement, Metric, StudySpec
    from vtrain.runtime.tuning.study import StudyTrial
    from vtrain.runtime.tuning.suggestion import next_parameters

    span = {"minValue": 0.001, "maxValue": 1}
    names = ("a", "b", "c", "d", "e")
    parameters = [{"parameterId": name, "doubleValueSpec": span} for name in names]
    spec = from_document(StudySpec, {"metrics": [{"metricId": "m"}], "parameters": parameters})
    chance = random.Random(1)
    trials = []
    for number in range(1, 100):
        values: dict[str, float | str] = {name: chance.uniform(0.001, 1) for name in names}
        final = Measurement(metrics=(Metric(metric_id="m", value=chance.random()),))
        trials.append(StudyTrial(id=number, parameters=values, state="SUCCEEDED", final=final))

    def asked() -> float:
        started = time.perf_counter()
        next_parameters(spec, trials, sampler="tpe", seed=1, number=100)
        return time.perf_counter() - started

    judge(
        "the parameters of trial 100",
        alternate({"a suggestion": asked}, runs)["a suggestion"],
        SUGGESTION,
        " s",
    )


def measurements(folder: Path, runs: int) -> None:
    """All measurements of a trial that has reported often, against twice as many."""
    from vtrain.runtime.tuning.metric_file import MetricFile

    def read(count: int) -> float:
        path = folder / f"{count}.metrics"
        if not path.exists():
            lines = (json.dumps({"m": str(step / count), "global_step": str(step)}) for step in range(count))
            path.write_text("".join(f"{line}\n" for line in lines))
        started = time.perf_counter()
        found = MetricFile(path, ["m"], started=0.0).read(ended=True)
        taken = time.perf_counter() - started
        if len(found) != count:
            raise SystemExit(f"FAIL  {len(found)} of {count} measurements were read")
        return taken

    sides = {f"{count:,} measurements": count for count in (REPORTS, 2 * REPORTS)}
    once, twice = alternate(
        {name: lambda count=count: read(count) for name, count in sides.items()},
        runs,  # type: ignore[misc]
    ).values()
    judge("twice as many measurements, of the time of once", twice / once, LINEAR)


if __name__ == "__main__":
    sys.exit(main())
