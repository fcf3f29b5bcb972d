"""A bucket that drips, or whose list does not end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

import pytest
from lib.dripping import BODY, DRIPS, answering
from lib.serving import serving

pytest.importorskip("google.cloud.storage", reason="needs the extra vertex")

from lib.storage_relay import QUICK
from msgspec.structs import replace

from vtrain import http_session
from vtrain.errors import CredentialsError, StorageError
from vtrain.staging import transfer
from vtrain.staging.cloud import CloudBuckets


def nobody() -> object:
    raise AssertionError("an emulator needs no credentials")


@pytest.fixture(params=["the same page", "ever new pages"])
def endless(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A service whose lists do not end; the requests that it got."""
    seen: list[str] = []
    numbers = count()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            seen.append(self.path)
            token = "again" if request.param == "the same page" else f"t{next(numbers)}"
            body = json.dumps({"nextPageToken": token}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{server.server_address[1]}")
    with serving(server):
        yield seen


def test_a_list_that_does_not_end_is_given_up(
    endless: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "MOST_PAGES", 5)
    (tmp_path / "file").write_text("content")
    buckets = CloudBuckets("demo", "us-central1", nobody, QUICK)
    with pytest.raises(StorageError, match="does not end"):
        buckets.stage_all({tmp_path / "file": "gs://bucket/file"}, lambda _: None)
    assert len(endless) <= 6


def test_a_bucket_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(QUICK, timeout=0.3, give_up_after=0.5)
    with answering(*BODY) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{address}")
        with pytest.raises(StorageError):
            CloudBuckets("demo", "us-central1", nobody, settings).examine("gs://bucket/x")


@pytest.mark.parametrize("slow", [*DRIPS.values(), (b"", b"")], ids=[*DRIPS, "silence"])
def test_a_token_service_that_never_answers_whole_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: tuple[bytes, bytes]
) -> None:
    from google.oauth2.credentials import Credentials

    monkeypatch.setattr(http_session, "TOKEN_SECONDS", 0.3)
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE", "http://127.0.0.1:9/")
    (tmp_path / "file").write_text("content")
    settings = replace(QUICK, give_up_after=0.5)
    with answering(*slow) as address:
        credentials = Credentials(
            None, refresh_token="r", token_uri=f"http://{address}/token", client_id="i", client_secret="s"
        )
        buckets = CloudBuckets("demo", "us-central1", lambda: credentials, settings)
        for act in (
            lambda: buckets.examine("gs://bucket/x"),
            lambda: buckets.stage_all({tmp_path / "file": "gs://bucket/file"}, lambda _: None),
        ):
            with pytest.raises(CredentialsError, match=r"did not answer within 0\.3 s") as raised:
                act()
            assert "token service" in raised.value.hint
