"""A wrong value of a job in a file is blamed on its line: in `[tool.vtrain.job]`, or in `--config`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from lib.tables import rows

Blames = Callable[..., str]
CREATE = ("custom-jobs", "create", "--backend=process")
NAMED = (*CREATE, "--display-name=a")

# [tool.vtrain.job]

TABLE = '[project]\nname = "digits"\n\n[tool.vtrain.job]\nscript = "t.py"\n'
KEYS = rows(
    r"""
    machine-type = 4 | expected text, found a whole number. | Write machine-type = "VALUE".
    env = "x" | expected a table, found text. | Write env = { NAME = "VALUE" }.
    accelerator-count = -1 | expected a whole number >= 0.
    replica-count = 1001 | expected a whole number <= 1000.
    accelerator-type = "NVIDIA_TESLA_T5" | 'NVIDIA_TESLA_T5' is not known. | Did you mean NVIDIA_TESLA_T4?
    accelerator-count = 1 | it needs accelerator-type beside it.
    labels = { A = "b" } | A=b is not a label. | Keys begin with a letter; both hold at most 63
    env = { "A B" = "x" } | 'A B' is not the name of a variable.
    service-account = "x" | 'x' is not an account. | Give its e-mail or its number.
    region = "nowhere" | 'nowhere' is not a region that offers training.
    name = "$LONG" | at most 128 characters, found 129.
    path = "none" | none does not exist.
    config = "none.yaml" | none.yaml does not exist.
    """,
    3,
    LONG="x" * 129,
)


@pytest.mark.parametrize(("line", "words", "hint"), KEYS, ids=[row[0][:40] for row in KEYS])
def test_a_key_of_the_table(blames: Blames, tmp_path: Path, line: str, words: str, hint: str) -> None:
    """What is wrong with one value alone is in tests/test_pyproject.py."""
    (tmp_path / "t.py").touch()
    key = line.partition(" ")[0]
    wrong = ("pyproject.toml", f"{TABLE}LINE\n", "LINE", line)
    blames(*CREATE, wrong=wrong, words=f"{key} of [tool.vtrain.job]: {words}", hint=hint)


def test_an_unknown_key_of_the_table_that_a_flag_has(blames: Blames) -> None:
    wrong = ("pyproject.toml", f"{TABLE}LINE\n", "LINE", 'display-name = "x"')
    blames(*CREATE, wrong=wrong, words="[tool.vtrain.job] has no key 'display-name'.", hint="Write name.")


# --config

JOB = """\
displayName: a
labels: {team: red}
jobSpec:
  workerPoolSpecs:
  - replicaCount: 1
    machineSpec: {machineType: n1-standard-4}
    pythonPackageSpec: {pythonModule: m, packageUris: ["file:///a.tar.gz"]}
  - replicaCount: 2
    machineSpec:
      machineType: n1-standard-4
      acceleratorType: NVIDIA_TESLA_T4
      acceleratorCount: 1
    diskSpec:
      bootDiskType: pd-ssd
      bootDiskSizeGb: 100
    pythonPackageSpec:
      pythonModule: m
      packageUris: ["file:///a.tar.gz"]
      env: [{name: LEVEL, value: debug}]
  scheduling:
    strategy: SPOT
    restartJobOnWorkerRestart: true
    timeout: 3600s
"""
MACHINE = """\
machineSpec:
      machineType: n1-standard-4
      acceleratorType: NVIDIA_TESLA_T4
      acceleratorCount: 1
"""
FIELDS = rows(
    r"""
    acceleratorCount: 1 | acceleratorCount: one | $M.acceleratorCount: expected a whole number, found 'one'.
    acceleratorCount: 1 | acceleratorCount: 3 | $M.acceleratorCount: n1-standard-4 does not take 3 $T4. |
        n1-standard-4 takes 1, 2 or 4 $T4.
    $WHOLE | machineSpec: [1]\n | $M: expected a mapping of MachineSpec fields, found a list.
    packageUris: ["file:///a.tar.gz"] | packageUris: {a: b} |
        $2.pythonPackageSpec.packageUris[0]: expected a string, found a mapping. | Write it in quotes.
    labels: {team: red} | labels: {team: 1} | labels.team: expected a string, found 1. | Write it in quotes.
    acceleratorCount: 1 | acceleratorCout: 1 |
        $M.acceleratorCout: MachineSpec has no field 'acceleratorCout'. | Did you mean acceleratorCount?
    displayName: a | displayNam: a | displayNam: CustomJob has no field 'displayNam'. |
        Did you mean displayName?
    displayName: a | displayName: a\ndisplay_name: a | displayName: it is given twice, also in snake_case. |
        Remove one of them.
    labels: {team: red} | network: x | network: belongs under jobSpec. | Write jobSpec: above it
    replicaCount: 2 | replicaCount: -2 | $2.replicaCount: expected 1 or more, found -2.
    replicaCount: 2 | replicaCount: $MANY | $2.replicaCount: expected a whole number of 64 bits, found $MANY.
    $T4 | nvidia-tesla-t4 | $M.acceleratorType: $CAPITALS 'nvidia-tesla-t4'.
    bootDiskType: pd-ssd | bootDiskType: pd-sd | $2.diskSpec.bootDiskType: there is no pd-sd. |
        Types are pd-ssd, pd-standard, hyperdisk-balanced.
    bootDiskSizeGb: 100 | bootDiskSizeGb: 10 | $2.diskSpec.bootDiskSizeGb: expected 100 to 64000, found 10.
    timeout: 3600s | timeout: 1h |
        scheduling.timeout: expected a duration in seconds such as "3600s", found '1h'.
    labels: {team: red} | labels: {A: b} | labels: A=b is not a label. |
        Keys begin with a letter; both hold at most 63
    env: [{name: LEVEL | env: [{name: 1LEVEL |
        $2.pythonPackageSpec.env[0].name: '1LEVEL' is not the name of a variable.
    acceleratorType: $T4 | acceleratorType: NVIDIA_L4 |
        $M.acceleratorType: n1-standard-4 does not take NVIDIA_L4. |
        n1-standard-4 takes 1, 2 or 4 NVIDIA_TESLA_P4;
    $WHOLE | $WITHOUT_COUNT | $M: acceleratorType and acceleratorCount go together; one of them is missing.
    pythonPackageSpec:\n      pythonModule: m | pythonPackageSpec: |
        $2.pythonPackageSpec.pythonModule: is required. | Name the module to run, such as trainer.task.
    replicaCount: 1 | replicaCount: 2 |
        workerPoolSpecs[0].replicaCount: beside other pools the first has 1 replica, found 2. |
        The first pool is the primary replica alone;
    """,
    4,
    WHOLE=MACHINE,
    WITHOUT_COUNT=MACHINE.replace("acceleratorCount: 1", ""),
    MANY=str(2**63),
    CAPITALS="expected a name in capitals, such as NVIDIA_TESLA_T4 or SPOT, found",
    M="workerPoolSpecs[1].machineSpec",
    T4="NVIDIA_TESLA_T4",
    **{"2": "workerPoolSpecs[1]"},
)


@pytest.mark.parametrize(("old", "new", "words", "hint"), FIELDS, ids=[row[1][:40] for row in FIELDS])
def test_a_line_of_the_file(blames: Blames, old: str, new: str, words: str, hint: str) -> None:
    blames(*CREATE, "--config=job.yaml", wrong=("job.yaml", JOB, old, new), words=words, hint=hint)


@pytest.mark.parametrize(("old", "new", "words", "hint"), FIELDS[:2])
def test_a_line_of_a_file_with_the_spec_alone(
    blames: Blames, old: str, new: str, words: str, hint: str
) -> None:
    spec = textwrap.dedent(JOB.partition("jobSpec:\n")[2])
    blames(*NAMED, "--config=spec.yaml", wrong=("spec.yaml", spec, old, new), words=words, hint=hint)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: [\n", "job.yaml:2", "not a YAML document: did not find expected node content."),
        ("a: 1\na: 2\n", "job.yaml:2", "not a YAML document: the key 'a' stands here twice."),
        ('{"jobSpec":\n{"a" 1}}', "job.yaml:2", "not a YAML document: did not find expected ',' or '}'."),
        ("- a\n", "job.yaml", "expected the fields of a CustomJobSpec, found ['a']."),
        ("", "job.yaml", "expected the fields of a CustomJobSpec, found nothing."),
    ],
)
def test_a_damaged_file(blames: Blames, tmp_path: Path, text: str, place: str, words: str) -> None:
    (tmp_path / "job.yaml").write_text(text)
    blames(*CREATE, "--config=job.yaml", place=place, words=words)


def test_a_line_of_json(blames: Blames, tmp_path: Path) -> None:
    machine = {"machineType": "n1-standard-4", "acceleratorCount": "one"}
    spec = {"workerPoolSpecs": [{"replicaCount": 1, "machineSpec": machine}]}
    (tmp_path / "job.json").write_text(json.dumps(spec, indent=1))
    words = "workerPoolSpecs[0].machineSpec.acceleratorCount: expected a whole number, found 'one'."
    blames(*NAMED, "--config=job.json", place="job.json:7", words=words)


def test_a_file_that_is_not_there(blames: Blames) -> None:
    words = "cannot read none.yaml: No such file or directory."
    blames(*CREATE, "--config=none.yaml", place="--config", words=words)


def test_a_pool_of_a_file_for_a_service(blames: Blames) -> None:
    argv = ("custom-jobs", "create", "--backend=vertex", "--project=demo-1", "--region=us-central1")
    words = "workerPoolSpecs[1]: runs an image or a Python package, exactly one of them."
    old, new = "replicaCount: 2", "containerSpec: {imageUri: x}"
    text = JOB.replace("pythonModule: m", "pythonModule: m, executorImageUri: x", 1)
    blames(*argv, "--dry-run", "--config=job.yaml", wrong=("job.yaml", text, old, new), words=words)
