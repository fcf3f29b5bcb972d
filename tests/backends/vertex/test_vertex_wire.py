"""Headers, parameters and `--log-http`: what every request carries."""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.vertex_jobs import CUSTOM_JOB, PARENT, settings_at
from lib.vertex_service import VertexService

from vtrain.backends import ServiceAccess
from vtrain.backends.vertex.api import service_endpoint
from vtrain.backends.vertex.vertex_backend import VertexBackend, open_vertex


def test_enums_are_asked_for_by_name(vertex: VertexService, backend: VertexBackend) -> None:
    backend.submit(backend.plan(CUSTOM_JOB))
    assert vertex.requests[0].query == {"alt": "json"}


def test_billing_project_and_trace_token(vertex: VertexService, tmp_path: Path) -> None:
    access = ServiceAccess(billing_project="payer", trace_token="a b")
    backend = open_vertex(settings_at(tmp_path, access))
    backend.submit(backend.plan(CUSTOM_JOB))
    request = vertex.requests[0]
    assert request.headers["x-goog-user-project"] == "payer"
    assert request.headers["cookie"] == "a b"
    assert request.query == {"alt": "json"}


def test_log_http_shows_all_but_what_gives_access(
    vertex: VertexService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret-token\n")
    monkeypatch.delenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS")
    access = ServiceAccess(log_http=True, access_token_file=str(token))
    backend = open_vertex(settings_at(tmp_path, access))
    made = backend.submit(backend.plan(CUSTOM_JOB))
    assert vertex.requests[0].headers["authorization"] == "Bearer s3cret-token"
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "s3cret" not in shown.err
    assert f">> POST {vertex.url}v1/{PARENT}/customJobs?alt=json" in shown.err
    assert ">> authorization: (not shown)" in shown.err.lower()
    assert '"displayName": "train"' in shown.err
    assert "<< 200 OK" in shown.err
    assert made.name in shown.err


def test_one_connection_is_kept(vertex: VertexService, backend: VertexBackend) -> None:
    made = backend.submit(backend.plan(CUSTOM_JOB))
    for _ in range(3):
        backend.get(made.name)
    assert vertex.connections == 1


def test_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    assert service_endpoint("europe-west4") == "https://europe-west4-aiplatform.googleapis.com"
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", "http://127.0.0.1:1/")
    assert service_endpoint("europe-west4") == "http://127.0.0.1:1"
