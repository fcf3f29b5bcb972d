"""Many replicas: a bound on this machine, none of vtrain's on Vertex AI."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vtrain.backends.local_plan import MAX_REPLICAS


def config(folder: Path, *counts: int) -> str:
    pools = [
        {
            "machineSpec": {"machineType": "n1-standard-4"},
            "replicaCount": count,
            "pythonPackageSpec": {
                "pythonModule": "this",
                "executorImageUri": "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest",
                "packageUris": ["gs://bucket/this.tar.gz"],
            },
        }
        for count in counts
    ]
    file = folder / "job.json"
    file.write_text(json.dumps({"workerPoolSpecs": pools}))
    return f"--config={file}"


@pytest.mark.parametrize("verb", ["create", "environment"])
@pytest.mark.parametrize("backend", ["process", "docker"])
@pytest.mark.parametrize("counts", [(1, MAX_REPLICAS), (10**15,)])
def test_a_local_backend_refuses_too_many(
    vtrain, tmp_path: Path, vtrain_home: Path, verb: str, backend: str, counts: tuple[int, ...]
) -> None:
    own = ["--display-name=many", "--dry-run"] if verb == "create" else []
    ended = vtrain("custom-jobs", verb, f"--backend={backend}", config(tmp_path, *counts), *own)
    assert (ended.code, ended.out) == (1, "")
    said = " ".join(ended.err.split())
    assert f"ERROR: The job has {sum(counts)} replicas, and a job on this machine has 1000 at most." in said
    assert not (vtrain_home / "jobs").exists()


def test_as_many_as_the_bound_are_planned(vtrain, tmp_path: Path) -> None:
    flags = ["--backend=process", "--display-name=many", "--dry-run"]
    ended = vtrain("custom-jobs", "create", *flags, config(tmp_path, 1, MAX_REPLICAS - 1))
    assert ended.code == 0, ended.err
    assert ended.err.count("Would start ") == MAX_REPLICAS


def test_vertex_plans_any_number(vtrain, tmp_path: Path) -> None:
    flags = ["--backend=vertex", "--project=p", "--region=us-central1", "--display-name=many", "--dry-run"]
    ended = vtrain("custom-jobs", "create", *flags, "--format=json", config(tmp_path, 1, 10**8))
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["jobSpec"]["workerPoolSpecs"][1]["replicaCount"] == str(10**8)
