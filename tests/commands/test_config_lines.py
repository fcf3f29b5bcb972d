"""A rule that a file of `--config` breaks is told with the line, unless a flag has changed that field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

JOB = """\
displayName: a
jobSpec:
  workerPoolSpecs:
  - replicaCount: 1
    machineSpec:
      machineType: n1-standard-4
      acceleratorType: NVIDIA_TESLA_T4
      acceleratorCount: 3
    pythonPackageSpec:
      pythonModule: trainer.task
      packageUris: ["file:///trainer.tar.gz"]
      env:
      - {name: GOOD, value: a}
      - name: 1BAD
        value: b
"""
SPEC = "".join(line[2:] + "\n" for line in JOB.splitlines()[2:])
CREATE = ("create", "--backend=process", "--display-name=a")
COUNT = "workerPoolSpecs[0].machineSpec.acceleratorCount: "
NAME = "workerPoolSpecs[0].pythonPackageSpec.env[1].name: "


def refusal(vtrain: Any, tmp_path: Path, text: str, *argv: str) -> str:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    ended = vtrain("custom-jobs", *argv, "--dry-run", f"--config={file}")
    assert (ended.code, ended.out) == (1, "")
    return next(line for line in ended.err.splitlines() if line.startswith("ERROR")).replace(f"{file}", "F")


@pytest.mark.parametrize(("text", "count", "name"), [(JOB, 8, 14), (SPEC, 6, 12)], ids=["job", "spec"])
def test_a_rule_is_told_with_its_line(vtrain: Any, tmp_path: Path, text: str, count: int, name: int) -> None:
    for command in (CREATE, ("local-run", "--backend=process")):
        assert refusal(vtrain, tmp_path, text, *command).startswith(f"ERROR: F:{name}: {NAME}")
    good = text.replace("1BAD", "BAD")
    assert refusal(vtrain, tmp_path, good, *CREATE).startswith(f"ERROR: F:{count}: {COUNT}")


def test_a_field_that_is_missing_is_told_with_the_line_above_it(vtrain: Any, tmp_path: Path) -> None:
    text = JOB.replace("      pythonModule: trainer.task\n", "")
    path = "workerPoolSpecs[0].pythonPackageSpec.pythonModule: "
    assert refusal(vtrain, tmp_path, text, *CREATE).startswith(f"ERROR: F:9: {path}")


def test_a_flag_is_not_blamed_on_the_file(vtrain: Any, tmp_path: Path) -> None:
    good = JOB.replace("1BAD", "BAD")
    flag = f"--set={COUNT.removesuffix(': ')}=5"
    assert refusal(vtrain, tmp_path, good, *CREATE, flag).startswith(f"ERROR: {COUNT}")
    pool = "--worker-pool-spec=machine-type=n1-standard-4,python-module=trainer.task,"
    pool += "accelerator-type=NVIDIA_TESLA_T4,accelerator-count=5"
    uris = "--python-package-uris=file:///trainer.tar.gz"
    assert refusal(vtrain, tmp_path, good, *CREATE, pool, uris).startswith(f"ERROR: {COUNT}")


def test_a_field_of_a_pipelines_task_is_told_by_its_path_in_the_file(vtrain: Any, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    pool = "  workerPoolSpecs:\n  - replicaCount: 1\n    machineSpec:\n      machineTyp: n1-standard-4\n"
    file.write_text(f"displayName: line\ntrainingTaskInputs:\n{pool}")
    ended = vtrain("training-pipelines", "create", "--backend=process", f"--config={file}", "--dry-run")
    assert ended.code == 1
    field = "trainingTaskInputs.workerPoolSpecs[0].machineSpec.machineTyp"
    assert f"ERROR: {file}:6: {field}: MachineSpec has no field 'machineTyp'." in ended.err
