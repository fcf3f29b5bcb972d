"""Lines that read, with what the installed gcloud prints for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from differential.judge import differences
from differential.runner import Case, play

pytest.importorskip("google.cloud.aiplatform_v1.services", reason="needs the extra vertex")

JOBS = "/v1/projects/demo/locations/us-central1/customJobs"
DOCUMENTS = [
    {"name": "p/1", "endTime": "2026-01-03T00:00:00Z", "labels": {"b": "1"}, "error": {"details": []}},
    {"name": "p/2", "displayName": "b", "labels": {}},
    {"name": "p/3", "displayName": "b", "endTime": "2026-03-01T00:00:00Z", "labels": {}},
]
ENTRIES = [
    {
        "timestamp": "2026-01-03T10:00:00.999999999Z",
        "insertId": "a",
        "severity": "INFO",
        "textPayload": "x\ny",
    }
]
LISTS = [
    (("--sort-by=^;^displayName;~name", "--format=value(name)"), "p/1\np/3\np/2\n"),
    (("--filter=endTime<2026-02", "--format=value(name)"), "p/1\n"),
    (("--flatten=labels", "--format=yaml(name,labels)"), "---\n  null\n--- {}\n--- {}\n"),
    (("--flatten=error.details,labels", "--format=value(name)"), "\n\n\n"),
    (("--format=yaml(error)", "--limit=1"), "---\nerror: {}\n"),
]
SECOND = "2026-01-03 10:00:00 +0000"
LOGS = [
    ((), f"INFO\t{SECOND}\tunknown_task\tx\nINFO\t{SECOND}\tunknown_task\ty\n"),
    (("--format=csv[no-heading](timestamp,message)",), f"{SECOND},x\n{SECOND},y\n"),
    (("--format=value(MESSAGE)",), "x\ny\n"),
    (("--no-user-output-enabled",), ""),
]


@pytest.mark.parametrize(("flags", "stdout"), LISTS, ids=lambda flags: str(flags[0]))
def test_list(flags: tuple[str, ...], stdout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"method": "GET", "path": f"{JOBS}?pageSize=100", "body": None}
    _compare("list", flags, stdout, ((asked, {"customJobs": DOCUMENTS}),), tmp_path, monkeypatch)


@pytest.mark.parametrize(("flags", "stdout"), LOGS, ids=lambda flags: str(flags))
def test_stream_logs(
    flags: tuple[str, ...], stdout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {"name": JOBS[4:] + "/1", "state": "JOB_STATE_SUCCEEDED", "endTime": "2026-01-03T11:00:00Z"}
    query = {
        "resourceNames": ["projects/demo"],
        "filter": 'resource.type="ml_job" AND resource.labels.job_id="1" '
        'AND timestamp>="1970-01-01T01:00:00.000000000Z"',
        "orderBy": "timestamp asc",
        "pageSize": 1000,
    }
    exchanges = (
        ({"method": "GET", "path": f"{JOBS}/1", "body": None}, job),
        ({"method": "POST", "path": "/v2/entries:list", "body": query}, {"entries": ENTRIES}),
    )
    words = ("1", "--polling-interval=1", *flags)
    _compare("stream-logs", words, stdout, exchanges, tmp_path, monkeypatch)


def _compare(
    verb: str,
    words: tuple[str, ...],
    stdout: str,
    exchanges: tuple[tuple[dict[str, Any], dict[str, Any]], ...],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = folder / "work"
    work.mkdir()
    case = Case(
        id="-",
        group="-",
        argv=("ai", "custom-jobs", verb, "--region=us-central1", *words),
        exit_code=0,
        stdout=stdout,
        requests=tuple(request for request, _ in exchanges),
        responses=tuple({"status": 200, "body": body} for _, body in exchanges),
    )
    outcome = play(case, work, monkeypatch)
    assert not differences(case, outcome), outcome.stderr
