from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from lib.dripping import DRIPS, answering
from lib.logging_service import serve_logs
from lib.privileges import run_bound
from lib.serving import serving
from lib.vertex_jobs import PARENT, settings_at

pytest.importorskip("google.auth")

from google.auth import exceptions
from google.auth.credentials import AnonymousCredentials

from vtrain import http_session
from vtrain.backends import ServiceAccess
from vtrain.backends.vertex import retries
from vtrain.backends.vertex.credentials import find_credentials, refused_credentials
from vtrain.backends.vertex.service_session import make_session
from vtrain.backends.vertex.vertex_backend import open_vertex
from vtrain.errors import CredentialsError, ServiceAwayError

USER = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}


@pytest.fixture(autouse=True)
def folder(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """gcloud's folder, on a machine that is not Google's."""
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    folder = own_home / "gcloud"
    (folder / "configurations").mkdir(parents=True)
    return folder


def key_of(account: str) -> dict[str, str]:
    """A service account's key file, with a key that was made for it."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return {
        "type": "service_account",
        "client_email": account,
        "private_key": key.decode(),
        "token_uri": "http://127.0.0.1:9/token",
    }


def keep(file: Path, document: dict[str, str]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document))
    return file


def refresh_token(credentials: Any) -> str:
    return str(credentials.refresh_token)


def test_no_credentials_are_a_sentence_and_the_command_that_mends_it() -> None:
    with pytest.raises(CredentialsError, match="There are no credentials for Google Cloud") as caught:
        find_credentials(ServiceAccess())
    assert caught.value.hint == "$ gcloud auth application-default login"


def test_they_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true")
    access = ServiceAccess(impersonate_service_account="a@b", access_token_file="/nowhere")
    assert isinstance(find_credentials(access), AnonymousCredentials)


def test_the_order_in_which_files_are_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "configurations" / "config_default").write_text("[core]\naccount = me@example.com\n")
    keep(folder / "legacy_credentials" / "me@example.com" / "adc.json", USER | {"refresh_token": "gcloud's"})
    assert refresh_token(find_credentials(ServiceAccess())) == "gcloud's"
    keep(folder / "application_default_credentials.json", USER | {"refresh_token": "default"})
    assert refresh_token(find_credentials(ServiceAccess())) == "default"
    other = keep(folder / "other.json", USER | {"refresh_token": "environment"})
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(other))
    assert refresh_token(find_credentials(ServiceAccess())) == "environment"
    override = keep(folder / "override.json", USER | {"refresh_token": "override"})
    monkeypatch.setenv("CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE", str(override))
    assert refresh_token(find_credentials(ServiceAccess())) == "override"


def test_an_access_token_comes_first(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(folder / "application_default_credentials.json", USER)
    (tmp_path / "property").write_text("from-property\n")
    (tmp_path / "flag").write_text(" from-flag\n")
    monkeypatch.setenv("CLOUDSDK_AUTH_ACCESS_TOKEN_FILE", str(tmp_path / "property"))
    assert find_credentials(ServiceAccess()).token == "from-property"
    assert find_credentials(ServiceAccess(access_token_file=str(tmp_path / "flag"))).token == "from-flag"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b" \n", "no access token"),
        (b"\xff", "text"),
        (b"one\ntwo\n", "more than a token"),
        ("t\u00f6ken".encode(), "more than a token"),
    ],
)
def test_a_bad_token_file(tmp_path: Path, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    with pytest.raises(CredentialsError, match=words) as caught:
        find_credentials(ServiceAccess(access_token_file=str(tmp_path / "token")))
    assert "--access-token-file" in caught.value.message
    assert caught.value.hint == "$ gcloud auth print-access-token > FILE"


@pytest.mark.parametrize(
    "content",
    [None, "no json", "{}", '{"type": "service_account"}', '{"type": "x"}', "[]", "[" * 100_000],
    ids=range(7),
)
def test_a_bad_credentials_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None) -> None:
    file = tmp_path / "key.json"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with pytest.raises(CredentialsError, match="from GOOGLE_APPLICATION_CREDENTIALS") as caught:
        find_credentials(ServiceAccess())
    assert ("no such file" in caught.value.message) == (content is None)


def test_a_credentials_file_of_somebody_else(tmp_path: Path) -> None:
    file = keep(tmp_path / "key.json", USER)
    file.chmod(0)
    ended = run_bound(
        [sys.executable, "-m", "vtrain", "custom-jobs", "list", "--region=us-central1", "--project=demo"],
        {**os.environ, "GOOGLE_APPLICATION_CREDENTIALS": str(file)},
    )
    assert ended.returncode == 1
    assert f"The credentials of {file} (from GOOGLE_APPLICATION_CREDENTIALS) cannot be read: " in ended.stderr
    assert "Permission denied." in ended.stderr


def test_the_account_that_is_named_is_used_and_no_other(folder: Path) -> None:
    keep(folder / "application_default_credentials.json", key_of("robot@example.com"))
    keep(folder / "legacy_credentials" / "me@example.com" / "adc.json", USER)
    named = find_credentials(ServiceAccess(account="robot@example.com"))
    assert getattr(named, "service_account_email", "") == "robot@example.com"
    assert refresh_token(find_credentials(ServiceAccess(account="me@example.com"))) == "r"
    with pytest.raises(CredentialsError, match=r"no credentials of you@example\.com") as caught:
        find_credentials(ServiceAccess(account="you@example.com"))
    assert caught.value.hint == "$ gcloud auth login you@example.com"


def test_the_project_that_is_billed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(folder / "application_default_credentials.json", USER)

    def billed(**access: str) -> str | None:
        project = getattr(find_credentials(ServiceAccess(**access)), "quota_project_id", None)  # type: ignore[arg-type]
        assert project is None or isinstance(project, str)
        return project

    assert billed() is None
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "at-work")
    assert billed() == "at-work"
    monkeypatch.setenv("CLOUDSDK_BILLING_QUOTA_PROJECT", "from-property")
    assert billed() == "from-property"
    assert billed(billing_project="from-flag") == "from-flag"
    monkeypatch.setenv("CLOUDSDK_BILLING_QUOTA_PROJECT", "LEGACY")
    assert billed() is None


def test_impersonation_takes_the_last_of_a_chain(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(folder / "application_default_credentials.json", USER)
    chain = find_credentials(ServiceAccess(impersonate_service_account="a@x, b@x,c@x"))
    assert getattr(chain, "service_account_email", "") == "c@x"
    assert getattr(chain, "_delegates", None) == ["a@x", "b@x"]
    monkeypatch.setenv("CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT", "d@x")
    assert getattr(find_credentials(ServiceAccess()), "service_account_email", "") == "d@x"


def test_nothing_is_warned_of(folder: Path) -> None:
    keep(folder / "application_default_credentials.json", USER)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        find_credentials(ServiceAccess())


@pytest.mark.parametrize(
    ("error", "words", "hint"),
    [
        (exceptions.RefreshError("invalid_grant: Token has expired", {}), "do not count", "default login"),
        (exceptions.ReauthFailError("Reauthentication is needed."), "do not count", "default login"),
        (
            exceptions.RefreshError("Unable to acquire impersonated credentials", "{}"),
            "impersonated",
            "TokenCreator",
        ),
        (
            exceptions.RefreshError("The credentials do not contain the necessary fields."),
            "token",
            "print-access",
        ),
    ],
)
def test_refused_credentials(error: exceptions.GoogleAuthError, words: str, hint: str) -> None:
    refusal = refused_credentials(error)
    assert words in refusal.message and "\n" not in refusal.message
    assert hint in refusal.hint


def test_a_session_carries_what_the_command_line_says(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text("secret")
    access = ServiceAccess(
        access_token_file=str(tmp_path / "token"), billing_project="payer", trace_token="t", log_http=True
    )
    with serve_logs() as service:
        make_session(access).post(f"{service.url}v2/entries:list", json={"filter": 'a="b"', "pageSize": 1})
        (headers,) = service.headers
        assert headers["authorization"] == "Bearer secret"
        assert headers["x-goog-user-project"] == "payer"
        assert headers["Cookie"] == "t"
        assert service.targets == ["/v2/entries:list"]
    shown = capfd.readouterr().err
    assert "POST http://127.0.0.1" in shown and "secret" not in shown


class _Metadata(BaseHTTPRequestHandler):
    """A Google machine's metadata server: an account `default` with a token."""

    def do_GET(self) -> None:
        token = {"access_token": "machine-token", "expires_in": 3600, "token_type": "Bearer"}
        account = {"email": "robot@example.com", "scopes": [], "aliases": ["default"]}
        answer = token if "token" in self.path else account if "service-accounts" in self.path else None
        data = json.dumps(answer).encode() if answer else b"googleapis.com"
        self.send_response(200)
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Type", "application/json" if answer else "text/plain")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def metadata() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Metadata)
    with serving(server):
        yield f"127.0.0.1:{server.server_port}"


FETCH = """
import google.auth.transport.requests
from vtrain import http_session
from vtrain.backends import ServiceAccess
from vtrain.backends.vertex import retries
from vtrain.backends.vertex.vertex_backend import open_vertex
from vtrain.backends.vertex.credentials import find_credentials
credentials = find_credentials(ServiceAccess())
credentials.refresh(google.auth.transport.requests.Request())
print(credentials.token)
"""


def test_the_account_of_a_google_machine(metadata: str) -> None:
    environment = {
        **os.environ,
        "GCE_METADATA_HOST": metadata,
        "GCE_METADATA_IP": metadata,
        "NO_GCE_CHECK": "",
    }
    ended = subprocess.run(
        [sys.executable, "-c", FETCH], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (ended.stdout, ended.stderr) == ("machine-token\n", "")


def test_a_metadata_server_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("NO_GCE_CHECK", "")
        monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{silent.getsockname()[1]}")
        started = time.monotonic()
        with pytest.raises(CredentialsError):
            find_credentials(ServiceAccess())
        assert time.monotonic() - started < 60


SLOW_TOKENS = {**DRIPS, "silence": (b"", b"")}


@pytest.mark.parametrize("slow", SLOW_TOKENS)
def test_a_token_service_that_never_answers_whole_is_given_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    """google-auth's own time-outs hold for each read: a byte now and then passes them for ever."""
    monkeypatch.setattr(http_session, "TOKEN_SECONDS", 0.3)
    monkeypatch.setattr(retries, "ATTEMPTS", 1)
    with answering(*SLOW_TOKENS[slow]) as address:
        key = {**key_of("a@demo.iam.gserviceaccount.com"), "token_uri": f"http://{address}/token"}
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(keep(folder / "key.json", key)))
        backend = open_vertex(settings_at(folder))
        for verb in (backend.sign_in, lambda: backend.get(f"{PARENT}/customJobs/1")):
            with pytest.raises(ServiceAwayError) as raised:
                verb()
            assert raised.value.message == (
                "No token could be had: the token service did not answer within 0.3 s."
            )
            assert "token service" in raised.value.hint
