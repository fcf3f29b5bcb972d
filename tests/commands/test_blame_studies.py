"""A wrong value of a tuning job or a pipeline is blamed on the line of a file, or the flag, that gave it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lib.tables import rows

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
STUDIES = rows(
    r"""
    acceleratorCount: 1 | acceleratorCout: 1 | $UNKNOWN | Did you mean acceleratorCount?
    acceleratorCount: 1 | acceleratorCount: 3 | $NOT_TAKEN | n1-standard-4 takes 1, 2 or 4
    $T4 | NVIDIA_TESLA_T5 | $MACHINE.acceleratorType: the API has no 'NVIDIA_TESLA_T5'. | Did you mean $T4?
    strategy: SPOT | strategy: SPOTT | strategy: the API has no 'SPOTT'. | Did you mean SPOT?
    maxValue: 1 | maxValue: one | $PARAMETER.doubleValueSpec.maxValue: expected a number, found 'one'.
    $DOUBLE 0 | $DOUBLE 10 | $PARAMETER.doubleValueSpec: minValue 10.0 is above maxValue 1.0.
    goal: MAXIMIZE | goal: maximize |
        goal: expected one of GOAL_TYPE_UNSPECIFIED, MAXIMIZE, MINIMIZE, found 'maximize'. |
        Did you mean MAXIMIZE?
    maxTrialCount: 2 | maxTrialCount: -2 | maxTrialCount: expected 1 or more, found -2.
    labels: {team: red} | labels: {A: b} | labels: $LABEL
    trialJobSpec: | jobSpec: | jobSpec: the job of each trial is called trialJobSpec. | Rename
    maxTrialCount: 2 | network: x | network: belongs under trialJobSpec. |
        Write trialJobSpec: above it, and indent what belongs to it: network.
    """,
    4,
    UNKNOWN=UNKNOWN,
    NOT_TAKEN=NOT_TAKEN,
    MACHINE=MACHINE,
    PARAMETER=PARAMETER,
    DOUBLE="doubleValueSpec:\n      minValue:",
    LABEL=" | ".join(LABEL),
    T4="NVIDIA_TESLA_T4",
)


@pytest.mark.parametrize(("old", "new", "words", "hint"), STUDIES, ids=[row[1] for row in STUDIES])
def test_a_line_of_a_tuning_job(blames: Blames, old: str, new: str, words: str, hint: str) -> None:
    blames(*TUNE, wrong=("hp.yaml", TUNING, old, new), words=words, hint=hint)


TUNING_FLAGS = rows(
    """
    2 | --max-trial-count=two | expected a whole number, found 'two'.
    2 | --parallel-trial-count=two | expected a whole number, found 'two'.
    1 | --max-trial-count=1000000000000 | expected a whole number of 32 bits, found 1000000000000.
    2 | --algorithm=grid | there is no 'grid'. | Take algorithm-unspecified, grid-search,
    2 | --labels=A=b | $LABEL
    2 | --service-account=x | 'x' is not an account. | Give its e-mail or its number.
    2 | --seed=x | expected a whole number, found 'x'.
    1 | --set maxTrialCount=two | maxTrialCount: expected a whole number, found 'two'.
    1 | --set $PARAMETER.doubleValueSpec.maxValue=one | maxValue: expected a number, found 'one'.
    1 | --set studySpec.algorithm=RANDOM | found 'RANDOM'. | Did you mean RANDOM_SEARCH?
    1 | --set $MACHINE.acceleratorCount=one | acceleratorCount: expected a whole number, found 'one'.
    """,
    4,
    PARAMETER=PARAMETER,
    MACHINE=MACHINE,
    LABEL=" | ".join(LABEL),
)


@pytest.mark.parametrize(("code", "flag", "words", "hint"), TUNING_FLAGS)
def test_a_flag_of_a_tuning_job(
    blames: Blames, tmp_path: Path, code: str, flag: str, words: str, hint: str
) -> None:
    (tmp_path / "hp.yaml").write_text(TUNING)
    place = flag.partition("=")[0]
    blames(*TUNE, *flag.split(" "), place=place, words=words, hint=hint, code=int(code))


OVER_THE_FILE = rows(
    """
    --set=$MACHINE.machineType=g2-standard-4 | hp.yaml:18 |
        $MACHINE.acceleratorType: g2-standard-4 does not take NVIDIA_TESLA_T4.
    --set=$MACHINE.acceleratorCount=3 || $NOT_TAKEN
    --max-trial-count=-2 || --max-trial-count: expected 1 or more, found -2.
    --set=$PARAMETER.doubleValueSpec.minValue=9 || minValue 9.0 is above maxValue 1.0.
    """.replace("||", "|  |"),
    3,
    MACHINE=MACHINE,
    PARAMETER=PARAMETER,
    NOT_TAKEN=NOT_TAKEN,
)


@pytest.mark.parametrize(("flag", "place", "words"), OVER_THE_FILE)
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
DATA = "a\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"
PIPE = ("training-pipelines", "create", "--backend=process", "--display-name=a", "--config=p.yaml")
PIPELINES = rows(
    r"""
    $PIPELINE | acceleratorCount: 1 | acceleratorCount: one | $MACHINE.acceleratorCount: $WHOLE
    $PIPELINE | acceleratorCount: 1 | acceleratorCout: 1 | trainingTaskInputs.$UNKNOWN |
        Did you mean acceleratorCount?
    $PIPELINE | acceleratorCount: 1 | acceleratorCount: 3 | $NOT_TAKEN
    $PIPELINE | trainingFraction: 0.8 | trainingFraction: most |
        inputDataConfig.fractionSplit.trainingFraction: expected a number, found 'most'.
    $PIPELINE | modelToUpload: | modelToUploa: |
        modelToUploa: TrainingPipeline has no field 'modelToUploa'. | Did you mean modelToUpload?
    $PIPELINE | trainingTaskInputs:\n$POOL | trainingTaskInputs: [1]\n |
        trainingTaskInputs: the file does not say what the task runs.
    $PIPELINE | containerSpec:\n    imageUri: x | containerSpec: |
        modelToUpload.containerSpec.imageUri: a model needs the image that serves it. |
        Give --serving-container-image-uri=IMAGE.
    $PIPELINE | labels: {team: red} | labels: {A: b} | labels: $LABEL
    $TUNING | trainingTaskDefinition: $TASK | trainingTaskDefinition: gs://x |
        trainingTaskDefinition: 'gs://x' is no task with your own code. |
        Write gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml.
    $TUNING | acceleratorCount: 1 | acceleratorCout: 1 | $UNKNOWN
    $TUNING | acceleratorCount: 1 | acceleratorCount: 3 | $NOT_TAKEN
    $TUNING | maxTrialCount: 2 | maxTrialCount: -2 | maxTrialCount: expected 1 or more, found -2.
    $STUDY | acceleratorCount: 1 | acceleratorCount: 3 | $NOT_TAKEN
    $STUDY | maxTrialCount: 2 | maxTrialCount: two | maxTrialCount: expected a whole number, found 'two'.
    $POOL | acceleratorCount: 1 | acceleratorCount: 3 | $NOT_TAKEN
    """,
    5,
    PIPELINE=PIPELINE,
    TUNING=TUNING_PIPELINE,
    STUDY=f"{STUDY}trialJobSpec:\n{POOL}",
    POOL=POOL,
    TASK=TUNING_TASK,
    MACHINE=MACHINE,
    WHOLE=WHOLE,
    UNKNOWN=UNKNOWN,
    NOT_TAKEN=NOT_TAKEN,
    LABEL=" | ".join(LABEL),
)


@pytest.mark.parametrize(
    ("text", "old", "new", "words", "hint"), PIPELINES, ids=[row[2] for row in PIPELINES]
)
def test_a_line_of_a_pipeline(
    blames: Blames, tmp_path: Path, text: str, old: str, new: str, words: str, hint: str
) -> None:
    (tmp_path / "data.csv").write_text(DATA)
    blames(*PIPE, wrong=("p.yaml", text, old, new), words=words, hint=hint)


PIPELINE_FLAGS = rows(
    """
    2 | --training-fraction-split=2 | expected a number from 0 to 1, found '2'.
    1 | --dataset=none.csv | none.csv that ends in .jsonl, .csv, .tfrecord, .tfrecords. | Give
    2 | --labels=A=b | $LABEL
    2 | --model-labels=A=b | $LABEL
    1 | --model-id=A | 'A' is not the id of a model. | Up to 63 of
    2 | --serving-container-ports=http | expected a whole number, found 'http'.
    2 | --serving-container-environment-variables=A | expected KEY=VALUE, found 'A'. | A value
    1 | --set $MACHINE.acceleratorCount=one | acceleratorCount: expected a whole number, found 'one'.
    1 | --set modelToUpload.displayName=x | modelToUpload: CustomJobSpec has no field 'modelToUpload'.
    """,
    4,
    MACHINE=MACHINE,
    LABEL=" | ".join(LABEL),
)


@pytest.mark.parametrize(("code", "flag", "words", "hint"), PIPELINE_FLAGS)
def test_a_flag_of_a_pipeline(
    blames: Blames, tmp_path: Path, code: str, flag: str, words: str, hint: str
) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "data.csv").write_text(DATA)
    place = flag.partition("=")[0]
    blames(*PIPE, *flag.split(" "), place=place, words=words, hint=hint, code=int(code))
