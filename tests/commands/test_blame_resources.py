"""A wrong value of a model, a persistent resource or a job of AI Platform is blamed on who gave it: on the
line of a file, on a flag, on a variable.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lib.tables import rows

Blames = Callable[..., str]
LABEL = "A=b is not a label. | Keys begin with a letter; both hold at most 63"
WHOLE = "expected a whole number, found 'one'."

# models

UPLOAD = ("models", "upload", "--backend=process", "--display-name=m", "--container-image-uri=x")


MODEL_FLAGS = rows(
    """
    --container-ports=http | expected a whole number, found 'http'.
    --container-ports=70000 | 70000 is no port. | A port is a number from 1 to 65535.
    --container-env-vars=A | expected KEY=VALUE, found 'A'. | A value that holds ','
    --container-deployment-timeout-seconds=x | expected a whole number, found 'x'.
    --container-health-probe-period-seconds=x | expected a whole number, found 'x'.
    --explanation-method=x | expected one of integrated-gradients, xrai, sampled-shapley, found 'x'.
    --labels=A=b | $LABEL
    """,
    3,
    LABEL=LABEL,
)


@pytest.mark.parametrize(("flag", "words", "hint"), MODEL_FLAGS)
def test_a_flag_of_a_model(blames: Blames, tmp_path: Path, flag: str, words: str, hint: str) -> None:
    (tmp_path / "weights").touch()
    place = flag.partition("=")[0]
    blames(*UPLOAD, "--artifact-uri=.", flag, place=place, words=words, hint=hint, code=2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n"a": [1,\n}', "m.json is no JSON: Expecting value: line 3 column 1 (char 11)."),
        ("[1]", "m.json holds no JSON object."),
    ],
)
def test_a_damaged_file_of_a_model(blames: Blames, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "m.json").write_text(text)
    flags = ("--explanation-method=xrai", "--explanation-metadata-file=m.json", "--artifact-uri=.")
    blames(*UPLOAD, *flags, place="--explanation-metadata-file", words=words)


# persistent resources

RESOURCE = """\
resourcePools:
- machineSpec:
    machineType: n1-standard-4
    acceleratorType: NVIDIA_TESLA_T4
    acceleratorCount: 1
  replicaCount: 2
"""
KEEP = ("persistent-resources", "create", "--backend=process", "--persistent-resource-id=team")

LINES = rows(
    """
    Count: 1 | Count: one | $PLACE.machineSpec.acceleratorCount: $WHOLE
    acceleratorCount: 1 | acceleratorCout: 1 |
        $PLACE.machineSpec.acceleratorCout: MachineSpec has no field 'acceleratorCout'. |
        Did you mean acceleratorCount?
    resourcePools: | resourcePool: | resourcePool: PersistentResource has no field 'resourcePool'. |
        Did you mean resourcePools?
    Count: 2 | Count: -2 | $PLACE.replicaCount: expected a positive number, found -2.
    Count: 2 | Count: 0 | $PLACE.replicaCount: is required. | Or autoscalingSpec with both
    replicaCount: 2 | autoscalingSpec: {minReplicaCount: 3, maxReplicaCount: 2} |
        $PLACE.autoscalingSpec: minReplicaCount (3) must be below maxReplicaCount (2).
    TESLA_T4 | TESLA_T5 |
        $PLACE.machineSpec.acceleratorType: a persistent resource takes no 'NVIDIA_TESLA_T5'. |
        Did you mean NVIDIA_TESLA_T4?
    """,
    4,
    PLACE="resourcePools[0]",
    WHOLE=WHOLE,
)


@pytest.mark.parametrize(("old", "new", "words", "hint"), LINES)
def test_a_line_of_a_resource(blames: Blames, old: str, new: str, words: str, hint: str) -> None:
    blames(*KEEP, "--config=r.yaml", wrong=("r.yaml", RESOURCE, old, new), words=words, hint=hint)


POOLS = rows(
    """
    2 | replica-count=two | replica-count: expected a whole number, found 'two'.
    2 | replica-cout=1 | there is no key 'replica-cout'. | Did you mean replica-count?
    1 | machine-type=a | pool 0 needs replica-count. | Or min-replica-count and
    1 | replica-count=1 | pool 0 needs machine-type. | Add machine-type=n1-standard-4.
    1 | machine-type=a,min-replica-count=3 | pool 0 has min-replica-count without max-replica-count.
    1 | machine-type=a,replica-count=1,accelerator-type=TPU_V3,accelerator-count=8 |
        pool 0: accelerator-type: a persistent resource takes no 'TPU_V3'. | There are NVIDIA_A100_80GB,
    """,
    4,
)


@pytest.mark.parametrize(("code", "pool", "words", "hint"), POOLS)
def test_a_pool_of_a_resource(
    blames: Blames, tmp_path: Path, code: str, pool: str, words: str, hint: str
) -> None:
    (tmp_path / "r.yaml").write_text(RESOURCE)
    flag, argv = "--resource-pool-spec", (*KEEP, "--config=r.yaml")
    told = blames(*argv, f"{flag}={pool}", place=flag, words=words, hint=hint, code=int(code))
    assert "r.yaml" not in told


# AI Platform

LEGACY = """\
labels: {team: red}
trainingInput:
  scaleTier: CUSTOM
  masterType: n1-standard-4
  workerType: n1-standard-4
  workerCount: 2
  workerConfig:
    acceleratorConfig: {type: NVIDIA_TESLA_T4, count: 1}
  hyperparameters:
    goal: MAXIMIZE
    maxTrials: 2
    params:
    - parameterName: rate
      type: DOUBLE
      minValue: 0.5
      maxValue: 1
"""
SUBMIT = ("ai-platform", "jobs", "submit", "training", "job_1", "--backend=process")
PACKAGE = ("--package-path=trainer", "--module-name=trainer.task", "--runtime-version=2.11")
LEGACY_FAULTS = rows(
    r"""
    workerCount: 2 | workerCount: one | $INPUT.workerCount: $WHOLE
    $GPU: {type: NVIDIA_TESLA_T4, count: 1} | $GPU: [1] |
        $INPUT.workerConfig.$GPU: expected a mapping of AcceleratorConfig fields, found a list.
    count: 1 | count: one | $INPUT.workerConfig.$GPU.count: $WHOLE
    scaleTier: CUSTOM | scaleTier: HUGE | $INPUT.scaleTier: there is no tier 'HUGE'. | There are BASIC,
    $INPUT:\n  scaleTier: CUSTOM\n  masterType: n1-standard-4 | $INPUT:\n  scaleTier: CUSTOM |
        $INPUT.masterType: the tier CUSTOM needs it. | Give --master-machine-type=TYPE.
    goal: MAXIMIZE | goal: MINIMISE | $TUNING.goal: there is no goal 'MINIMISE'. | Write MAXIMIZE or MINIMIZE.
    $RATE DOUBLE | $RATE FLOAT | $TUNING.params: 'rate' has the type 'FLOAT'. |
        Write DOUBLE, INTEGER, CATEGORICAL or DISCRETE.
    $RATE DOUBLE | $RATE INTEGER | $TUNING.params: 'rate' is an INTEGER from 0.5 to 1.0. |
        Write whole numbers, or take DOUBLE.
    maxTrials: 2 | resumePreviousJobId: job_0 |
        $TUNING.resumePreviousJobId: Vertex AI does not resume a tuning job. |
        On this machine: vtrain hp-tuning-jobs create --continue-from=JOB.
    labels: {team: red} | labels: {team: 1} | labels.team: expected a string, found 1. | Write it in quotes.
    """,
    4,
    WHOLE=WHOLE,
    INPUT="trainingInput",
    TUNING="trainingInput.hyperparameters",
    GPU="acceleratorConfig",
    RATE="params:\n    - parameterName: rate\n      type:",
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The folder of a package."""
    folder = tmp_path / "trainer"
    folder.mkdir()
    for name in ("__init__.py", "task.py"):
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("old", "new", "words", "hint"), LEGACY_FAULTS, ids=[row[1] for row in LEGACY_FAULTS]
)
@pytest.mark.usefixtures("package")
def test_a_line_of_a_job_of_ai_platform(blames: Blames, old: str, new: str, words: str, hint: str) -> None:
    blames(*SUBMIT, *PACKAGE, "--config=j.yaml", wrong=("j.yaml", LEGACY, old, new), words=words, hint=hint)


def test_a_damaged_file_of_ai_platform(blames: Blames, tmp_path: Path) -> None:
    (tmp_path / "j.yaml").write_text("trainingInput: [\n")
    words = "not a YAML document: did not find expected node content."
    blames(*SUBMIT, *PACKAGE, "--config=j.yaml", place="j.yaml:2", words=words)


LEGACY_FLAGS = rows(
    """
    2 | --scale-tier=huge | there is no 'huge'. | There are basic, basic-gpu,
    2 | --worker-count=two --worker-machine-type=a | expected a whole number, found 'two'.
    2 | --master-accelerator=type=nvidia-tesla-t4,count=two | expected a whole number, found 'two'.
    2 | --master-accelerator=type=nvidia-tesla-t4,count=0 | the count must be greater than 0.
    2 | --master-accelerator=typ=nvidia-tesla-t4,count=1 | there is no key 'typ'. | Did you mean type?
    2 | --master-accelerator=type=nvidia-tesla-t5,count=1 |
        'nvidia-tesla-t5' is not an accelerator of AI Platform.
    2 | --use-chief-in-tf-config=maybe | expected true or false, found 'maybe'.
    2 | --job-dir=x | 'x' is not of the form gs://BUCKET/OBJECT.
    2 | --staging-bucket=x | 'x' is not of the form gs://BUCKET.
    2 | --service-account=x | 'x' is not an account. | Give its e-mail or its number.
    2 | --labels=A=b | $LABEL
    1 | --packages=none.whl | none.whl is not a file.
    1 | --package-path=none | none is not a Python package, as it has no __init__.py. | Name
    """,
    4,
    LABEL=LABEL,
)


@pytest.mark.parametrize(("code", "flags", "words", "hint"), LEGACY_FLAGS)
def test_a_flag_of_ai_platform(
    blames: Blames, package: Path, code: str, flags: str, words: str, hint: str
) -> None:
    (package.parent / "j.yaml").write_text(LEGACY)
    place = flags.partition("=")[0]
    argv = (*SUBMIT, *PACKAGE, "--config=j.yaml", *flags.split())
    told = blames(*argv, place=place, words=words, hint=hint, code=int(code))
    assert "j.yaml" not in told


def test_a_flag_over_the_file_of_ai_platform(blames: Blames, vtrain: Any, package: Path) -> None:
    file = package.parent / "j.yaml"
    file.write_text(LEGACY.replace("count: 1", "count: 3"))
    machine = ("--worker-machine-type=n1-standard-4", "--worker-count=1")
    argv = (*SUBMIT, *PACKAGE, "--config=j.yaml", *machine)
    accelerator = "--worker-accelerator=type=nvidia-tesla-t4,count="
    assert vtrain(*argv, "--dry-run", f"{accelerator}1").code == 0
    file.write_text(LEGACY)
    told = blames(*argv, f"{accelerator}3", words="n1-standard-4 does not take 3 NVIDIA_TESLA_T4.")
    assert "j.yaml" not in told


@pytest.mark.usefixtures("package")
def test_a_variable_of_the_environment(blames: Blames, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ("custom-jobs", "create", "--backend=process", "--display-name=a")
    for variable, words in (("MEMORY", "'x' is not a size."), ("ACCELERATORS", "'x' is not a list of GPUs.")):
        with monkeypatch.context() as patch:
            patch.setenv(f"VTRAIN_{variable}", "x")
            for argv in (
                (*SUBMIT, *PACKAGE, "--region=us-central1"),
                (*own, "--local-package-path=trainer/task.py"),
            ):
                blames(*argv, place=f"VTRAIN_{variable}", words=words)
