"""A client of `vtrain emulator storage` that sends too much, too slowly, or without the token."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette", reason="needs the extra emulator")
pytest.importorskip("uvicorn")
pytest.importorskip("google_crc32c")

from lib.storage_service import Http, StorageEndpoint, storage_service

from vtrain.emulator import http_server
from vtrain.emulator.storage import bodies, stores
from vtrain.emulator.storage.guard import Admission

UPLOAD = "/upload/storage/v1/b/good/o"
DEEP = b'{"labels":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001
TOKEN = "the-token-of-this-start"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageEndpoint]:
    with storage_service(tmp_path_factory.mktemp("limits") / "home") as running:
        (running.buckets / "good").mkdir(parents=True)
        (running.buckets / "good" / "mine").write_text("mine")
        yield running


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


def answer_of(connection: socket.socket) -> bytes:
    """All that comes until the service ends the connection."""
    pieces = []
    try:
        while data := connection.recv(65536):
            pieces.append(data)
    except ConnectionResetError:
        pass  # it was ended while we were still sending
    return b"".join(pieces)


def test_a_document_has_a_limit(by_hand: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LARGEST_DOCUMENT", 1000)
    for method, path in (
        ("POST", "/storage/v1/b"),
        ("PATCH", "/storage/v1/b/good/o/mine"),
        ("POST", "/batch"),
        ("POST", f"{UPLOAD}?uploadType=resumable&name=x"),
    ):
        reply = by_hand(method, path, b'{"name": "' + b"x" * 1000 + b'"}')
        assert (reply.status, reply.headers["connection"]) == (413, "close"), path
        by_hand.connection.close()


def test_a_chunk_has_the_length_that_it_says(by_hand: Http) -> None:
    begun = by_hand("POST", f"{UPLOAD}?uploadType=resumable", {"name": "chunk"})
    path = begun.headers["location"].removeprefix(by_hand.url)
    assert by_hand("PUT", path, b"x" * 100, content_range="bytes 0-3/4").status == 413
    by_hand.connection.close()
    assert by_hand("PUT", path, b"1234", content_range="bytes 0-3/4").document["size"] == "4"


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5000, "-1", "1_0", "٣"])
def test_numbers_of_any_length_are_refused_or_ignored(by_hand: Http, number: str) -> None:
    span = {"range": f"bytes={number}-"} if number.isascii() else {}
    assert by_hand("GET", "/storage/v1/b/good/o/mine?alt=media", **span).status in (200, 416)
    begun = by_hand("POST", f"{UPLOAD}?uploadType=resumable", {"name": "number"})
    path = begun.headers["location"].removeprefix(by_hand.url)
    if number.isascii():
        assert by_hand("PUT", path, b"x", content_range=f"bytes 0-{number}/*").status == 400


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/storage/v1/b", DEEP),
        ("/storage/v1/b/good/o/x/compose", b'{"sourceObjects": 5}'),
        ("/storage/v1/b/good/o/x/compose", b'{"sourceObjects": [1, "a", null]}'),
        ("/storage/v1/b/good/o/x/compose", b'{"sourceObjects": [{"name": "mine"}], "destination": 5}'),
        ("/storage/v1/b/good/o/x/compose", b'{"sourceObjects": [{"objectPreconditions": [1]}]}'),
        ("/storage/v1/b/good/o/mine/copyTo/b/good/o/y", DEEP),
        (f"{UPLOAD}?uploadType=resumable", b'{"name": {"a": 1}}'),
        (f"{UPLOAD}?uploadType=resumable", b'{"name": "\\ud800"}'),
    ],
)
def test_documents_of_another_shape_are_refused(by_hand: Http, path: str, body: bytes) -> None:
    assert by_hand("POST", path, body).status == 400


@pytest.mark.parametrize(
    "content_type",
    ["multipart/mixed", "multipart/mixed; boundary=", f"multipart/mixed; boundary={'x' * 71}", "text/plain"],
)
def test_a_batch_has_a_boundary(by_hand: Http, content_type: str) -> None:
    part = b"--x\r\n\r\nGET /storage/v1/b HTTP/1.1\r\n\r\n--x--"
    assert by_hand("POST", "/batch", part, content_type=content_type).status == 400


@pytest.mark.parametrize("target", ["/batch", "/batch/storage/v1", "http://x/batch/storage/v1", "/b%61tch"])
def test_a_batch_has_no_batches(by_hand: Http, target: str) -> None:
    inner = "--y\r\n\r\nGET /storage/v1/b HTTP/1.1\r\n\r\n\r\n--y--"
    part = f"POST {target} HTTP/1.1\r\nContent-Type: multipart/mixed; boundary=y\r\n\r\n{inner}"
    body = f"--x\r\nContent-Type: application/http\r\n\r\n{part}\r\n--x--".encode()
    reply = by_hand("POST", "/batch/storage/v1", body, content_type="multipart/mixed; boundary=x")
    assert reply.status == 200 and b"HTTP/1.1 404 " in reply.body and b"HTTP/1.1 200" not in reply.body


@pytest.mark.parametrize(
    "target",
    [
        "GET /storage/v1/b/good/o/mine?alt=media",
        "GET /storage/v1/b/good/o/mine?alt=json&alt=media",
        "GET /download/storage/v1/b/good/o/mine",
        "POST /upload/storage/v1/b/good/o?uploadType=media&name=x",
        "POST http://127.0.0.1/resumable/upload/storage/v1/b/good/o?uploadType=resumable&name=x",
    ],
)
def test_a_batch_carries_no_content(by_hand: Http, target: str) -> None:
    """A hundred downloads would be held in memory, each of any size."""
    body = f"--x\r\nContent-Type: application/http\r\n\r\n{target} HTTP/1.1\r\n\r\n\r\n--x--".encode()
    reply = by_hand("POST", "/batch/storage/v1", body, content_type="multipart/mixed; boundary=x")
    assert reply.status == 200 and b"HTTP/1.1 400 " in reply.body
    assert b"uploads or downloads no content" in reply.body


def test_a_batch_has_at_most_100_parts_and_none_below_a_part(by_hand: Http) -> None:
    """Parts in parts, ten thousand deep, once ended in a RecursionError."""
    one = b"--x\r\n\r\nGET /storage/v1/b/good HTTP/1.1\r\n\r\n"
    options = {"content_type": "multipart/mixed; boundary=x"}
    assert by_hand("POST", "/batch", one * 100 + b"--x--", **options).status == 200
    assert by_hand("POST", "/batch", one * 101 + b"--x--", **options).status == 400
    assert by_hand("POST", "/batch", one * 200_000, **options).status == 400
    nested = b"".join(
        b"--%d\r\nContent-Type: multipart/mixed; boundary=%d\r\n\r\n" % (number, number + 1)
        for number in range(10_000)
    )
    reply = by_hand("POST", "/batch", nested, content_type="multipart/mixed; boundary=0")
    assert reply.status == 400


def test_a_part_of_a_batch_has_no_host_and_no_credentials_of_its_own(by_hand: Http) -> None:
    inner = b"GET /storage/v1/b/good HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Basic eDp5\r\n\r\n"
    reply = by_hand(
        "POST", "/batch", b"--x\r\n\r\n" + inner + b"--x--", content_type="multipart/mixed; boundary=x"
    )
    assert reply.status == 200
    assert b"evil.example" not in reply.body and b"x:y@" not in reply.body


def test_an_upload_that_drips_ends(
    endpoint: StorageEndpoint, by_hand: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "STALL_SECONDS", 0.3)
    for path in (f"{UPLOAD}?uploadType=media&name=drip", "/storage/v1/b"):
        with connect(endpoint.url) as connection:
            connection.settimeout(0.05)
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
            connection.sendall(head.encode())
            answer = b""
            while not answer:
                try:
                    connection.sendall(b"x")
                    answer = connection.recv(65536)
                except TimeoutError:
                    continue
        assert answer.startswith(b"HTTP/1.1 408")
    assert by_hand("GET", "/storage/v1/b/good/o/drip").status == 404


def test_headers_have_a_limit(endpoint: StorageEndpoint, by_hand: Http) -> None:
    for endless in (b"X-A: " + b"a" * 1000 + b"\r\n", b"a", b"X-A: a\r\n"):
        with connect(endpoint.url) as connection:
            line = b"GET /storage/v1/b HTTP/1.1\r\nHost: localhost\r\n"
            try:
                connection.sendall(line + (b"X-B: " if endless == b"a" else b""))
                for _ in range(40):
                    connection.sendall(endless * (65536 // len(endless)))
            except (BrokenPipeError, ConnectionResetError):
                continue
            assert answer_of(connection).startswith(b"HTTP/1.1 400")
    assert by_hand("GET", "/storage/v1/b").status == 200


def test_headers_that_drip_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.3)
    with storage_service(tmp_path) as running, connect(running.url) as silent, connect(running.url) as slow:
        slow.settimeout(0.05)
        slow.sendall(b"GET /storage/v1/b HTTP/1.1\r\nHost: localhost\r\nX: ")
        ended = False
        while not ended:
            try:
                slow.sendall(b"x")
                ended = slow.recv(100) == b""
            except TimeoutError:
                continue
            except OSError:
                ended = True
        assert silent.recv(100) == b""


def test_uploads_that_never_go_on_hold_no_files_and_end(
    endpoint: StorageEndpoint, by_hand: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "MOST_SESSIONS", 20)
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir())) if descriptors.is_dir() else 0
    begun = [
        by_hand("POST", f"{UPLOAD}?uploadType=resumable", {"name": f"u{n}"}).headers["location"]
        for n in range(50)
    ]
    after = len(list(descriptors.iterdir())) if descriptors.is_dir() else 0
    assert after - before < 20
    assert len(list((endpoint.home / "storage" / "uploads").glob("*/*"))) <= 20
    states = [
        by_hand("PUT", url.removeprefix(by_hand.url), b"", content_range="bytes */4").status for url in begun
    ]
    assert states == [404] * 30 + [308] * 20


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageEndpoint]:
    """A service that was started with a token."""
    home = tmp_path_factory.mktemp("locked") / "home"
    with storage_service(home, Admission(token=TOKEN)) as running:
        (running.buckets / "good").mkdir(parents=True)
        (running.buckets / "good" / "mine").write_text("mine")
        yield running


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        ("", 401),
        ("Bearer", 401),
        ("Bearer wrong", 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        (basic(f"token:{TOKEN}"), 200),
        (basic(f"anybody:{TOKEN}"), 200),
        (basic(TOKEN), 401),
        (basic("token:wrong"), 401),
        ("Basic ü", 401),
        ("Basic !!!", 401),
    ],
)
def test_the_token_lets_in(locked: StorageEndpoint, authorization: str | None, status: int) -> None:
    by_hand = Http(locked.url)
    headers = {} if authorization is None else {"authorization": authorization}
    for method, path in (("GET", "/storage/v1/b/good/o/mine?alt=media"), ("GET", "/storage/v1/b")):
        assert by_hand(method, path, **headers).status == status
    by_hand.connection.close()


@pytest.mark.parametrize("address", [f"http://token:{TOKEN}@HOST", f"http://HOST/{TOKEN}"])
def test_google_s_client_needs_no_more_than_the_address(
    locked: StorageEndpoint, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    by_hand = pytest.importorskip("google.cloud.storage", reason="needs the extra vertex")
    from google.auth.credentials import AnonymousCredentials

    address = address.replace("HOST", locked.url.removeprefix("http://"))
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
    client: Any = by_hand.Client(project="demo", credentials=AnonymousCredentials())
    blob = client.bucket("good").blob("new", chunk_size=256 * 1024)
    blob.upload_from_string(b"x" * 600_000)  # resumable, at an address that the service chooses
    assert client.bucket("good").get_blob("new").download_as_bytes() == b"x" * 600_000
    with client.batch():
        client.bucket("good").delete_blob("new")
    assert [found.name for found in client.list_blobs("good")] == ["mine"]
    client.close()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", locked.url)
    refused: Any = by_hand.Client(project="demo", credentials=AnonymousCredentials())
    with pytest.raises(Exception, match="Anonymous credentials"):
        list(refused.list_blobs("good"))
    refused.close()


def test_answers_hold_the_token_for_those_who_have_it_in_the_address(
    locked: StorageEndpoint,
) -> None:
    by_hand = Http(locked.url)
    bearer = by_hand("GET", "/storage/v1/b/good/o/mine", authorization=f"Bearer {TOKEN}")
    assert TOKEN not in json.dumps(bearer.document)
    address = by_hand("GET", "/storage/v1/b/good/o/mine", authorization=basic(f"token:{TOKEN}"))
    assert address.document["mediaLink"].startswith(f"http://token:{TOKEN}@127.0.0.1")
    path = by_hand("GET", f"/{TOKEN}/storage/v1/b/good/o/mine").document
    assert path["mediaLink"].startswith(f"{locked.url}/{TOKEN}/download/storage/v1/b/good/o/mine?")
    by_hand.connection.close()
