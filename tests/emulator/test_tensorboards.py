"""What is in a TensorBoard: experiments, runs, time series and their points; over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from lib.emulator_service import emulator_service
from lib.storage_service import Http

from vtrain.emulator.vertex import tensorboards
from vtrain.emulator.vertex.resource_files import ResourceFiles

Document = dict[str, Any]
PARENT = "/v1/projects/demo/locations/us-central1/tensorboards"
TIME = "2026-01-02T03:04:05Z"


def made(http: Http, verb: str, path: str, body: Any = None) -> Document:
    reply = http(verb, path, body)
    assert reply.status == 200, reply.body
    return dict(reply.document)


@pytest.fixture
def board(http: Http) -> str:
    return str(made(http, "POST", PARENT, {"displayName": "board"})["response"]["name"])


@pytest.fixture
def run(http: Http, board: str) -> str:
    made(http, "POST", f"/v1/{board}/experiments?tensorboardExperimentId=exp", {})
    path = f"/v1/{board}/experiments/exp/runs?tensorboardRunId=run"
    return str(made(http, "POST", path, {"displayName": "run"})["name"])


def make_series(http: Http, run: str, name: str, kind: Any = "SCALAR") -> str:
    return str(made(http, "POST", f"/v1/{run}/timeSeries", {"displayName": name, "valueType": kind})["name"])


def test_a_batch_reads_what_is_there_once(http: Http, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    usual = ResourceFiles.below

    def counted(files: Any, parent: str) -> Any:
        reads.append(parent)
        return usual(files, parent)

    monkeypatch.setattr(ResourceFiles, "below", counted)
    wanted = [{"displayName": str(number), "valueType": "SCALAR"} for number in range(20)]
    requests = [{"parent": run, "tensorboardTimeSeries": one} for one in wanted]
    batch = f"/v1/{run.rpartition('/runs/')[0]}:batchCreate"
    assert len(made(http, "POST", batch, {"requests": requests})["tensorboardTimeSeries"]) == 20
    assert len(reads) == 1
    new = {"parent": run, "tensorboardTimeSeries": {"displayName": "new", "valueType": "SCALAR"}}
    for again in ([requests[7]], [new, new]):
        refused = http("POST", batch, {"requests": again})
        assert refused.status == 400 and "already exists" in refused.document["error"]["message"]


def written(series: str, *points: tuple[int, Any]) -> Document:
    values = [{"step": step, "wallTime": TIME, "scalar": {"value": value}} for step, value in points]
    return {"tensorboardTimeSeriesId": series.rpartition("/")[2], "valueType": "SCALAR", "values": values}


def values(http: Http, series: str, query: str = "") -> list[tuple[str, Any]]:
    data = made(http, "GET", f"/v1/{series}:read{query}")["timeSeriesData"]
    assert data["valueType"] == "SCALAR"
    return [(point["step"], point["scalar"].get("value", 0)) for point in data["values"]]


def test_the_life_of_what_is_in_a_board(http: Http, board: str, run: str) -> None:
    series = make_series(http, run, "loss", 1)
    for path, listed in (
        (f"{board}/experiments", "tensorboardExperiments"),
        (f"{board}/experiments/exp/runs", "tensorboardRuns"),
        (f"{run}/timeSeries", "tensorboardTimeSeries"),
    ):
        (one,) = made(http, "GET", f"/v1/{path}")[listed]
        assert made(http, "GET", f"/v1/{one['name']}") == one
        changed = made(http, "PATCH", f"/v1/{one['name']}?updateMask=description", {"description": "mine"})
        assert changed["description"] == "mine"
    assert http("PATCH", f"/v1/{series}?updateMask=valueType", {"valueType": "TENSOR"}).status == 400
    for path, body in (
        (f"{board}/experiments/exp/runs?tensorboardRunId=other", {"displayName": "run"}),
        (f"{run}/timeSeries", {"displayName": "loss", "valueType": "SCALAR"}),
    ):
        again = http("POST", f"/v1/{path}", body)
        assert again.status == 400 and "already exists" in again.document["error"]["message"]
    assert http("POST", f"/v1/{run}/timeSeries", {"displayName": "other"}).status == 400
    assert http("POST", f"/v1/{board}/experiments/none/runs", {"displayName": "x"}).status == 404
    assert made(http, "DELETE", f"/v1/{board}/experiments/exp")["done"]
    for name in (run, series, f"{run}/timeSeries"):
        assert http("GET", f"/v1/{name}").status == 404
    made(http, "POST", f"/v1/{board}/experiments?tensorboardExperimentId=exp", {})
    assert made(http, "GET", f"/v1/{board}/experiments/exp/runs") == {}


def test_points_are_read_by_their_steps(http: Http, board: str, run: str, home: Path) -> None:
    loss, rate = make_series(http, run, "loss"), make_series(http, run, "rate")
    first = written(loss, (10, 0.5), (2, "NaN"), (9, 0))
    assert made(http, "POST", f"/v1/{run}:write", {"timeSeriesData": [first, written(rate, (1, 1e9))]}) == {}
    made(http, "POST", f"/v1/{run}:write", {"timeSeriesData": [written(loss, (10, 0.25))]})
    assert values(http, loss) == [("2", "NaN"), ("9", 0), ("10", 0.25)]
    assert values(http, loss, f"?filter={quote('step >= 9')}") == [("9", 0), ("10", 0.25)]
    assert values(http, loss, "?maxDataPoints=1") == [("10", 0.25)]
    assert values(http, loss, "?maxDataPoints=-1") == values(http, loss)
    query = f"timeSeries={quote(loss)}&timeSeries={quote(rate)}"
    both = made(http, "GET", f"/v1/{board}:batchRead?{query}")["timeSeriesData"]
    assert [len(one["values"]) for one in both] == [3, 1]
    page = made(http, "POST", f"/v1/{loss}:exportTensorboardTimeSeries", {"pageSize": 2})
    assert [point["step"] for point in page["timeSeriesDataPoints"]] == ["2", "9"]
    more = {"pageSize": 2, "pageToken": page["nextPageToken"]}
    rest = made(http, "POST", f"/v1/{loss}:exportTensorboardTimeSeries", more)
    assert [point["step"] for point in rest["timeSeriesDataPoints"]] == ["10"] and "nextPageToken" not in rest
    backwards = made(http, "POST", f"/v1/{loss}:exportTensorboardTimeSeries", {"orderBy": "step desc"})
    assert [point["step"] for point in backwards["timeSeriesDataPoints"]] == ["10", "9", "2"]
    made(http, "POST", f"/v1/{run}:write", {"timeSeriesData": [written(rate, (-1, 1), (-2, 1))]})
    in_order = made(http, "POST", f"/v1/{rate}:exportTensorboardTimeSeries", {"orderBy": "step"})
    assert [point["step"] for point in in_order["timeSeriesDataPoints"]] == ["-2", "-1", "1"]
    known = made(http, "GET", f"/v1/{loss}")["metadata"]
    assert known == {"maxStep": "10", "maxWallTime": TIME}
    with emulator_service(home) as url:
        again = Http(url)
        assert values(again, rate)[-1] == ("1", 1e9)
        again.connection.close()


def test_a_board_has_a_bucket_for_blobs(http: Http, board: str) -> None:
    """`upload_tb_log` of Google's library refuses a board without one, and writes graphs and images there."""
    prefix = made(http, "GET", f"/v1/{board}")["blobStoragePathPrefix"]
    bucket, _, folder = prefix.partition("/")
    assert folder == board.rpartition("/")[2]
    assert http("GET", f"/storage/v1/b/{bucket}").status == 200


def test_batches(http: Http, board: str, run: str) -> None:
    experiment = f"{board}/experiments/exp"
    requests = [
        {"parent": experiment, "tensorboardRunId": name, "tensorboardRun": {"displayName": name}}
        for name in ("a", "b")
    ]
    runs = made(http, "POST", f"/v1/{experiment}/runs:batchCreate", {"requests": requests})["tensorboardRuns"]
    assert [one["name"] for one in runs] == [f"{experiment}/runs/a", f"{experiment}/runs/b"]
    requests = [
        {"parent": one["name"], "tensorboardTimeSeries": {"displayName": "loss", "valueType": "SCALAR"}}
        for one in runs
    ]
    batch = made(http, "POST", f"/v1/{experiment}:batchCreate", {"requests": requests})
    series = [one["name"] for one in batch["tensorboardTimeSeries"]]
    data = [
        {"tensorboardRun": one["name"], "timeSeriesData": [written(name, (1, 2.5))]}
        for one, name in zip(runs, series, strict=True)
    ]
    assert made(http, "POST", f"/v1/{experiment}:write", {"writeRunDataRequests": data}) == {}
    assert [values(http, name) for name in series] == [[("1", 2.5)]] * 2
    made(http, "POST", f"/v1/{board}/experiments?tensorboardExperimentId=other", {})
    other = f"/v1/{board}/experiments/other"
    for path, body in (
        (f"{other}:write", {"writeRunDataRequests": data}),
        (f"{other}:batchCreate", {"requests": requests}),
        (f"{other}/runs:batchCreate", {"requests": [{"parent": experiment}]}),
        (f"{other}:batchCreate", {"requests": [1]}),
        (f"{other}:batchCreate", {"requests": {"a": 1}}),
        (f"{other}:batchCreate", {"requests": [{"unknown": 1}]}),
        (f"{other}:batchCreate", {"requests": [{"parent": 1}]}),
        (f"{other}:batchCreate", {"requests": [{}] * 1001}),
        (f"{other}:write", {"writeRunDataRequests": [{}]}),
    ):
        assert http("POST", path, body).status == 400, body


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"tensorboardTimeSeriesId": "none"}, 404),
        ({"tensorboardTimeSeriesId": "../x"}, 404),
        ({"valueType": "TENSOR"}, 400),
        ({"values": [{"step": 1, "wallTime": TIME}]}, 400),
        ({"values": [{"step": 1, "wallTime": "x", "scalar": {"value": 1}}]}, 400),
        ({"values": [{"step": 1, "wallTime": TIME, "scalar": {"value": "x"}}]}, 400),
        ({"values": [{"step": 1, "wallTime": TIME, "scalar": {"value": True}}]}, 400),
        ({"values": [{"step": 1, "wallTime": TIME, "scalar": {"value": [1]}}]}, 400),
        ({"values": [{"step": 2**63, "wallTime": TIME, "scalar": {"value": 1}}]}, 400),
        ({"values": [{"step": 1, "wallTime": TIME, "tensor": {"value": "eA=="}}]}, 400),
        ({"values": [{"step": 1, "wallTime": TIME, "scalar": {"value": 1}}] * 5001}, 400),
        ({"values": 1}, 400),
        ({"unknown": 1}, 400),
    ],
)
def test_points_that_are_refused(http: Http, run: str, change: Document, status: int) -> None:
    series = make_series(http, run, "loss")
    reply = http("POST", f"/v1/{run}:write", {"timeSeriesData": [written(series, (1, 1)) | change]})
    assert reply.status == status, reply.body
    assert values(http, series) == [] and len(reply.body) < 3000


@pytest.mark.parametrize(
    "query", ["?maxDataPoints=-2", "?maxDataPoints=x", "?filter=other%3D1", "?filter=step%3A1"]
)
def test_reads_that_are_refused(http: Http, run: str, query: str) -> None:
    assert http("GET", f"/v1/{make_series(http, run, 'loss')}:read{query}").status == 400


def test_a_series_has_an_end(http: Http, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboards, "LARGEST_SERIES", 100)
    series = make_series(http, run, "loss")
    made(http, "POST", f"/v1/{run}:write", {"timeSeriesData": [written(series, (1, 1))]})
    reply = http("POST", f"/v1/{run}:write", {"timeSeriesData": [written(series, (2, 1))]})
    assert (reply.status, reply.document["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert values(http, series) == [("1", 1)]


def test_a_damaged_line_hides_no_other(http: Http, run: str, home: Path) -> None:
    series = make_series(http, run, "loss")
    made(http, "POST", f"/v1/{run}:write", {"timeSeriesData": [written(series, (1, 1))]})
    (file,) = home.rglob(f"{series.rpartition('/')[2]}/points.jsonl")
    with file.open("ab") as opened:
        opened.write(b'7\n{"step": "2", "wallTi')  # as a full disk leaves it
    made(http, "POST", f"/v1/{run}:write", {"timeSeriesData": [written(series, (3, 3))]})
    assert values(http, series) == [("1", 1), ("3", 3)]
