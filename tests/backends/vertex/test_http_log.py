"""`--log-http` shows requests and answers, and nothing that gives access."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from lib.vertex_jobs import CUSTOM_JOB, PARENT, settings_at
from lib.vertex_service import VertexService

from vtrain.backends import ServiceAccess
from vtrain.backends.vertex.service_session import make_session, request_lines, response_lines
from vtrain.backends.vertex.vertex_backend import open_vertex

SECRET = "s3cret-of-the-test"
HEADERS = (
    "Authorization",
    "Cookie",
    "Set-Cookie",
    "Proxy-Authorization",
    "X-Goog-Api-Key",
    "X-Goog-IAM-Authorization-Token",
    "X-Auth-Token",
)
JOB = {"env": [{"name": "DB_PASSWORD", "value": SECRET}], "args": [f"--api-key={SECRET}", "--epochs=3"]}
BODIES = (
    json.dumps({"jobSpec": {"workerPoolSpecs": [{"containerSpec": JOB}]}}),
    json.dumps({"customJobs": [{"jobSpec": {"workerPoolSpecs": [{"pythonPackageSpec": JOB}]}}]}),
    f"no JSON, from postgres://user:{SECRET}@host/db",
)
ADDRESSES = (
    f"http://127.0.0.1/v1/x?key={SECRET}&alt=json",
    f"http://127.0.0.1/v1/x?alt=json&access_token={SECRET}",
    f"http://user:{SECRET}@127.0.0.1/v1/x",
    f"http://127.0.0.1/v1/x?$trace=token:1&trace={SECRET}",
)


def request(url: str = "http://127.0.0.1/v1/x", body: str = "", **headers: str) -> Any:
    return requests.Request("POST", url, data=body, headers=headers).prepare()


def response(body: str = "", **headers: str) -> Any:
    made = requests.Response()
    made.status_code, made.reason, made.elapsed = 200, "OK", timedelta(seconds=1)
    made._content, made.encoding = body.encode(), "utf-8"
    made.headers.update(headers)
    return made


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_give_access_are_named_and_not_shown(name: str) -> None:
    for lines in (request_lines(request(**{name: SECRET})), response_lines(response(**{name: SECRET}))):
        assert SECRET not in lines
        assert f"{name}: (not shown)" in lines


@pytest.mark.parametrize("body", BODIES)
def test_secrets_in_bodies_are_masked(body: str) -> None:
    for lines in (request_lines(request(body=body)), response_lines(response(body))):
        assert SECRET not in lines and "***" in lines


@pytest.mark.parametrize("url", ADDRESSES)
def test_secrets_in_addresses_are_masked(url: str) -> None:
    shown = [request_lines(request(url)), response_lines(response(Location=url))]
    if "user:" not in url:  # of an address with a password, requests makes a header
        assert "***" in shown[0] and "/v1/x" in shown[0]
    assert all(SECRET not in lines for lines in shown) and "***" in shown[1]


def test_what_is_no_secret_is_shown_as_it_was_sent() -> None:
    body = '{ "displayName":"train","labels":{"team":"a"}}'
    lines = request_lines(request("http://127.0.0.1/v1/x?alt=json&pageToken=abc", body, X_Other="seen"))
    assert body in lines and "pageToken=abc" in lines and "X_Other: seen" in lines


@pytest.mark.parametrize("through", ["the API", "our own session"])
def test_the_trace_token_is_not_shown(
    vertex: VertexService, tmp_path: Path, capfd: pytest.CaptureFixture[str], through: str
) -> None:
    access = ServiceAccess(log_http=True, trace_token=SECRET)
    vertex.answer(
        json.dumps({"name": f"{PARENT}/customJobs/1"}).encode(), headers={"Set-Cookie": f"session={SECRET}"}
    )
    if through == "the API":
        backend = open_vertex(settings_at(tmp_path, access))
        backend.submit(backend.plan(CUSTOM_JOB))
    else:
        with make_session(access) as session:
            session.post(f"{vertex.url}v1/{PARENT}/customJobs", json={}, timeout=10)
    assert vertex.requests[0].headers["cookie"] == SECRET
    shown = capfd.readouterr().err
    assert SECRET not in shown
    assert ">> cookie: (not shown)" in shown.lower() and "<< set-cookie: (not shown)" in shown.lower()
