"""A wrong value of a tuning job or a pipeline is blamed on the line of a file, or the flag, that gave it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vtrain.messages.training_task import TUNING_TASK

Blames = Callable[..., str]
LABEL = ("A=b is not a label.", "Keys begin with a letter; both hold at most 63")
POOL = """\
  workerPoolSpecs:
  - replicaCount: 1
    machineSpec:
      machineType: n1-standard-4
      acceleratorType: NVIDIA_TESLA_T4
      acceleratorCount: 1
    pythonPackageSpec: {pythonModule: m, packageUris: ["file:///a.tar.gz"]}
"""
MACHINE = "workerPoolSpecs[0].machineSpec"
WHOLE = "expected a whole number, found 'one'."
NOT_TAKEN = f"{MACHINE}.acceleratorCount: n1-standard-4 does not take 3 NVIDIA_TESLA_T4."
UNKNOWN = f"{MACHINE}.acceleratorCout: MachineSpec has no field 'acceleratorCout'."

# hyperparameter tuning jobs

STUDY = """\
studySpec:
  metrics: [{metricId: a, goal: MAXIMIZE}]
  parameters:
  - parameterId: x
    doubleValueSpec:
      minValue: 0
      maxValue: 1
    scaleType: UNIT_LINEAR_SCALE
  algorithm: RANDOM_SEARCH
maxTrialCount: 2
parallelTrialCount: 1
"""
TUNING = f"labels: {{team: red}}\n{STUDY}trialJobSpec:\n{POOL}  scheduling: {{strategy: SPOT}}\n"
TUNE = ("hp-tuning-jobs", "create", "--backend=process", "--display-name=a", "--config=hp.yaml")
PARAMETER = "studySpec.parameters[0]"
STUDIES = [
    ("acceleratorCount: 1", "acceleratorCount: one", f"{MACHINE}.acceleratorCount: {WHOLE}"),
    ("acceleratorCount: 1", "acceleratorCout: 1", UNKNOWN, "Did you mean acceleratorCount?"),
    ("acceleratorCount: 1", "acceleratorCount: 3", NOT_TAKEN, "n1-standard-4 takes 1, 2 or 4 "),
    (
        "NVIDIA_TESLA_T4",
        "NVIDIA_TESLA_T5",
        f"{MACHINE}.acceleratorType: the API has no 'NVIDIA_TESLA_T5'.",
        "Did you mean NVIDIA_TESLA_T4?",
    ),
    ("replicaCount: 1", "replicaCount: -1", "[0].replicaCount: expected 1 or more, found -1."),
    ("strategy: SPOT", "strategy: SPOTT", "strategy: the API has no 'SPOTT'.", "Did you mean SPOT?"),
    (
        "maxValue: 1",
        "maxValue: one",
        f"{PARAMETER}.doubleValueSpec.maxValue: expected a number, found 'one'.",
    ),
    (
        "maxValue: 1",
        "maxValu: 1",
        f"{PARAMETER}.doubleValueSpec.maxValu: DoubleValueSpec has no field 'maxValu'.",
        "Did you mean maxValue?",
    ),
    (
        "doubleValueSpec:\n      minValue: 0",
        "doubleValueSpec:\n      minValue: 10",
        f"{PARAMETER}.doubleValueSpec: minValue 10.0 is above maxValue 1.0.",
    ),
    (
        "scaleType: UNIT_LINEAR_SCALE",
        "scaleType: LINEAR",
        "UNIT_REVERSE_LOG_SCALE, found 'LINEAR'.",
        "Did you mean UNIT_LINEAR_SCALE?",
    ),
    (
        "metrics: [{metricId: a, goal: MAXIMIZE}]",
        "metrics: [{metricId: a, goal: maximize}]",
        "goal: expected one of GOAL_TYPE_UNSPECIFIED, MAXIMIZE, MINIMIZE, found 'maximize'.",
        "Did you mean MAXIMIZE?",
    ),
    ("algorithm: RANDOM_SEARCH", "algorithm: RANDOM", "found 'RANDOM'.", "Did you mean RANDOM_SEARCH?"),
    ("maxTrialCount: 2", "maxTrialCount: -2", "maxTrialCount: expected 1 or more, found -2."),
    (
        "studySpec:",
        "studySpe:",
        "studySpe: HyperparameterTuningJob has no field 'studySpe'.",
        "Did you mean studySpec?",
    ),
    ("labels: {team: red}", "labels: {A: b}", f"labels: {LABEL[0]}", LABEL[1]),
    ("trialJobSpec:", "jobSpec:", "jobSpec: the job of each trial is called trialJobSpec.", "Rename"),
    (
        "maxTrialCount: 2",
        "network: x",
        "network: belongs under trialJobSpec.",
        "Write trialJobSpec: above it, and indent what belongs to it: network.",
    ),
    ("parallelTrialCount: 1", "labels: {}", "not a YAML document: the key 'labels' stands here twice."),
]


@pytest.mark.parametrize("fault", STUDIES, ids=[row[1] for row in STUDIES])
def test_a_line_of_a_tuning_job(blames: Blames, fault: tuple[str, ...]) -> None:
    old, new, words, *hint = fault
    blames(*TUNE, wrong=("hp.yaml", TUNING, old, new), words=words, hint="".join(hint))


@pytest.mark.parametrize(
    ("flag", "words", "hint", "code"),
    [
        ("--max-trial-count=two", "expected a whole number, found 'two'.", "", 2),
        ("--parallel-trial-count=two", "expected a whole number, found 'two'.", "", 2),
        (f"--max-trial-count={10**12}", f"expected a whole number of 32 bits, found {10**12}.", "", 1),
        ("--algorithm=grid", "there is no 'grid'.", "Take algorithm-unspecified, grid-search, ", 2),
        ("--labels=A=b", *LABEL, 2),
        ("--service-account=x", "'x' is not an account.", "Give its e-mail or its number.", 2),
        ("--seed=x", "expected a whole number, found 'x'.", "", 2),
        ("--set maxTrialCount=two", "maxTrialCount: expected a whole number, found 'two'.", "", 1),
        (
            f"--set {PARAMETER}.doubleValueSpec.maxValue=one",
            "maxValue: expected a number, found 'one'.",
            "",
            1,
        ),
        ("--set studySpec.algorithm=RANDOM", "found 'RANDOM'.", "Did you mean RANDOM_SEARCH?", 1),
        (f"--set {MACHINE}.acceleratorCount=one", f"acceleratorCount: {WHOLE}", "", 1),
        (
            f"--set {MACHINE}.acceleratorCout=1",
            "acceleratorCout: MachineSpec has no field 'acceleratorCout'.",
            "Did you mean acceleratorCount?",
            1,
        ),
    ],
)
def test_a_flag_of_a_tuning_job(
    blames: Blames, tmp_path: Path, flag: str, words: str, hint: str, code: int
) -> None:
    (tmp_path / "hp.yaml").write_text(TUNING)
    place = flag.partition("=")[0]
    blames(*TUNE, *flag.split(" "), place=place, words=words, hint=hint, code=code)


@pytest.mark.parametrize(
    ("flag", "place", "words"),
    [
        (
            f"--set={MACHINE}.machineType=g2-standard-4",
            "hp.yaml:18",
            f"{MACHINE}.acceleratorType: g2-standard-4 does not take NVIDIA_TESLA_T4.",
        ),
        (f"--set={MACHINE}.acceleratorCount=3", "", NOT_TAKEN),
        ("--max-trial-count=-2", "", "--max-trial-count: expected 1 or more, found -2."),
        (f"--set={PARAMETER}.doubleValueSpec.minValue=9", "", "minValue 9.0 is above maxValue 1.0."),
    ],
)
def test_flags_over_the_file_of_a_tuning_job(
    blames: Blames, tmp_path: Path, flag: str, place: str, words: str
) -> None:
    (tmp_path / "hp.yaml").write_text(TUNING)
    told = blames(*TUNE, flag, place=place, words=words)
    assert ("hp.yaml" in told) == bool(place)


def test_the_table_below_the_file_of_a_tuning_job(blames: Blames, vtrain: Any, tmp_path: Path) -> None:
    table = '[tool.vtrain.job]\nscript = "t.py"\n'
    (tmp_path / "t.py").touch()
    (tmp_path / "hp.yaml").write_text(STUDY)
    wrong = ("pyproject.toml", f"{table}LINE\n", "LINE", "replica-count = 0")
    blames(*TUNE, wrong=wrong, words="replica-count of [tool.vtrain.job]: expected a whole number >= 1.")
    (tmp_path / "pyproject.toml").write_text(table)
    wrong = ("hp.yaml", STUDY, "maxValue: 1", "maxValue: one")
    blames(*TUNE, wrong=wrong, words="maxValue: expected a number, found 'one'.")
    wrong = ("hp.yaml", STUDY, "doubleValueSpec:\n      minValue: 0", "doubleValueSpec:\n      minValue: 9")
    blames(*TUNE, wrong=wrong, words="minValue 9.0 is above maxValue 1.0.")
    (tmp_path / "hp.yaml").write_text(TUNING.replace("maxTrialCount: 2", "maxTrialCount: -2"))
    assert vtrain(*TUNE, "--dry-run", "--max-trial-count=2").code == 0


# training pipelines

PIPELINE = f"""\
labels: {{team: red}}
inputDataConfig:
  fractionSplit:
    trainingFraction: 0.8
  datasetId: data.csv
modelToUpload:
  displayName: m
  containerSpec:
    imageUri: x
    ports: [{{containerPort: 8080}}]
trainingTaskInputs:
{POOL}"""
TUNING_PIPELINE = f"trainingTaskDefinition: {TUNING_TASK}\ntrainingTaskInputs:\n" + "".join(
    f"  {line}\n" for line in f"{STUDY}trialJobSpec:\n{POOL}".splitlines()
)
TASK = f"{STUDY}trialJobSpec:\n{POOL}"
PIPE = ("training-pipelines", "create", "--backend=process", "--display-name=a", "--config=p.yaml")
PIPELINES = [
    (PIPELINE, "acceleratorCount: 1", "acceleratorCount: one", f"{MACHINE}.acceleratorCount: {WHOLE}"),
    (PIPELINE, "acceleratorCount: 1", "acceleratorCout: 1", f"trainingTaskInputs.{UNKNOWN}", "Did you mean "),
    (PIPELINE, "acceleratorCount: 1", "acceleratorCount: 3", NOT_TAKEN),
    (PIPELINE, "replicaCount: 1", "replicaCount: -1", "[0].replicaCount: expected 1 or more, found -1."),
    (
        PIPELINE,
        "trainingFraction: 0.8",
        "trainingFraction: most",
        "inputDataConfig.fractionSplit.trainingFraction: expected a number, found 'most'.",
    ),
    (
        PIPELINE,
        "trainingFraction: 0.8",
        "trainingFractio: 0.8",
        "trainingFractio: FractionSplit has no field 'trainingFractio'.",
        "Did you mean trainingFraction?",
    ),
    (
        PIPELINE,
        "ports: [{containerPort: 8080}]",
        "ports: [{containerPort: http}]",
        "modelToUpload.containerSpec.ports[0].containerPort: expected a whole number, found 'http'.",
    ),
    (
        PIPELINE,
        "modelToUpload:",
        "modelToUploa:",
        "modelToUploa: TrainingPipeline has no field 'modelToUploa'.",
        "Did you mean modelToUpload?",
    ),
    (
        PIPELINE,
        "trainingTaskInputs:",
        "trainingTaskInput:",
        "trainingTaskInput: TrainingPipeline has no field 'trainingTaskInput'.",
        "Did you mean trainingTaskInputs?",
    ),
    (
        PIPELINE,
        f"trainingTaskInputs:\n{POOL}",
        "trainingTaskInputs: [1]\n",
        "trainingTaskInputs: the file does not say what the task runs.",
    ),
    (
        PIPELINE,
        "containerSpec:\n    imageUri: x",
        "containerSpec:",
        "modelToUpload.containerSpec.imageUri: a model needs the image that serves it.",
        "Give --serving-container-image-uri=IMAGE.",
    ),
    (PIPELINE, "labels: {team: red}", "labels: {A: b}", f"labels: {LABEL[0]}", LABEL[1]),
    (
        TUNING_PIPELINE,
        f"trainingTaskDefinition: {TUNING_TASK}",
        "trainingTaskDefinition: gs://x",
        "trainingTaskDefinition: 'gs://x' is no task with your own code.",
        "Write gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml.",
    ),
    (TUNING_PIPELINE, "acceleratorCount: 1", "acceleratorCount: one", f"acceleratorCount: {WHOLE}"),
    (TUNING_PIPELINE, "acceleratorCount: 1", "acceleratorCout: 1", UNKNOWN),
    (TUNING_PIPELINE, "acceleratorCount: 1", "acceleratorCount: 3", NOT_TAKEN),
    (
        TUNING_PIPELINE,
        "maxTrialCount: 2",
        "maxTrialCount: -2",
        "maxTrialCount: expected 1 or more, found -2.",
    ),
    (
        TUNING_PIPELINE,
        "doubleValueSpec:\n        minValue: 0",
        "doubleValueSpec:\n        minValue: 10",
        f"{PARAMETER}.doubleValueSpec: minValue 10.0 is above maxValue 1.0.",
    ),
    (TASK, "acceleratorCount: 1", "acceleratorCount: 3", NOT_TAKEN),
    (TASK, "maxTrialCount: 2", "maxTrialCount: two", "maxTrialCount: expected a whole number, found 'two'."),
    (POOL, "acceleratorCount: 1", "acceleratorCount: 3", NOT_TAKEN),
]


@pytest.mark.parametrize("fault", PIPELINES, ids=[row[2] for row in PIPELINES])
def test_a_line_of_a_pipeline(blames: Blames, tmp_path: Path, fault: tuple[str, ...]) -> None:
    text, old, new, words, *hint = fault
    (tmp_path / "data.csv").write_text("a\n1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    blames(*PIPE, wrong=("p.yaml", text, old, new), words=words, hint="".join(hint))


@pytest.mark.parametrize(
    ("flag", "words", "hint", "code"),
    [
        ("--training-fraction-split=2", "expected a number from 0 to 1, found '2'.", "", 2),
        (
            "--dataset=none.csv",
            "none.csv that ends in .jsonl, .csv, .tfrecord, .tfrecords.",
            "Give ",
            1,
        ),
        ("--labels=A=b", *LABEL, 2),
        ("--model-labels=A=b", *LABEL, 2),
        ("--model-id=A", "'A' is not the id of a model.", "Up to 63 of ", 1),
        ("--serving-container-ports=http", "expected a whole number, found 'http'.", "", 2),
        ("--serving-container-environment-variables=A", "expected KEY=VALUE, found 'A'.", "A value ", 2),
        (f"--set {MACHINE}.acceleratorCount=one", f"acceleratorCount: {WHOLE}", "", 1),
        (
            "--set modelToUpload.displayName=x",
            "modelToUpload: CustomJobSpec has no field 'modelToUpload'.",
            "",
            1,
        ),
    ],
)
def test_a_flag_of_a_pipeline(
    blames: Blames, tmp_path: Path, flag: str, words: str, hint: str, code: int
) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "data.csv").write_text("a\n1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    place = flag.partition("=")[0]
    blames(*PIPE, *flag.split(" "), place=place, words=words, hint=hint, code=code)
