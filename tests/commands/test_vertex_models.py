"""`vtrain models` and the registry of Vertex AI: the requests are gcloud's."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lib.vertex_service import VertexService

from vtrain.messages.model import Model, ModelContainerSpec, ModelTarget
from vtrain.messages.structs import Query
from vtrain.runtime.model_registry import ModelRegistry

PARENT = "projects/demo/locations/us-central1"
NAME = f"{PARENT}/models/digits"
UPLOAD = ("upload", "--display-name=Digits", "--container-image-uri=gcr.io/demo/serve")
EVERYTHING = (
    *UPLOAD,
    "--artifact-uri=gs://demo/model",
    "--description=a",
    "--version-description=b",
    "--version-aliases=best,newest",
    "--labels=b=1,a=2",
    "--model-id=new",
    "--container-command=python3,-m",
    "--container-args=serve,--fast",
    "--container-env-vars=A=1,B=2",
    "--container-ports=9000,9001",
    "--container-grpc-ports=9002",
    "--container-predict-route=/predict",
    "--container-health-route=/health",
    "--container-deployment-timeout-seconds=60",
    "--container-shared-memory-size-mb=64",
    "--container-startup-probe-exec=cat,/started",
    "--container-startup-probe-period-seconds=3",
    "--container-startup-probe-timeout-seconds=2",
    "--container-health-probe-exec=cat,/well",
    "--container-health-probe-period-seconds=5",
    "--container-health-probe-timeout-seconds=4",
)
EXPLAINED = (*UPLOAD, "--explanation-metadata-file=metadata.json")
LINES = [
    EVERYTHING,
    (*UPLOAD, f"--parent-model={NAME}"),
    (*EXPLAINED, "--explanation-method=sampled-shapley", "--explanation-path-count=3"),
    (
        *EXPLAINED,
        "--explanation-method=xrai",
        "--explanation-step-count=5",
        "--smooth-grad-noise-sigma=0.5",
        "--smooth-grad-noisy-sample-count=2",
    ),
    (
        *EXPLAINED,
        "--explanation-method=integrated-gradients",
        "--explanation-step-count=5",
        "--smooth-grad-noise-sigma-by-feature=a=0.5,b=1",
    ),
    ("list",),
    ("list", "--limit=1", "--format=json"),
    ("list-version", "digits"),
    ("describe", "digits"),
    ("describe", "digits@2", "--format=yaml"),
    ("delete-version", "digits@2"),
    ("copy", f"--source-model={NAME}@1", "--region=europe-west4", "--destination-model-id=copied"),
    (
        *("copy", f"--source-model={NAME}@1", f"--destination-parent-model={NAME}"),
        "--kms-key-name=projects/demo/locations/us-central1/keyRings/r/cryptoKeys/k",
    ),
]


@pytest.fixture
def registry(vertex: VertexService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VertexService:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "metadata.json").write_text(
        '{"inputs": {"x": {"inputTensorName": "x"}}, "outputs": {"y": {"outputTensorName": "y"}}}'
    )
    artifacts = vertex.home / "buckets" / "demo" / "model"
    artifacts.mkdir(parents=True)
    (artifacts / "model.pkl").touch()
    keep_two_versions(vertex)
    return vertex


def keep_two_versions(vertex: VertexService) -> None:
    """One model, and no other."""
    serving = ModelContainerSpec(image_uri="gcr.io/demo/serve")
    models = ModelRegistry(vertex.home, "us-central1")
    for model in models.list_models(Query()).models:
        models.delete_model(model.name)
    first = Model(display_name="Digits", container_spec=serving)
    kept = models.upload(first, ModelTarget(model_id="digits"))
    second = msgspec.structs.replace(first, version_aliases=("best",))
    models.upload(second, ModelTarget(parent=kept.name))


@pytest.mark.gcloud
@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line)[:60])
def test_the_same_requests_and_output_as_gcloud(
    registry: VertexService, vtrain: Any, tmp_path: Path, line: tuple[str, ...]
) -> None:
    environment = {
        **os.environ,
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_PROJECT": "demo",
        "CLOUDSDK_AI_REGION": "us-central1",
    }
    theirs = subprocess.run(
        ["gcloud", "ai", "models", *line], env=environment, capture_output=True, text=True
    )
    assert theirs.returncode == 0, theirs.stderr
    their_requests = [sent(request) for request in registry.requests]
    registry.requests.clear()
    keep_two_versions(registry)
    ours = vtrain("models", *line)
    assert ours.code == 0, ours.err
    assert [sent(request) for request in registry.requests] == their_requests
    assert timeless(ours.out) == timeless(theirs.stdout)


def timeless(text: str) -> str:
    """The text without the times at which a model was kept."""
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)


def sent(request: Any) -> tuple[Any, ...]:
    """A request as it is compared; the size of a page is the client's own matter."""
    query = {key: value for key, value in request.query.items() if key != "pageSize"}
    return request.method, request.path, query, request.body


def test_an_upload_waits_until_it_is_done(registry: VertexService, vtrain: Any) -> None:
    registry.polls_until_done = 2
    ended = vtrain("models", *UPLOAD, "--model-id=new", "--format=json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out) == {"model": f"{PARENT}/models/new", "modelVersionId": "1"}
    assert [request.method for request in registry.requests] == ["POST", "GET", "GET"]
    assert registry.connections == 1


def test_an_upload_is_sent_once(registry: VertexService, vtrain: Any) -> None:
    registry.drop("POST", handled=True)
    ended = vtrain("models", *UPLOAD)
    assert ended.code != 0 and "Whether the model was uploaded is not known" in ended.err
    assert len(registry.requests) == 1
    registry.fail(429, method="POST")
    assert vtrain("models", *UPLOAD).code == 0


def test_a_failed_operation_is_told(registry: VertexService, vtrain: Any) -> None:
    error = {"code": 9, "message": "Model directory gs://demo is expected to contain at least one of […]"}
    operation = {"name": f"{PARENT}/models/1/operations/2", "done": True, "error": error}
    registry.answer(json.dumps(operation).encode(), method="POST")
    ended = vtrain("models", *UPLOAD)
    assert ended.code == 1 and "is expected to contain" in ended.err


def test_a_delete_does_not_wait(registry: VertexService, vtrain: Any) -> None:
    registry.polls_until_done = 5
    ended = vtrain("models", "delete", "digits")
    assert (ended.code, ended.out) == (0, "")
    assert f"Model [{NAME}] is being deleted" in ended.err
    assert [request.method for request in registry.requests] == ["DELETE"]


def test_what_is_missing_is_told(registry: VertexService, vtrain: Any) -> None:
    ended = vtrain("models", "describe", "other")
    assert ended.code == 1 and "vtrain models list --project=demo --region=us-central1" in ended.err


def test_all_pages_are_listed(registry: VertexService, vtrain: Any) -> None:
    first = {"models": [{"name": f"{PARENT}/models/1"}], "nextPageToken": "0"}
    registry.answer(json.dumps(first).encode(), method="GET")
    listed = vtrain("models", "list", "--format=value(name.basename())").out.split()
    assert listed == ["1", "digits"]
    assert registry.requests[1].query["pageToken"] == "0"
