"""A wrong value of a job in a file is blamed on its line: in `[tool.vtrain.job]`, or in `--config`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

Blames = Callable[..., str]
CREATE = ("custom-jobs", "create", "--backend=process")
NAMED = (*CREATE, "--display-name=a")

# [tool.vtrain.job]

TABLE = '[project]\nname = "digits"\n\n[tool.vtrain.job]\nscript = "t.py"\n'
KEYS = {
    "a text for a number": ('replica-count = "two"', "replica-count", "expected a whole number, found text."),
    "a number for a text": (
        "machine-type = 4",
        "machine-type",
        "expected text, found a whole number.",
        'Write machine-type = "VALUE".',
    ),
    "a text for a table": (
        'env = "x"',
        "env",
        "expected a table, found text.",
        'Write env = { NAME = "VALUE" }.',
    ),
    "less than none": ("accelerator-count = -1", "accelerator-count", "expected a whole number >= 0."),
    "too many": ("replica-count = 1001", "replica-count", "expected a whole number <= 1000."),
    "an accelerator that there is not": (
        'accelerator-type = "NVIDIA_TESLA_T5"',
        "accelerator-type",
        "'NVIDIA_TESLA_T5' is not known.",
        "Did you mean NVIDIA_TESLA_T4?",
    ),
    "a count of nothing": (
        "accelerator-count = 1",
        "accelerator-count",
        "it needs accelerator-type beside it.",
    ),
    "a label": (
        'labels = { A = "b" }',
        "labels",
        "A=b is not a label.",
        "Keys begin with a letter; both hold at most 63",
    ),
    "a variable": ('env = { "A B" = "x" }', "env", "'A B' is not the name of a variable."),
    "an account": (
        'service-account = "x"',
        "service-account",
        "'x' is not an account.",
        "Give its e-mail or its number.",
    ),
    "a region": ('region = "nowhere"', "region", "'nowhere' is not a region that offers training."),
    "a name that is too long": (f'name = "{"x" * 129}"', "name", "at most 128 characters, found 129."),
    "a folder that is not there": ('path = "none"', "path", "none does not exist."),
    "a file that is not there": ('config = "none.yaml"', "config", "none.yaml does not exist."),
}


@pytest.mark.parametrize("fault", KEYS.values(), ids=list(KEYS))
def test_a_key_of_the_table(blames: Blames, tmp_path: Path, fault: tuple[str, ...]) -> None:
    (tmp_path / "t.py").touch()
    line, key, words, *hint = fault
    wrong = ("pyproject.toml", f"{TABLE}LINE\n", "LINE", line)
    blames(*CREATE, wrong=wrong, words=f"{key} of [tool.vtrain.job]: {words}", hint="".join(hint))


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("machine_type", "Did you mean machine-type?"),
        ("display-name", "Write name."),
        ("flavour", "Its keys are accelerator-count, accelerator-type, args, boot-disk-size, "),
    ],
)
def test_an_unknown_key_of_the_table(blames: Blames, key: str, hint: str) -> None:
    wrong = ("pyproject.toml", f"{TABLE}LINE\n", "LINE", f'{key} = "x"')
    blames(*CREATE, wrong=wrong, words=f"[tool.vtrain.job] has no key {key!r}.", hint=hint)


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ('script = "u.py"', "not TOML: Cannot overwrite a value.", "Fix that line."),
        ("[tool.vtrain.job.env.A]\nb = 1", "env of [tool.vtrain.job]: expected text, found a table.", ""),
    ],
)
def test_a_damaged_table(blames: Blames, text: str, words: str, hint: str) -> None:
    wrong = ("pyproject.toml", f"{TABLE}LINE\n", "LINE", text)
    blames(*CREATE, wrong=wrong, words=words, hint=hint)


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
SECOND = "workerPoolSpecs[1]"
TAKES = "n1-standard-4 takes 1, 2 or 4 NVIDIA_TESLA_P4; "
FIELDS = {
    "a text for a number": (
        "acceleratorCount: 1",
        "acceleratorCount: one",
        f"{SECOND}.machineSpec.acceleratorCount: expected a whole number, found 'one'.",
    ),
    "a list for a message": (
        MACHINE,
        "machineSpec: [1]\n",
        f"{SECOND}.machineSpec: expected a mapping of MachineSpec fields, found a list.",
    ),
    "a mapping in a list": (
        'packageUris: ["file:///a.tar.gz"]',
        "packageUris: {a: b}",
        f"{SECOND}.pythonPackageSpec.packageUris[0]: expected a string, found a mapping.",
        "Write it in quotes.",
    ),
    "a text for true": (
        "restartJobOnWorkerRestart: true",
        "restartJobOnWorkerRestart: maybe",
        "scheduling.restartJobOnWorkerRestart: expected true or false, found 'maybe'.",
    ),
    "a number in a map": (
        "labels: {team: red}",
        "labels: {team: 1}",
        "labels.team: expected a string, found 1.",
        "Write it in quotes.",
    ),
    "an unknown field of a machine": (
        "acceleratorCount: 1",
        "acceleratorCout: 1",
        f"{SECOND}.machineSpec.acceleratorCout: MachineSpec has no field 'acceleratorCout'.",
        "Did you mean acceleratorCount?",
    ),
    "an unknown field of the spec": (
        "scheduling:",
        "schedulin:",
        "schedulin: CustomJobSpec has no field 'schedulin'.",
        "Did you mean scheduling?",
    ),
    "an unknown field of the job": (
        "displayName: a",
        "displayNam: a",
        "displayNam: CustomJob has no field 'displayNam'.",
        "Did you mean displayName?",
    ),
    "a field in two spellings": (
        "displayName: a",
        "displayName: a\ndisplay_name: a",
        "displayName: it is given twice, also in snake_case.",
        "Remove one of them.",
    ),
    "a field beside its message": (
        "labels: {team: red}",
        "network: x",
        "network: belongs under jobSpec.",
        "Write jobSpec: above it",
    ),
    "less than no replica": (
        "replicaCount: 2",
        "replicaCount: -2",
        f"{SECOND}.replicaCount: expected 1 or more, found -2.",
    ),
    "more than 64 bits": (
        "replicaCount: 2",
        f"replicaCount: {2**63}",
        f"{SECOND}.replicaCount: expected a whole number of 64 bits, found {2**63}.",
    ),
    "an accelerator in small letters": (
        "NVIDIA_TESLA_T4",
        "nvidia-tesla-t4",
        f"{SECOND}.machineSpec.acceleratorType: "
        "expected a name in capitals, such as NVIDIA_TESLA_T4 or SPOT, found 'nvidia-tesla-t4'.",
    ),
    "a disk that there is not": (
        "bootDiskType: pd-ssd",
        "bootDiskType: pd-sd",
        f"{SECOND}.diskSpec.bootDiskType: there is no pd-sd.",
        "Types are pd-ssd, pd-standard, hyperdisk-balanced.",
    ),
    "a small disk": (
        "bootDiskSizeGb: 100",
        "bootDiskSizeGb: 10",
        f"{SECOND}.diskSpec.bootDiskSizeGb: expected 100 to 64000, found 10.",
    ),
    "a strategy in small letters": (
        "strategy: SPOT",
        "strategy: spot",
        "scheduling.strategy: expected a name in capitals, such as NVIDIA_TESLA_T4 or SPOT, found 'spot'.",
    ),
    "a duration": (
        "timeout: 3600s",
        "timeout: 1h",
        "scheduling.timeout: expected a duration in seconds such as \"3600s\", found '1h'.",
    ),
    "a label": (
        "labels: {team: red}",
        "labels: {A: b}",
        "labels: A=b is not a label.",
        "Keys begin with a letter; both hold at most 63",
    ),
    "a variable": (
        "env: [{name: LEVEL",
        "env: [{name: 1LEVEL",
        f"{SECOND}.pythonPackageSpec.env[0].name: '1LEVEL' is not the name of a variable.",
    ),
    "a count that the machine does not take": (
        "acceleratorCount: 1",
        "acceleratorCount: 3",
        f"{SECOND}.machineSpec.acceleratorCount: n1-standard-4 does not take 3 NVIDIA_TESLA_T4.",
        "n1-standard-4 takes 1, 2 or 4 NVIDIA_TESLA_T4.",
    ),
    "an accelerator that the machine does not take": (
        "acceleratorType: NVIDIA_TESLA_T4",
        "acceleratorType: NVIDIA_L4",
        f"{SECOND}.machineSpec.acceleratorType: n1-standard-4 does not take NVIDIA_L4.",
        TAKES,
    ),
    "an accelerator without its count": (
        MACHINE,
        MACHINE.replace("acceleratorCount: 1", ""),
        f"{SECOND}.machineSpec: acceleratorType and acceleratorCount go together; one of them is missing.",
    ),
    "a module that is missing": (
        "pythonPackageSpec:\n      pythonModule: m",
        "pythonPackageSpec:",
        f"{SECOND}.pythonPackageSpec.pythonModule: is required.",
        "Name the module to run, such as trainer.task.",
    ),
    "several primaries": (
        "replicaCount: 1",
        "replicaCount: 2",
        "workerPoolSpecs[0].replicaCount: beside other pools the first has 1 replica, found 2.",
        "The first pool is the primary replica alone; ",
    ),
}


@pytest.mark.parametrize("fault", FIELDS.values(), ids=list(FIELDS))
def test_a_line_of_the_file(blames: Blames, fault: tuple[str, ...]) -> None:
    old, new, words, *hint = fault
    blames(*CREATE, "--config=job.yaml", wrong=("job.yaml", JOB, old, new), words=words, hint="".join(hint))


@pytest.mark.parametrize("fault", ["a text for a number", "a count that the machine does not take"])
def test_a_line_of_a_file_with_the_spec_alone(blames: Blames, fault: str) -> None:
    spec = textwrap.dedent(JOB.partition("jobSpec:\n")[2])
    old, new, words, *_ = FIELDS[fault]
    blames(*NAMED, "--config=spec.yaml", wrong=("spec.yaml", spec, old, new), words=words)


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
