"""What the service says no with: its own words, the class of error, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lib.vertex_jobs import CUSTOM_JOB, PARENT, settings_at
from lib.vertex_service import VertexService

from vtrain.backends import ServiceAccess
from vtrain.backends.vertex import retries
from vtrain.backends.vertex.vertex_backend import VertexBackend, open_vertex
from vtrain.errors import (
    ConfigError,
    ConflictError,
    CredentialsError,
    NotFoundError,
    ServiceAwayError,
    ServiceError,
    VtrainError,
)

JOB = f"{PARENT}/customJobs/1"
DISABLED: list[dict[str, Any]] = [
    {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED", "domain": "x"}
]
UNKNOWN_PROJECT: list[dict[str, Any]] = [
    {
        "@type": "type.googleapis.com/google.rpc.Help",
        "links": [{"description": "Console", "url": "https://console.developers.google.com"}],
    },
    {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "CONSUMER_INVALID",
        "domain": "googleapis.com",
        "metadata": {"service": "aiplatform.googleapis.com", "consumer": "projects/demo"},
    },
]
VIOLATIONS: list[dict[str, Any]] = [
    {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{"field": "job_spec.worker_pool_specs", "description": "required"}],
    }
]
CASES = [
    pytest.param(400, "Bad thing.", None, ServiceError, "INVALID_ARGUMENT: Bad thing.", "", id="plain"),
    pytest.param(
        400,
        "Invalid.",
        VIOLATIONS,
        ServiceError,
        "INVALID_ARGUMENT: Invalid.\n  job_spec.worker_pool_specs: required",
        "",
        id="violations",
    ),
    pytest.param(
        400,
        "List of found errors:\t1.Field: job_spec.worker_pool_specs; Message: required.\t",
        VIOLATIONS,
        ServiceError,
        "INVALID_ARGUMENT: List of found errors:\n  1.Field: job_spec.worker_pool_specs; Message: required.",
        "",
        id="list",
    ),
    pytest.param(
        400,
        "Machine type n9 is not supported.",
        None,
        ServiceError,
        "Machine type n9",
        "machine types",
        id="machine",
    ),
    pytest.param(
        400,
        'Accelerator "NVIDIA_TESLA_K80" is not supported for machine type "n1-standard-4".',
        None,
        ServiceError,
        "NVIDIA_TESLA_K80",
        "accelerators go with",
        id="accelerator",
    ),
    pytest.param(
        400,
        "The region me-west1 is not supported.",
        None,
        ServiceError,
        "me-west1",
        "--region",
        id="region",
    ),
    pytest.param(
        403,
        "Permission 'aiplatform.customJobs.create' denied on resource.",
        None,
        ServiceError,
        "PERMISSION_DENIED",
        "aiplatform.customJobs.create, such as roles/aiplatform.user",
        id="permission",
    ),
    pytest.param(
        403,
        "Permission denied on resource project demo.",
        UNKNOWN_PROJECT,
        ServiceError,
        "PERMISSION_DENIED",
        "The account needs the role roles/aiplatform.user in this project.",
        id="project",
    ),
    pytest.param(
        403,
        "This address is that of an earlier start. Use the variables that `vtrain emulator env` prints.",
        None,
        ServiceError,
        "PERMISSION_DENIED: This address",
        "",
        id="emulator",
    ),
    pytest.param(
        403,
        "Vertex AI API has not been used in project 1 before or it is disabled.",
        DISABLED,
        ServiceError,
        "PERMISSION_DENIED",
        "gcloud services enable aiplatform.googleapis.com",
        id="disabled",
    ),
    pytest.param(
        403,
        "You do not have permission to act as service account (iam.serviceAccounts.actAs).",
        None,
        ServiceError,
        "PERMISSION_DENIED",
        "roles/iam.serviceAccountUser",
        id="act-as",
    ),
    pytest.param(
        404,
        "Gone.",
        None,
        NotFoundError,
        "NOT_FOUND: Gone.",
        "vtrain custom-jobs list --project=demo --region=us-central1",
        id="404",
    ),
    pytest.param(409, "exists", None, ConflictError, "ALREADY_EXISTS: exists", "", id="409"),
    pytest.param(418, "Teapot.", None, ServiceError, "UNKNOWN: Teapot.", "", id="odd"),
]


@pytest.mark.parametrize(("status", "message", "details", "cls", "expected", "hint"), CASES)
def test_refusals(
    vertex: VertexService,
    backend: VertexBackend,
    status: int,
    message: str,
    details: list[dict[str, Any]] | None,
    cls: type[VtrainError],
    expected: str,
    hint: str,
) -> None:
    vertex.fail(status, message, details=details, times=3)
    with pytest.raises(cls) as raised:
        backend.get(JOB)
    assert type(raised.value) is cls
    assert expected in raised.value.message
    assert hint in raised.value.hint
    assert raised.value.exit_code == 1
    if not hint:
        assert raised.value.hint == ""


def test_a_service_that_wants_credentials(
    vertex: VertexService, backend: VertexBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vertex.fail(401, "No.", times=9)
    with pytest.raises(CredentialsError, match="none are sent"):
        backend.get(JOB)
    monkeypatch.delenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS")
    token = tmp_path / "token"
    token.write_text("old")
    access = ServiceAccess(access_token_file=str(token))
    with pytest.raises(CredentialsError, match="does not count any more"):
        open_vertex(settings_at(tmp_path, access)).get(JOB)


@pytest.mark.parametrize(
    ("status", "body", "kind", "expected"),
    [
        (502, b"<html><h1>bad gateway</h1></html>", "text/html", "UNAVAILABLE: 502 Bad Gateway"),
        (502, b"no upstream", "text/plain", "UNAVAILABLE: 502 Bad Gateway: no upstream"),
        (400, b"x" * 999, "text/plain", "INVALID_ARGUMENT: 400 Bad Request: xxxx"),
        (400, b"", "text/plain", "INVALID_ARGUMENT: 400 Bad Request"),
        (404, b'["odd"]', "application/json", 'NOT_FOUND: 404 Not Found: ["odd"]'),
        (400, b'{"error": "odd"}', "application/json", 'INVALID_ARGUMENT: 400 Bad Request: {"error": "odd"}'),
        (400, b'{"odd": 1}', "application/json", 'INVALID_ARGUMENT: 400 Bad Request: {"odd": 1}'),
        (400, b'{"error": {"code": "odd"}}', "application/json", "INVALID_ARGUMENT: 400 Bad Request: {"),
        (400, b'{"error": {"details": ["odd"]}}', "application/json", "INVALID_ARGUMENT: 400 Bad Request: {"),
    ],
)
def test_errors_without_the_envelope(
    vertex: VertexService,
    backend: VertexBackend,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    body: bytes,
    kind: str,
    expected: str,
) -> None:
    monkeypatch.setattr(retries, "ATTEMPTS", 1)
    vertex.answer(body, status=status, headers={"Content-Type": kind})
    with pytest.raises(VtrainError) as raised:
        backend.get(JOB)
    assert raised.value.message.startswith(expected)
    assert "<html" not in raised.value.message
    assert len(raised.value.message) < 400


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"<html>login</html>",
        b"{",
        b"null",
        b'{"name": 5, "jobSpec": "x", "labels": [1]}',
        pytest.param(b'{"a":' * 5000 + b"1" + b"}" * 5000, id="deep"),
    ],
)
def test_answers_of_something_else(vertex: VertexService, backend: VertexBackend, body: bytes) -> None:
    vertex.answer(body)
    with pytest.raises(ServiceError) as raised:
        backend.get(JOB)
    assert "\n" not in raised.value.message
    assert len(vertex.requests) == 1


def test_a_page_that_holds_something_else(vertex: VertexService, backend: VertexBackend) -> None:
    from vtrain.backends import Query

    vertex.answer(b'{"customJobs": {"a": 1}}')
    with pytest.raises(ServiceError, match="no list"):
        backend.list(Query(project="demo"))


def test_an_empty_answer_is_an_empty_object(vertex: VertexService, backend: VertexBackend) -> None:
    vertex.answer(b"")
    backend.cancel(JOB)
    assert vertex.calls() == [f"POST /v1/{JOB}:cancel"]


def test_redirects_are_followed(vertex: VertexService, backend: VertexBackend) -> None:
    vertex.put(JOB, displayName="there")
    there = f"{vertex.url}v1/{JOB}?alt=json"
    vertex.answer(b"", status=302, headers={"Location": there})
    assert backend.get(JOB).display_name == "there"


def test_a_redirected_create_is_not_taken_for_one(vertex: VertexService, backend: VertexBackend) -> None:
    vertex.answer(b"", status=302, headers={"Location": f"{vertex.url}v1/{PARENT}/customJobs"})
    with pytest.raises(ServiceError, match="302 Found"):
        backend.submit(backend.plan(CUSTOM_JOB))
    assert vertex.calls() == [f"POST /v1/{PARENT}/customJobs"]


@pytest.mark.parametrize("status", [300, 304])
def test_an_answer_that_leads_nowhere(vertex: VertexService, backend: VertexBackend, status: int) -> None:
    vertex.answer(b"", status=status)
    with pytest.raises(ServiceError, match=f"{status}"):
        backend.get(JOB)


def test_redirects_in_a_circle(vertex: VertexService, backend: VertexBackend) -> None:
    vertex.answer(b"", status=302, headers={"Location": vertex.url}, times=40)
    with pytest.raises(ServiceError, match="redirects"):
        backend.get(JOB)


def test_a_proxy_that_is_none(
    vertex: VertexService, backend: VertexBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(ServiceError, match=f"The proxy to {vertex.url.rstrip('/')} cannot be used"):
        backend.get(JOB)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("https://127.0.0.1:{port}/", "does not speak TLS"),
        ("http://127.0.0.1:{port}x/", "is not the address of a service"),
        (f"http://{'x' * 64}.test:{{port}}/", "is not the address of a service"),
    ],
)
def test_endpoints_that_lead_elsewhere(
    vertex: VertexService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, override: str, message: str
) -> None:
    port = vertex.url.rstrip("/").rpartition(":")[2]
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", override.format(port=port))
    with pytest.raises(ServiceError) as raised:
        open_vertex(settings_at(tmp_path)).get(JOB)
    assert message.format(port=port) in raised.value.message
    assert "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM" in raised.value.hint


def test_a_service_that_stays_away(vertex: VertexService, backend: VertexBackend) -> None:
    vertex.drop(times=9)
    with pytest.raises(ServiceAwayError, match="closed the connection"):
        backend.get(JOB)


@pytest.mark.parametrize("location", ["me@evil.example\\", "evil.example:80", "evil.example", "-", ""])
def test_a_region_that_would_lead_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    """A region is a part of the host that gets the token."""
    monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true")
    with pytest.raises(ConfigError, match="is not"):
        open_vertex(settings_at(tmp_path)).get(f"projects/demo/locations/{location}/customJobs/1")


def test_a_create_that_is_refused_leaves_nothing(vertex: VertexService, backend: VertexBackend) -> None:
    vertex.fail(400, "Unsupported machine type.")
    with pytest.raises(ServiceError, match="Unsupported machine type"):
        backend.submit(backend.plan(CUSTOM_JOB))
    assert len(vertex.requests) == 1


@pytest.mark.parametrize("status", [400, 404])
def test_a_display_name_in_place_of_an_id(vertex: VertexService, backend: VertexBackend, status: int) -> None:
    vertex.fail(status, "No.")
    with pytest.raises(VtrainError) as raised:
        backend.get(f"{PARENT}/customJobs/digits")
    listing = "vtrain custom-jobs list --project=demo --region=us-central1 --filter=displayName=digits"
    assert raised.value.hint.endswith(listing)
