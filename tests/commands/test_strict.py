"""What a backend does not reproduce is told in one line; with `--strict` it is refused, nothing changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lib.vertex_service import VertexService

CONFIG = """
workerPoolSpecs:
- machineSpec: {machineType: n1-standard-4}
  replicaCount: 1
  nfsMounts: [{server: 10.0.0.1, path: /data, mountPoint: data}]
  diskSpec: {bootDiskType: pd-ssd, bootDiskSizeGb: 300}
  pythonPackageSpec: {pythonModule: trainer.task, executorImageUri: example.com/i, packageUris: ["gs://packages/t.tar.gz"]}
network: projects/1/global/networks/n
scheduling: {strategy: SPOT, restartJobOnWorkerRestart: true, timeout: 60s}
"""
DECLARED = "nfsMounts of workerPoolSpecs[0], bootDiskSizeGb of workerPoolSpecs[0], network."


@pytest.fixture
def flags(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "job.yaml").write_text(CONFIG)
    return (f"--config={tmp_path / 'job.yaml'}", "--display-name=demo")


def test_one_line_says_all(vtrain: Any, flags: tuple[str, ...]) -> None:
    ended = vtrain("custom-jobs", "create", *flags, "--backend=process", "--dry-run")
    assert ended.code == 0, ended.err
    lines = [line for line in ended.err.splitlines() if "reproduced" in line or "Note" in line]
    assert lines == [
        "WARNING: Not reproduced here: nfsMounts of workerPoolSpecs[0], network.",
        "Note: machineType of workerPoolSpecs[0]: only its memory counts here, for the queue.",
        "Note: bootDiskSizeGb of workerPoolSpecs[0] has no effect on the backend process.",
    ]


def test_strict_refuses(vtrain: Any, flags: tuple[str, ...], vtrain_home: Path) -> None:
    said = f"ERROR: The backend process does not reproduce machineType of workerPoolSpecs[0], {DECLARED}"
    for command in ("create", "local-run"):
        for dry_run in ((), ("--dry-run",)):
            ended = vtrain("custom-jobs", command, *flags, "--backend=process", "--strict", *dry_run)
            assert (ended.code, ended.out) == (1, "")
            assert said in ended.err
    assert not vtrain_home.exists()
    given = vtrain("custom-jobs", "create", *flags, "--backend=process", "--dry-run", "--memory=1g")
    assert "only its memory counts" not in given.err, "a note is true of what the queue counts"


@pytest.mark.docker
def test_containers_have_machine_types(
    vtrain: Any, flags: tuple[str, ...], base_image: str, vtrain_home: Path
) -> None:
    words = ("custom-jobs", "create", *flags, "--backend=docker", "--dry-run")
    ended = vtrain(*words)
    assert ended.code == 0, ended.err
    assert "WARNING: Not reproduced here: nfsMounts of workerPoolSpecs[0], network.\n" in ended.err
    assert "Note: bootDiskSizeGb of workerPoolSpecs[0] has no effect on the backend docker.\n" in ended.err
    refused = vtrain(*words, "--strict")
    assert (refused.code, refused.out) == (1, "")
    assert f"ERROR: The backend docker does not reproduce {DECLARED}" in refused.err
    assert not vtrain_home.exists()


def test_strict_lets_pass_what_is_reproduced(vtrain: Any, tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("print('ran')\n")
    flags = ("--backend=process", f"--local-package-path={tmp_path / 't.py'}", "--strict", "--dry-run")
    ended = vtrain("custom-jobs", "local-run", *flags)
    assert ended.code == 0, ended.err
    assert "reproduced" not in ended.err


def test_the_service_reproduces_everything(
    vtrain: Any, flags: tuple[str, ...], vertex: VertexService
) -> None:
    ended = vtrain("custom-jobs", "create", *flags, "--strict")
    assert ended.code == 0, ended.err
    assert "reproduced" not in ended.err


def test_what_the_service_may_refuse(vtrain: Any, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(CONFIG.replace("replicaCount: 1", "replicaCount: 2"))
    line = ("custom-jobs", "create", f"--config={tmp_path / 'job.yaml'}", "--display-name=demo", "--dry-run")
    place = ("--backend=vertex", "--project=p-1", "--region=us-central1")
    doubt = "The service may refuse this job. workerPoolSpecs[0].replicaCount: the first pool is the primary"
    assert f"WARNING: {doubt}" in vtrain(*line, *place).err
    refused = vtrain(*line, *place, "--strict")
    assert (refused.code, refused.out) == (1, "")
    assert f"ERROR: {doubt}" in refused.err


@pytest.mark.parametrize("backend", [("process",), ("vertex", "--project=p-1", "--region=us-central1")])
@pytest.mark.parametrize(
    "machine",
    ["machineType: z9-new-4", "machineType: n1-standard-4, acceleratorType: NVIDIA_Z9, acceleratorCount: 1"],
)
def test_names_that_may_be_newer_are_warned_of_once(
    vtrain: Any, tmp_path: Path, backend: tuple[str, ...], machine: str
) -> None:
    packages = '["gs://packages/t.tar.gz"]'
    task = f"pythonPackageSpec: {{pythonModule: a, executorImageUri: i, packageUris: {packages}}}"
    pool = f"{{machineSpec: {{{machine}}}, replicaCount: 1, {task}}}"
    (tmp_path / "job.yaml").write_text(f"workerPoolSpecs: [{pool}]\n")
    name, *flags = backend
    line = ("custom-jobs", "create", f"--config={tmp_path / 'job.yaml'}", "--display-name=demo", "--dry-run")
    strict = ["--strict"] if name == "vertex" else []  # processes reproduce no machine
    ended = vtrain(*line, f"--backend={name}", *flags, *strict)
    assert ended.code == 0, ended.err
    warnings = [
        each for each in ended.err.splitlines() if each.startswith("WARNING") and "z9" in each.lower()
    ]
    (told,) = [each for each in warnings if "NO ACCELERATOR" not in each]  # which this machine lacks
    assert "vtrain does not know" in told


def test_a_board_without_an_account_is_refused(vtrain: Any, tmp_path: Path) -> None:
    board = "tensorboard: projects/1/locations/us-central1/tensorboards/1\n"
    pool = "workerPoolSpecs: [{replicaCount: 1, pythonPackageSpec: {pythonModule: a, executorImageUri: i}}]\n"
    (tmp_path / "job.yaml").write_text(board + pool)
    line = ("custom-jobs", "create", "--display-name=d", f"--config={tmp_path / 'job.yaml'}")
    for place in (["--backend=process"], ["--backend=vertex", "--project=p-1", "--region=us-central1"]):
        for dry_run in ([], ["--dry-run"]):
            ended = vtrain(*line, *place, *dry_run)
            assert (ended.code, ended.out) == (1, "")
            assert "ERROR: serviceAccount: must be specified when uploading to TensorBoard.\n" in ended.err
