"""A misspelled machine type or accelerator is warned of, with the nearest name, and nothing is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CONFIG = """\
workerPoolSpecs:
- machineSpec: {machineType: n1-standrd-4, acceleratorType: NVIDIA_TESLA_T5, acceleratorCount: 1}
  replicaCount: 2
  pythonPackageSpec: {pythonModule: task, packageUris: []}
scheduling: {strategy: FLEX_STRAT}
"""


def test_a_local_job_with_misspelled_hardware_is_planned_with_a_warning(vtrain: Any, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(CONFIG)
    line = ("custom-jobs", "create", "--backend=process", "--display-name=a", "--dry-run")
    ended = vtrain(*line, f"--config={tmp_path / 'job.yaml'}")
    assert ended.code == 0, ended.err
    told = [each for each in ended.err.splitlines() if "does not know" in each]
    assert [each.rpartition(". ")[2] for each in told] == [
        "Did you mean n1-standard-4?",
        "Did you mean NVIDIA_TESLA_T4?",
        "Did you mean FLEX_START?",
    ]
    file, pool = tmp_path / "job.yaml", "workerPoolSpecs[0].machineSpec"
    fields = [f"{file}:2: {pool}.machineType", f"{file}:2: {pool}.acceleratorType"]
    fields += [f"{file}:5: scheduling.strategy"]
    assert [each.removeprefix("WARNING: ").partition(": vtrain")[0] for each in told] == fields
    assert (
        f"WARNING: {file}:3: workerPoolSpecs[0].replicaCount: the first pool is the primary replica, found 2."
        in ended.err
    )
