"""Commands that stand in a folder which somebody has removed."""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.stored_jobs import add_job

JOB = "1234567890123456789"


@pytest.fixture(autouse=True)
def _removed_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()


INFO = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "REPLICA_FAILED",
    "domain": "vtrain",
    "metadata": {"exitCode": "1", "file": "/elsewhere/train.py", "line": "3", "replica": "workerpool0-0"},
}


@pytest.fixture
def job(vtrain_home: Path) -> str:
    """The id of a job that has failed, in a file that lies elsewhere."""
    error = {"code": 3, "message": "It failed.", "details": [INFO]}
    spec = {
        "baseOutputDirectory": {"outputUriPrefix": "gs://bucket/out"},
        "workerPoolSpecs": [{"replicaCount": 1}],
    }
    add_job(vtrain_home, JOB, "old", state="JOB_STATE_FAILED", fields={"error": error, "jobSpec": spec})
    return JOB


@pytest.mark.parametrize(
    "argv",
    [
        "custom-jobs create --display-name=a --config=job.yaml",
        "custom-jobs create --backend=process --display-name=a --config=job.yaml",
        "run t.py",
        "run .",
        "run -m t",
        "submit sub/t.py",
        "package sdist t.py",
        "custom-jobs local-run --script=t.py",
        "custom-jobs local-run --backend=process --script=t.py",
        "package image --local-package-path=. --script=t.py --executor-image-uri=a --dry-run",
        "package sdist --local-package-path=. --script=t.py",
        "models upload --display-name=d --artifact-uri=model --container-image-uri=i --backend=local",
        f"cp {JOB}:note.txt .",
    ],
)
def test_it_is_said_that_the_folder_is_gone(vtrain, job: str, vtrain_home: Path, argv: str) -> None:
    (output := vtrain_home / "buckets" / "bucket" / "out").mkdir(parents=True)
    (output / "note.txt").touch()
    ended = vtrain(*argv.split())
    assert (ended.code, ended.out) == (1, "")
    assert "ERROR: The current folder does not exist any more.\n" in ended.err


@pytest.mark.parametrize(
    "argv",
    [
        *("custom-jobs list", "ps --filter=displayName=old", "hp-tuning-jobs list", "show old", "stop old"),
        *("logs old", "top --once", "models list", "persistent-resources list", "ai-platform jobs list"),
        *("doctor", "rm old", "custom-jobs wait old", "logs old -f"),
    ],
)
def test_a_command_that_needs_no_folder_works(vtrain, job: str, argv: str) -> None:
    ended = vtrain(*argv.split())
    assert ended.code == (10 if "wait" in argv or "-f" in argv.split() else 0), ended.err
    assert "folder" not in ended.err and "No such file" not in ended.err
