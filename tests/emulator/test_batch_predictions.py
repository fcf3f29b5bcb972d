"""Batch prediction by hand: what is read and written, and how jobs end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from lib.emulator_service import emulator_service
from lib.framework_index import SKLEARN, SUM, framework_emulator, servers
from lib.storage_service import Http
from lib.waiting import wait_until

from vtrain.emulator.vertex.instance_files import LONGEST_LINE
from vtrain.emulator.vertex.model_servers import MOST_SERVERS

SERVE = framework_emulator


LOCATION = "projects/demo/locations/us-central1"
JOBS = f"/v1/{LOCATION}/batchPredictionJobs"
Document = dict[str, Any]
Run = Callable[..., Document]


@pytest.fixture(scope="module")
def model(url: str, home: Path) -> str:
    folder = home / "buckets" / "models" / "sum"
    folder.mkdir(parents=True)
    (folder / "model.pkl").write_bytes(SUM)
    model = {
        "displayName": "sum",
        "artifactUri": "gs://models/sum",
        "containerSpec": {"imageUri": SKLEARN},
    }
    http = Http(url)
    made = http("POST", f"/v1/{LOCATION}/models:upload", {"model": model})
    http.connection.close()
    return str(made.document["response"]["model"])


@pytest.fixture
def inbox(home: Path, request: pytest.FixtureRequest) -> Path:
    """A bucket of this test's own."""
    letters = "".join(c if c.isalnum() else "-" for c in request.node.name.lower()).strip("-")
    folder = home / "buckets" / letters[-60:].strip("-")
    folder.mkdir(parents=True)
    return folder


def body(model: str, inbox: Path, format_name: str = "jsonl", name: str = "input", **fields: Any) -> Document:
    return {
        "displayName": "batch",
        "model": model,
        "inputConfig": {
            "instancesFormat": format_name,
            "gcsSource": {"uris": [f"gs://{inbox.name}/{name}"]},
        },
        "outputConfig": {
            "predictionsFormat": "jsonl",
            "gcsDestination": {"outputUriPrefix": f"gs://{inbox.name}/out"},
        },
    } | fields


def ended(http: Http, name: str) -> Document:
    found: Document = {}

    def has_ended() -> bool:
        found.update(http("GET", f"/v1/{name}").document)
        return "endTime" in found

    wait_until(has_ended, found)
    return found


@pytest.fixture
def run(http: Http, model: str, inbox: Path) -> Run:
    """Runs a job over a file; the job as it ended."""

    def run(content: bytes, *options: str, **fields: Any) -> Document:
        (inbox / "input").write_bytes(content)
        reply = http("POST", JOBS, body(model, inbox, *options, **fields))
        assert reply.status == 200, reply.body
        return ended(http, reply.document["name"])

    return run


def results(home: Path, job: Document) -> list[Any]:
    """The lines of the results of a job."""
    folder = home / "buckets" / job["outputInfo"]["gcsOutputDirectory"].removeprefix("gs://")
    text = (folder / "prediction.results-00000-of-00001").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_lines_of_json(run: Run, home: Path, inbox: Path) -> None:
    job = run(b"".join(b"[%d, 1]\n" % number for number in range(150)) + b"\n")
    assert (job["state"], job["modelVersionId"]) == ("JOB_STATE_SUCCEEDED", "1")
    assert job["completionStats"] == {"successfulCount": "150"}
    assert job["outputInfo"]["gcsOutputDirectory"].startswith(f"gs://{inbox.name}/out/prediction-sum-")
    assert results(home, job) == [{"instance": [n, 1], "prediction": n + 1} for n in range(150)]


def test_rows_of_csv(run: Run, home: Path) -> None:
    job = run(b'a,b\n1,2\n"3",4.5\n', "csv")
    assert results(home, job) == [
        {"instance": [1, 2], "prediction": 3},
        {"instance": [3, 4.5], "prediction": 7.5},
    ]


def test_fields_are_chosen_and_a_key_stands_for_the_instance(run: Run, home: Path) -> None:
    config = {"instanceType": "array", "keyField": "id", "includedFields": ["b", "a"]}
    job = run(b'{"id": "x", "a": 1, "b": 2, "c": "no"}\n', instanceConfig=config)
    assert results(home, job) == [{"key": "x", "prediction": 3}]
    job = run(b"id,a,b\n7,1,2\n", "csv", instanceConfig={"excludedFields": ["id"]})
    assert results(home, job) == [{"instance": [1, 2], "prediction": 3}]


def test_several_files_by_a_pattern(run: Run, home: Path, inbox: Path) -> None:
    for number in (2, 1):
        (inbox / f"part-{number}.jsonl").write_text(f"[{number}, 0]\n")
    assert [each["prediction"] for each in results(home, run(b"", "jsonl", "part-*.jsonl"))] == [1, 2]


def test_a_list_of_files_sends_their_content(run: Run, inbox: Path) -> None:
    (inbox / "picture").write_bytes(b"abc")
    job = run(f"gs://{inbox.name}/picture\n".encode(), "file-list")
    folder = inbox.parent / job["outputInfo"]["gcsOutputDirectory"].removeprefix("gs://")
    errors = (folder / "prediction.errors_stats-00000-of-00001").read_text()
    assert "expected 2 features" in errors  # {"b64": …} is of another shape for this model
    assert job["state"] == "JOB_STATE_FAILED" and job["completionStats"] == {"failedCount": "1"}


def test_a_part_that_fails_is_counted(run: Run, home: Path) -> None:
    job = run(b"[1, 2]\n[1]\n[3, 4]\n", manualBatchTuningParameters={"batchSize": 1})
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert job["completionStats"] == {"successfulCount": "2", "failedCount": "1"}
    assert [each["prediction"] for each in results(home, job)] == [3, 7]


def test_a_file_that_cannot_be_read_takes_nothing_from_the_others(run: Run, home: Path, inbox: Path) -> None:
    (inbox / "whole").write_bytes(b"[1, 2]\n")
    uris = [f"gs://{inbox.name}/{name}" for name in ("missing", "whole", "none-*")]
    source = {"gcsSource": {"uris": uris}}
    job = run(b"", inputConfig={"instancesFormat": "jsonl", **source})
    assert [each["prediction"] for each in results(home, job)] == [3]
    missing, none = (each["message"] for each in job["partialFailures"])
    assert job["state"] == "JOB_STATE_SUCCEEDED" and "/missing" in missing and "/none-*" in none


@pytest.mark.parametrize(
    ("content", "options", "word"),
    [
        (b"[1, 2]\nnot json\n", (), "line 2"),
        (b"x", ("jsonl", "missing"), "missing"),
        (b"x", ("jsonl", "none-*"), "none-"),
        (b"file:///etc/passwd\n", ("file-list",), "gs://"),
        (b"gs://nowhere/x\n", ("file-list",), "gs://nowhere/x"),
    ],
)
def test_input_that_cannot_be_read(run: Run, content: bytes, options: tuple[str, ...], word: str) -> None:
    job = run(content, *options)
    assert job["state"] == "JOB_STATE_FAILED" and word in job["error"]["message"]


def test_a_link_out_of_the_bucket_is_not_followed(run: Run, inbox: Path) -> None:
    (inbox / "link").symlink_to("/etc/passwd")
    job = run(b"", "jsonl", "link")
    assert job["state"] == "JOB_STATE_FAILED" and "outputInfo" not in job


def test_a_job_is_cancelled(http: Http, model: str, inbox: Path) -> None:
    (inbox / "input").write_bytes(b"[1, 2]\n" * 200_000)
    fields = {"manualBatchTuningParameters": {"batchSize": 1}}
    name = http("POST", JOBS, body(model, inbox, **fields)).document["name"]
    assert http("DELETE", f"/v1/{name}").document["error"]["status"] == "FAILED_PRECONDITION"
    assert http("POST", f"/v1/{name}:cancel", {}).document == {}
    assert ended(http, name)["state"] == "JOB_STATE_CANCELLED"
    assert http("DELETE", f"/v1/{name}").document["done"]
    assert http("GET", f"/v1/{name}").status == 404


def test_another_emulator_of_the_home_cancels_a_running_job(
    home: Path, http: Http, model: str, inbox: Path
) -> None:
    (inbox / "input").write_bytes(b"[1, 2]\n" * 200_000)
    fields = {"manualBatchTuningParameters": {"batchSize": 1}}
    name = http("POST", JOBS, body(model, inbox, **fields)).document["name"]
    try:
        wait_until(lambda: http("GET", f"/v1/{name}").document["state"] == "JOB_STATE_RUNNING", patience=30)
        with emulator_service(home) as second:
            other = Http(second)
            assert other("GET", f"/v1/{name}").document["state"] == "JOB_STATE_RUNNING"
            assert other("DELETE", f"/v1/{name}").document["error"]["status"] == "FAILED_PRECONDITION"
            assert other("POST", f"/v1/{name}:cancel", {}).document == {}
            assert ended(other, name)["state"] == "JOB_STATE_CANCELLED"
            other.connection.close()
    finally:
        http("POST", f"/v1/{name}:cancel", {})
    assert ended(http, name)["state"] == "JOB_STATE_CANCELLED"


def test_a_job_whose_server_starts_again_is_cancelled(
    http: Http, model: str, home: Path, inbox: Path
) -> None:
    (inbox / "input").write_bytes(b"[1, 2]\n" * 200_000)
    before, file = set(servers()), home / "buckets" / "models" / "sum" / "model.pkl"
    fields = {"manualBatchTuningParameters": {"batchSize": 1}}
    name = http("POST", JOBS, body(model, inbox, **fields)).document["name"]
    try:
        wait_until((inbox / "out").exists, patience=30)  # the first server is healthy
        (first,) = set(servers()) - before
        file.write_bytes(b"ctime\nsleep\n(I600\ntR.")  # the next one never gets healthy
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: set(servers()) - before - {first}, patience=30)
        http("POST", f"/v1/{name}:cancel", {})
        wait_until(lambda: "endTime" in http("GET", f"/v1/{name}").document, patience=20)
    finally:
        file.write_bytes(SUM)
        http("POST", f"/v1/{name}:cancel", {})
    assert http("GET", f"/v1/{name}").document["state"] == "JOB_STATE_CANCELLED"


def test_lists(http: Http, run: Run) -> None:
    first = run(b"[1, 2]\n", displayName="listed")
    listed = http("GET", f"{JOBS}?filter=display_name%3Dlisted").document["batchPredictionJobs"]
    assert [each["name"] for each in listed] == [first["name"]]
    failed = http("GET", f"{JOBS}?filter=state%3D%22JOB_STATE_FAILED%22").document
    assert first["name"] not in [each["name"] for each in failed.get("batchPredictionJobs", ())]
    both = "display_name=listed AND model_display_name"
    for text, count in ((f"{both}=sum", 1), (f"{both}!=sum", 0), (f"{both}:su", 1)):
        found = http("GET", f"{JOBS}?filter={quote(text)}").document
        assert len(found.get("batchPredictionJobs", ())) == count, text


def test_a_job_whose_emulator_ended_has_failed(home: Path, http: Http, run: Run) -> None:
    job = run(b"[1, 2]\n")
    identifier = job["name"].rpartition("/")[2]
    file = home / "emulator" / "batchPredictionJobs" / f"us-central1.{identifier}.json"
    document = json.loads(file.read_text())
    del document["endTime"]
    file.write_text(json.dumps(document | {"state": "JOB_STATE_RUNNING"}))

    def now() -> Document:
        return dict(http("GET", f"/v1/{job['name']}").document)

    wait_until(lambda: now()["state"] == "JOB_STATE_FAILED", patience=10)  # once its thread has ended
    assert "emulator ended" in now()["error"]["message"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"displayName": ""}, 400),
        ({"model": ""}, 400),
        ({"model": f"{LOCATION}/models/7"}, 404),
        ({"inputConfig": {"instancesFormat": "jsonl"}}, 400),
        ({"inputConfig": {"instancesFormat": "tf-record", "gcsSource": {"uris": ["gs://bucket/x"]}}}, 405),
        ({"inputConfig": {"instancesFormat": "bigquery", "bigquerySource": {"inputUri": "bq://x"}}}, 405),
        ({"inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": ["/etc/passwd"]}}}, 400),
        ({"inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": []}}}, 400),
        (
            {"outputConfig": {"predictionsFormat": "csv", "gcsDestination": {"outputUriPrefix": "gs://b/o"}}},
            405,
        ),
        ({"generateExplanation": True}, 405),
        ({"unknownField": 1}, 400),
    ],
)
def test_jobs_that_are_refused(http: Http, model: str, inbox: Path, change: Document, status: int) -> None:
    reply = http("POST", JOBS, body(model, inbox) | change)
    assert reply.status == status and reply.document["error"]["message"], reply.body


def test_many_jobs_at_once_lose_no_instance_and_stay_as_they_ended(
    http: Http, url: str, model: str, inbox: Path
) -> None:
    (inbox / "input").write_bytes(b"[1, 2]\n" * 40)
    fields = {"manualBatchTuningParameters": {"batchSize": 10}}
    names = [
        http("POST", JOBS, body(model, inbox, displayName="many", **fields)).document["name"]
        for _ in range(MOST_SERVERS + 4)
    ]

    def look() -> set[str]:
        found = http("GET", f"{JOBS}?filter=display_name%3Dmany").document["batchPredictionJobs"]
        return {each["state"] for each in found if each["name"] in names}

    seen: set[str] = set()
    wait_until(lambda: seen.update(look()) or look() == {"JOB_STATE_SUCCEEDED"}, seen)
    assert "JOB_STATE_FAILED" not in seen
    for name in names:
        assert http("GET", f"/v1/{name}").document["completionStats"] == {"successfulCount": "40"}


def test_a_large_file_of_a_list_is_not_cut(run: Run, inbox: Path) -> None:
    with (inbox / "large").open("wb") as file:
        file.truncate(LONGEST_LINE + 1)
    job = run(f"gs://{inbox.name}/large\n".encode(), "file-list")
    assert job["state"] == "JOB_STATE_FAILED" and "large has more than" in job["error"]["message"]


@pytest.mark.parametrize("content", [b'"\\ud800"\n', b"[" * 5000 + b"\n", b"[1e999]\n"])
def test_lines_that_have_no_form_in_json(run: Run, content: bytes) -> None:
    job = run(content)
    assert job["state"] == "JOB_STATE_FAILED"
    assert "input, line 1, is no JSON: " in job["error"]["message"]


def test_numbers_and_texts_of_csv(run: Run, home: Path) -> None:
    job = run(b"a,b\n1e1,-2\n1_000,007\n", "csv", manualBatchTuningParameters={"batchSize": 1})
    assert results(home, job) == [{"instance": [10.0, -2], "prediction": 8.0}]
    assert job["completionStats"] == {"successfulCount": "1", "failedCount": "1"}


@pytest.mark.parametrize("row", ["1", "1,2,3"])
def test_a_row_of_csv_with_other_columns_than_the_first(run: Run, row: str) -> None:
    job = run(f"a,b\n{row}\n".encode(), "csv")
    assert job["state"] == "JOB_STATE_FAILED"
    assert job["error"]["message"].endswith(f"row 2 has {row.count(',') + 1} values, and the first 2.")


def test_a_bucket_alone_takes_the_output(run: Run, inbox: Path) -> None:
    output = {"predictionsFormat": "jsonl", "gcsDestination": {"outputUriPrefix": f"gs://{inbox.name}"}}
    job = run(b"[1, 2]\n", outputConfig=output)
    assert job["outputInfo"]["gcsOutputDirectory"].startswith(f"gs://{inbox.name}/prediction-sum-")
