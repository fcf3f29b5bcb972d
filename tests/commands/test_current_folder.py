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


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ("custom-jobs create --display-name=a --config=job.yaml", 1),
        ("custom-jobs create --backend=process --display-name=a --config=job.yaml", 1),
        ("run t.py", 1),
        ("run .", 1),
        ("run -m t", 1),
        ("submit sub/t.py", 1),
        ("package sdist t.py", 1),
        ("custom-jobs local-run --script=t.py", 1),
        ("custom-jobs local-run --backend=process --script=t.py", 1),
        ("package image --local-package-path=. --script=t.py --executor-image-uri=a --dry-run", 1),
        ("package sdist --local-package-path=. --script=t.py", 1),
    ],
)
def test_it_is_said_that_the_folder_is_gone(vtrain, argv: str, code: int) -> None:
    ended = vtrain(*argv.split())
    assert (ended.code, ended.out) == (code, "")
    assert "ERROR: The current folder does not exist any more.\n" in ended.err


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
    ("argv", "code"),
    [
        ("custom-jobs list", 0),
        ("ps --filter=displayName=old", 0),
        ("hp-tuning-jobs list", 0),
        ("show old", 0),
        ("stop old", 0),
        ("logs old", 0),
        ("custom-jobs wait old", 10),
        ("logs old -f", 10),
        ("top --once", 0),
        ("models list", 0),
        ("persistent-resources list", 0),
        ("ai-platform jobs list", 0),
        ("doctor", 0),
        ("rm old", 0),
    ],
)
def test_a_command_that_needs_no_folder_works(vtrain, job: str, argv: str, code: int) -> None:
    ended = vtrain(*argv.split())
    assert ended.code == code, ended.err
    assert "folder" not in ended.err and "No such file" not in ended.err


@pytest.mark.parametrize(
    "argv",
    [
        "models upload --display-name=d --artifact-uri=model --container-image-uri=i --backend=local",
        f"cp {JOB}:note.txt .",
    ],
)
def test_a_path_below_a_folder_that_is_gone_is_refused_for_that(
    vtrain, job: str, vtrain_home: Path, argv: str
) -> None:
    output = vtrain_home / "buckets" / "bucket" / "out"
    output.mkdir(parents=True)
    (output / "note.txt").touch()
    ended = vtrain(*argv.split())
    assert ended.code == 1
    assert "ERROR: The current folder does not exist any more.\n" in ended.err
