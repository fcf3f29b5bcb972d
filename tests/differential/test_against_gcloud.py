"""The gcloud that is installed and vtrain, given the same line: equal requests. Skipped without gcloud."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from differential.capture import CaptureServer, Recorded
from differential.judge import as_message
from differential.runner import Case, environment, write_files

from vtrain.cli import main

pytestmark = pytest.mark.gcloud

CONTAINER = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/img:1"
JOB = """
workerPoolSpecs:
- machineSpec: {machineType: a2-highgpu-1g, acceleratorType: NVIDIA_TESLA_A100, acceleratorCount: 1}
  replicaCount: 2
  containerSpec:
    imageUri: gcr.io/p/img
    args: ["--rate=1,5", ""]
    env: [{name: A, value: "x=y"}]
scheduling: {timeout: 7200s, strategy: SPOT}
persistentResourceId: pool
"""
KEY = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"
STUDY = """
maxTrialCount: 4
parallelTrialCount: 2
studySpec:
  metrics: [{metricId: loss, goal: MINIMIZE}]
  parameters:
  - {parameterId: rate, doubleValueSpec: {minValue: 0.001, maxValue: 1}, scaleType: UNIT_LOG_SCALE}
trialJobSpec:
  workerPoolSpecs:
  - {machineSpec: {machineType: n1-standard-4}, replicaCount: 1, containerSpec: {imageUri: gcr.io/p/img}}
"""
ODD = "scheduling: {timeout: 1h, strategy: spot}\nworkerPoolSpecs: {containerSpec: {imageUri: i, args: x}}\n"
FLAGS = """
--worker-pool-spec: {machine-type: n1, container-image-uri: "gcr.io/p/i,j"}
--args: ["--a=b,c", "^"]
--labels: {team: vision}
"""
LINES = [
    ("custom-jobs", "create", "--display-name=", "--flags-file=flags.yaml"),
    ("custom-jobs", "create", "--display-name=a", "--config=odd.yaml", "--labels="),
    ("custom-jobs", "create", "--display-name=a", "--config=", "--network="),
    ("custom-jobs", "create", "--display-name=été", CONTAINER, "--args=^;^--a;b,c", "--labels=b=1,a=2"),
    ("custom-jobs", "create", "--display-name=a", CONTAINER, "--worker-pool-spec=", "--enable-web-access"),
    ("custom-jobs", "create", "--display-name=a", "--config=job.yaml", "--network=n", "--command=sh,-c"),
    (
        *("custom-jobs", "create", "--display-name=a", "--config=job.yaml", "--persistent-resource-id="),
        *("--trace-token=t", "--service-account=a b@c.d", f"--kms-key={KEY}/cryptoKeyVersions/1"),
    ),
    ("custom-jobs", "list", "--limit=1"),
    ("hp-tuning-jobs", "create", "--display-name=t", "--config=study.yaml", "--algorithm=random-search"),
    (
        *("persistent-resources", "create", "--persistent-resource-id=pool-1"),
        "--resource-pool-spec=machine-type=n1-standard-4,min-replica-count=1,max-replica-count=3",
    ),
]


@pytest.mark.parametrize("track", [(), ("beta",)], ids=["ga", "beta"])
@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line[:2]))
def test_equal_lines_send_equal_requests(
    line: tuple[str, ...], track: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = (*track, "ai", *line, "--region=us-central1")
    files = {"job.yaml": JOB, "study.yaml": STUDY, "odd.yaml": ODD, "flags.yaml": FLAGS}
    case = Case(id="-", group="-", argv=argv, exit_code=0, files=files)
    write_files(case, tmp_path)
    monkeypatch.chdir(tmp_path)
    theirs = requests_of_gcloud(case, tmp_path)
    with CaptureServer((), ()) as server:
        for name, value in environment(case, server.url).items():
            monkeypatch.setenv(name, value)
        main(argv)
        ours = tuple(server.requests)
    assert theirs
    assert messages(ours) == messages(theirs)


def requests_of_gcloud(case: Case, folder: Path) -> tuple[Recorded, ...]:
    with CaptureServer((), ()) as server:
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "CLOUDSDK_CONFIG": str(folder / "gcloud")}
        env |= environment(case, server.url)
        subprocess.run(["gcloud", *case.argv], env=env, cwd=folder, capture_output=True, timeout=60)
        return tuple(server.requests)


def messages(requests: tuple[Recorded, ...]) -> list[tuple[str, str, object]]:
    """Requests in a form in which those that ask for the same are equal."""
    return [(r.method, r.path, as_message(r.path, r.body)) for r in requests]
