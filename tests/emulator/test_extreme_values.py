"""Numbers, texts and documents that no field can hold: 400 with a sentence, over REST, storage and gRPC."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lib.emulator_service import emulator_service
from lib.storage_service import Http


@contextmanager
def serve_an_object(home: Path) -> Iterator[str]:
    (home / "buckets" / "bucket").mkdir(parents=True)
    (home / "buckets" / "bucket" / "object").write_text("x" * 100)
    with emulator_service(home) as address:
        yield address


SERVE = serve_an_object


PARENT = "projects/p/locations/us-central1"
NUMBERS = (
    "9" * 310,
    "9" * 5000,
    "-" + "9" * 310,
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    '"' + "9" * 5000 + '"',
)
TEXTS = ('"\\ud800"', '"\\udc00x"')
DEEP = (
    "[" * 900 + "]" * 900,
    "[" * 100_000 + "]" * 100_000,
    '{"a":' * 900 + "1" + "}" * 900,
    '{"a":' * 100_000,
)
POOL = {"machineSpec": {"machineType": "n1-standard-4"}, "pythonPackageSpec": {"executorImageUri": "x"}}
STUDY = {
    "metrics": [{"metricId": "m", "goal": "MINIMIZE"}],
    "parameters": [{"parameterId": "x", "doubleValueSpec": {"minValue": 0, "maxValue": "HERE"}}],
}
TASK = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"
BODIES: dict[str, dict[str, Any]] = {
    "customJobs": {
        "displayName": "a",
        "jobSpec": {"workerPoolSpecs": [{**POOL, "replicaCount": "HERE"}]},
    },
    "hyperparameterTuningJobs": {
        "displayName": "a",
        "maxTrialCount": 1,
        "parallelTrialCount": 1,
        "studySpec": STUDY,
        "trialJobSpec": {"workerPoolSpecs": [POOL]},
    },
    "trainingPipelines": {
        "displayName": "a",
        "trainingTaskDefinition": TASK,
        "trainingTaskInputs": {"workerPoolSpecs": [POOL]},
        "inputDataConfig": {"datasetId": "1", "fractionSplit": {"trainingFraction": "HERE"}},
    },
    "persistentResources?persistentResourceId=x1": {"resourcePools": [{**POOL, "replicaCount": "HERE"}]},
}


def refused(http: Http, method: str, path: str, body: str | None = None, **headers: str) -> None:
    reply = http(method, path, None if body is None else body.encode(), **headers)
    assert reply.status == 400, (path, (body or "")[:300], reply.status, reply.body[:300])
    assert len(reply.document["error"]["message"]) > 10


@pytest.mark.parametrize("collection", BODIES)
def test_a_field_of_a_resource(http: Http, collection: str) -> None:
    body = json.dumps(BODIES[collection])
    for value in (*NUMBERS, *TEXTS, *DEEP):
        refused(http, "POST", f"/v1/{PARENT}/{collection}", body.replace('"HERE"', value))


def test_a_whole_body(http: Http) -> None:
    for value in (*NUMBERS, *TEXTS, *DEEP):
        for path in (f"/v1/{PARENT}/customJobs", "/v2/entries:list", "/storage/v1/b"):
            refused(http, "POST", path, value)


def test_a_dataset_of_a_name_that_no_file_has(http: Http) -> None:
    body = json.dumps(BODIES["trainingPipelines"]).replace('"HERE"', "0.5")
    refused(http, "POST", f"/v1/{PARENT}/trainingPipelines", body.replace('"1"', '"' + "9" * 5000 + '"'))


@pytest.mark.parametrize("number", ["9" * 310, "9" * 5000, "-" + "9" * 310, "NaN", "1e400", "1.5"])
def test_a_number_of_a_query(http: Http, number: str) -> None:
    objects = "/storage/v1/b/bucket/o"
    for path in (
        f"/v1/{PARENT}/customJobs?pageSize=",
        f"/v1/{PARENT}/models?pageSize=",
        "/storage/v1/b?maxResults=",
        f"{objects}?maxResults=",
        f"{objects}/object?generation=",
        f"{objects}/object?ifMetagenerationNotMatch=",
        f"/download{objects}/object?alt=media&ifGenerationMatch=",
    ):
        refused(http, "GET", path + number)
    refused(http, "POST", f"/upload{objects}?uploadType=media&name=x&ifGenerationMatch={number}", "x")


def test_the_largest_size_of_a_page_means_the_largest_page(http: Http) -> None:
    for collection in ("customJobs", "models", "endpoints"):
        assert http("GET", f"/v1/{PARENT}/{collection}?pageSize={2**31 - 1}").status == 200
        refused(http, "GET", f"/v1/{PARENT}/{collection}?pageSize={2**31}")


@pytest.mark.parametrize("number", ["9" * 310, "9" * 5000])
def test_a_number_of_a_range(http: Http, number: str) -> None:
    path = "/download/storage/v1/b/bucket/o/object?alt=media"
    for span in (f"bytes={number}-", f"bytes=0-{number}", f"bytes=-{number}", f"bytes={number}-{number}"):
        assert http("GET", path, range=span).status in (200, 206, 416)
    begun = http("POST", "/upload/storage/v1/b/bucket/o?uploadType=resumable&name=r", b"{}")
    place = begun.headers["location"].removeprefix(http.url)
    for span in (
        f"bytes 0-1/{number}",
        f"bytes 0-{number}/*",
        f"bytes {number}-{number}/*",
        f"bytes */{number}",
    ):
        refused(http, "PUT", place, "xx", content_range=span)


def test_over_grpc(tmp_path: Path) -> None:
    grpc = pytest.importorskip("grpc")
    # The server's own import leaves packages without their content, which other tests of this process need.
    for library in ("aiplatform_v1", "aiplatform_v1beta1", "resourcemanager_v3"):
        pytest.importorskip(f"google.cloud.{library}")
    pytest.importorskip("google.cloud.aiplatform_v1")
    from vtrain.emulator.vertex.grpc_server import serving_grpc
    from vtrain.emulator.vertex.training_service import TrainingService

    service = TrainingService(tmp_path / "home", "process")
    with (
        serving_grpc(service, tmp_path / "home", "p", lambda _text: None) as place,
        grpc.insecure_channel(f"unix:{place}") as channel,
    ):
        call = channel.unary_unary("/google.cloud.aiplatform.v1.PipelineService/CreateTrainingPipeline")
        for inputs in (
            nested(900),
            nested(20_000),
            b"\x11\x00\x00\x00\x00\x00\x00\xf0\x7f",
            b"\x1a\x03\xed\xa0\x80",
            b"\xff",
        ):
            with pytest.raises(grpc.RpcError) as raised:
                call(field(1, PARENT.encode()) + field(2, field(2, b"a") + field(5, inputs)), timeout=60)
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT, raised.value
            assert len(raised.value.details()) > 10


def field(number: int, content: bytes) -> bytes:
    """A field of a message, as Protocol Buffers write it."""
    length, size = len(content), b""
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + content


def nested(levels: int) -> bytes:
    """A value of lists in lists."""
    value = b"\x08\x00"
    for _ in range(levels):
        value = field(6, field(1, value))
    return value
