"""The attack list against the server of a job: its storage, its log, its metadata server, and its proxy."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import pytest
from lib.storage_service import Http, Reply

pytest.importorskip("starlette", reason="needs the extra emulator")
pytest.importorskip("uvicorn")

from vtrain.backends.job_storage import stop_serving, storage_variables
from vtrain.runtime.folder import JobFolder

VERTEX = "us-central1-aiplatform.googleapis.com"
LOGGING, STORAGE = "logging.googleapis.com", "storage.googleapis.com"
METADATA = "/computeMetadata/v1/"
TOKEN = f"{METADATA}instance/service-accounts/default/token"
ENTRIES = "/v2/entries:write"
OPENED = [
    ("GET", TOKEN, None, ""),
    ("GET", f"{METADATA}project/project-id", None, ""),
    ("GET", "/storage/v1/b/good/o/mine?alt=media", None, ""),
    ("POST", "/upload/storage/v1/b/good/o?uploadType=media&name=stolen", b"x", ""),
    ("DELETE", "/storage/v1/b/good/o/mine", None, ""),
    ("GET", "/good/mine", None, STORAGE),
    ("POST", ENTRIES, b'{"entries": [{"textPayload": "forged"}]}', LOGGING),
    ("POST", "/v2/entries:list", b"{}", LOGGING),
    ("GET", "/v1/projects/p/locations/us-central1/customJobs", None, VERTEX),
]
"""Requests for what the server has: method, path, body, and the host of Google's that is meant."""
NAMES = (
    *("..", "../..", "../../secret", "a/../../../secret", "good/../../secret", "/etc/passwd", "\0", "\ud83d"),
    *(
        "..\\..",
        "%2e%2e",
        "a\r\nX-Evil: 1",
        "~",
        "x" * 2000,
        "../" * 300,
        "//",
        "?",
        "#",
        "http://evil.test/",
    ),
)
NO_ENTRIES = (
    *(b"", b"[]", b"1", b"null", b"{", b"\xff", b"[" * 100_000, b'{"entries": 1}', b'{"entries": [1]}'),
    *(b'{"entries": [{"jsonPayload": %s}]}' % value for value in (b"1", b'"x"', b"[1]", b"null")),
    *(b'{"entries": [{"severity": %s}]}' % value for value in (b"9" * 400, b"-1", b"1e999", b"[]", b"{}")),
    *(b'{"entries": [{"textPayload": %s}]}' % value for value in (b"1", b"{}", b"[[]]", b"null")),
    b'{"entries": {"a": 1}}',
)


class Job(NamedTuple):
    """The server of a job."""

    folder: Path
    token: str
    port: int

    @property
    def url(self) -> str:
        """The address that trainers get from the variables of the metadata server."""
        return f"http://127.0.0.1:{self.port}/{self.token}"

    def answer(self, *head: str) -> bytes:
        """The first of what is answered to a request without a body."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as client:
            client.sendall("\r\n".join([*head, "", ""]).encode())
            return client.recv(1000)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Job, Job]]:
    """Two jobs of a home: the second one's token is that of another user, for the first."""
    top = tmp_path_factory.mktemp("machine")
    (top / "home" / "buckets" / "good").mkdir(parents=True)
    (top / "home" / "buckets" / "good" / "mine").write_text("mine")
    (top / "secret").write_text("secret")
    folders = [JobFolder(top / "home" / "jobs" / str(number)) for number in (1, 2)]
    made = []
    try:
        for folder in folders:
            folder.logs.mkdir(parents=True)
            found = storage_variables(folder, str(top / "home"), "127.0.0.1", bundle="none", emulator_port=1)
            url = urlsplit(found["STORAGE_EMULATOR_HOST"])
            made.append(Job(folder.path, str(url.password), int(url.port or 0)))
        yield made[0], made[1]
    finally:
        for folder in folders:
            stop_serving(folder)


@pytest.fixture
def job(jobs: tuple[Job, Job]) -> Job:
    return jobs[0]


@pytest.fixture
def http(job: Job) -> Iterator[Http]:
    made = Http(job.url)
    yield made
    made.connection.close()


def ask(http: Http, request: tuple[str, str, Any, str], **headers: str) -> Reply:
    method, path, body, host = request
    return http(method, path, body, **({"Host": host} if host else {}), Metadata_Flavor="Google", **headers)


def state(job: Job) -> dict[str, bytes]:
    """All files of the machine but what a server keeps for itself, and the log of the job."""
    found = (path for path in job.folder.parents[2].rglob("*") if path.is_file())
    own = job.folder.parents[1] / "storage", job.folder.parent
    return {str(path): path.read_bytes() for path in found if not any(map(path.is_relative_to, own))}


def lines(job: Job) -> list[Path]:
    return [path for path in (job.folder / "logs").rglob("*") if path.is_file()]


@pytest.mark.parametrize("request_", OPENED, ids=lambda each: f"{each[0]} {each[3]}{each[1]}")
def test_nothing_is_answered_without_the_token_of_the_job(jobs: tuple[Job, Job], request_: Any) -> None:
    job, other = jobs
    before = state(job)
    for path in ("", "/x", f"/{other.token}", f"/{job.token[:-1]}", f"/{job.token}x", f"/%2e/{job.token}"):
        http = Http(f"http://127.0.0.1:{job.port}{path}")
        secrets = ("", "Bearer x", f"Bearer {other.token}", f"Basic {basic(other.token)}", job.token)
        for secret in secrets:
            reply = ask(http, request_, **({"Authorization": secret} if secret else {}))
            assert reply.status in (401, 403), (path, secret, reply)
            assert job.token.encode() not in reply.body
        http.connection.close()
    assert state(job) == before and not lines(job)


def basic(password: str) -> str:
    return base64.b64encode(f"token:{password}".encode()).decode()


def test_its_proxy_leads_nobody_else_anywhere(jobs: tuple[Job, Job]) -> None:
    job, other = jobs
    for host in (VERTEX, LOGGING, STORAGE, "example.com"):
        for secret in ("Basic eDp5", f"Basic {basic(other.token)}", f"Bearer {other.token}", "x"):
            head = f"CONNECT {host}:443 HTTP/1.1", f"Host: {host}:443", f"Proxy-Authorization: {secret}"
            assert job.answer(*head).startswith(b"HTTP/1.1 407 "), (host, secret)


@pytest.mark.parametrize("request_", OPENED, ids=lambda each: f"{each[0]} {each[3]}{each[1]}")
def test_pages_of_the_web_are_refused_by_a_job(job: Job, http: Http, request_: Any) -> None:
    before = state(job)
    for headers in (
        {"Origin": "https://example.com"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{job.port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-origin"},
    ):
        assert ask(http, request_, **headers).status == 403, headers
    for host in ("example.com", "127.0.0.1.example.com", f"{STORAGE}.example.com", "metadata.example.com"):
        assert ask(http, (*request_[:3], host)).status == 403, host
    assert state(job) == before and not lines(job)


@pytest.mark.parametrize("headers", [{}, {"Metadata-Flavor": "other"}], ids=str)
def test_the_metadata_server_answers_who_asks_for_it(http: Http, headers: dict[str, str]) -> None:
    """A trainer that fetches the addresses of others, as from a data set, does not hand out its token."""
    for path in (TOKEN, f"{METADATA}project/project-id"):
        assert http("GET", path, **headers).status == 403
        assert http("GET", path, Metadata_Flavor="Google").status == 200
        assert http("GET", path, Metadata_Flavor="Google", X_Forwarded_For="10.0.0.1").status == 403


def test_no_name_leads_out_of_what_a_job_has(job: Job, http: Http) -> None:
    before = state(job)
    for name in NAMES:
        part = quote(name, safe="", errors="surrogatepass")
        for method, path, body, host in (
            ("GET", f"{METADATA}{part}", None, ""),
            ("GET", f"{METADATA}instance/service-accounts/{part}/token", None, ""),
            ("GET", f"{METADATA}instance/service-accounts/{part}/?recursive=true", None, ""),
            ("GET", f"/{part}", None, STORAGE),
            ("GET", f"/{part}/secret", None, STORAGE),
            ("GET", f"/good/{part}", None, STORAGE),
            ("HEAD", f"/good/{part}", None, STORAGE),
            ("PUT", f"/{part}/secret", b"evil", STORAGE),
            ("DELETE", f"/{part}/secret", None, STORAGE),
            ("GET", f"/v2/{part}", None, LOGGING),
            ("POST", f"/v2/entries:{part}", b"{}", LOGGING),
            ("GET", f"/v1/{part}", None, VERTEX),
        ):
            reply = ask(http, (method, path, body, host))
            assert reply.status < 500, (method, path, host, reply)
            assert reply.body != b"secret" and "x-evil" not in reply.headers
    assert state(job) == before


def test_what_is_no_list_of_entries_is_no_line_of_the_log(job: Job, http: Http) -> None:
    for body in NO_ENTRIES:
        reply = ask(http, ("POST", ENTRIES, body, LOGGING))
        assert (reply.status, 10 < len(reply.document["error"]["message"]) < 1000) == (400, True), body[:50]
    large = json.dumps({"entries": [{"textPayload": "x" * (11 << 20)}]}).encode()
    for path in (ENTRIES, "/v2/entries:list"):
        assert ask(http, ("POST", path, large, LOGGING)).status == 413
        http.connection.close()
    assert not lines(job)
    assert ask(http, ("POST", ENTRIES, b'{"entries": [{"logName": "../../x", "textPayload": "y"}]}', LOGGING))
    assert {path.parent for path in lines(job)} == {job.folder / "logs"}
