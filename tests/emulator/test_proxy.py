"""The proxy that leads clients of Google's hosts to the emulator: whom it lets through, what it leaves."""

from __future__ import annotations

import asyncio
import base64
import gc
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from lib.waiting import wait_until

import vtrain
from vtrain.emulator import proxy as proxy_module
from vtrain.emulator.certificate import server_tls
from vtrain.emulator.http_server import listen, make_server
from vtrain.emulator.proxy import MOST_TUNNELS, Proxy
from vtrain.emulator.storage.guard import Admission
from vtrain.emulator.storage.storage_app import make_app
from vtrain.https_proxy import direct_hosts, outer_proxy

# Python 3.10 warns where a client resets TLS.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning")
STORAGE, VERTEX = "storage.googleapis.com", "us-central1-aiplatform.googleapis.com"
DESCRIPTORS = Path("/proc/self/fd")
BASIC = "Proxy-Authorization: Basic "
RIGHT, WRONG = (base64.b64encode(f"token:{word}".encode()).decode() for word in ("right", "wrong"))


def connect_head(target: str, *headers: str) -> bytes:
    """The request for a connection."""
    return "\r\n".join([f"CONNECT {target} HTTP/1.1", f"Host: {target}", *headers, "", ""]).encode()


CONNECT = connect_head(f"{VERTEX}:443")


class Served:
    """A running service of Cloud Storage with its proxy."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.bundle = folder / "trusted.pem"
        self.buckets = folder / "home" / "buckets"
        self._contexts: dict[tuple[str, ...], ssl.SSLContext] = {}

    def send(self, head: bytes = b"") -> socket.socket:
        """A new connection, on which this was sent."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        client.sendall(head)
        return client

    def answer(self, head: bytes) -> bytes:
        """All that is answered until the server hangs up."""
        with self.send(head) as client:
            return b"".join(iter(lambda: client.recv(1 << 16), b""))

    def led(self, host: str, *protocols: str, headers: tuple[str, ...] = ()) -> ssl.SSLSocket:
        """A connection to one of Google's hosts, with TLS."""
        client = self.send(connect_head(f"{host}:443", *headers))
        assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
        if protocols not in self._contexts:  # to read the bundle takes longer than to connect
            self._contexts[protocols] = ssl.create_default_context(cafile=str(self.bundle))
            if protocols:
                self._contexts[protocols].set_alpn_protocols(list(protocols))
        return self._contexts[protocols].wrap_socket(client, server_hostname=host)

    def call(self, host: str, head: str, *, headers: tuple[str, ...] = ()) -> bytes:
        """The whole answer to a request of HTTP at one of Google's hosts."""
        with self.led(host, "h2", "http/1.1", headers=headers) as client:
            client.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n")
            client.settimeout(60)
            return b"".join(iter(lambda: client.recv(1 << 16), b""))

    def tunnel(self) -> ssl.SSLSocket:
        """A connection to the server of gRPC, through which a word has gone both ways."""
        client = self.led(VERTEX, "h2")
        client.sendall(b"hello")
        assert client.recv(5) == b"hello"
        return client


@contextmanager
def serving(grpc: Path | None = None, token: str = "") -> Iterator[Served]:
    """The service, with a server of gRPC at this place."""
    with tempfile.TemporaryDirectory() as folder, listen("127.0.0.1", 0) as listener:
        served = Served(listener.getsockname()[1], Path(folder))
        served.buckets.mkdir(parents=True)
        tls = server_tls(Path(folder, "key.pem"), served.bundle)
        admission = Admission(token=token)
        app = make_app(Path(folder, "home"), admission)
        server = make_server(app, Proxy(tls, admission.admits, grpc))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield served
        finally:
            server.should_exit = True
            thread.join()


class Upstream:
    """A server that sends back what it gets, and hangs up when its client does."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.taken = 0
        self.thread = threading.Thread(target=self._accept)
        self.thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.taken += 1
                threading.Thread(target=self.serve, args=(connection,)).start()

    def serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while block := connection.recv(1 << 16):
                connection.sendall(block)

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


class OuterProxy(Upstream):
    """A user's own proxy, which answers for every host by itself."""

    def __init__(self, listener: socket.socket) -> None:
        self.heads: list[bytes] = []
        super().__init__(listener)

    def serve(self, connection: socket.socket) -> None:
        self.heads.append(connection.recv(1 << 16))
        refuses = b"refused.example" in self.heads[-1]
        connection.sendall(b"HTTP/1.1 %s\r\n\r\n" % (b"403 No" if refuses else b"200 OK"))
        super().serve(connection)


@pytest.fixture(autouse=True)
def no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with tempfile.TemporaryDirectory() as folder:  # its path has to be short
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{folder}/server")
        listener.listen(64)
        made = Upstream(listener)
        yield made
        made.close()


@pytest.fixture
def served(upstream: Upstream) -> Iterator[Served]:
    with serving(Path(upstream.listener.getsockname())) as running:
        yield running


@pytest.fixture
def outer(monkeypatch: pytest.MonkeyPatch) -> Iterator[OuterProxy]:
    made = OuterProxy(socket.create_server(("127.0.0.1", 0)))
    port = made.listener.getsockname()[1]
    monkeypatch.setenv("HTTPS_PROXY", f"http://us%40er:pass@127.0.0.1:{port}")
    yield made
    made.close()


def reset(client: socket.socket) -> None:
    """Disappear without a farewell."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def flood_and_reset(client: socket.socket) -> None:
    """Disappear with answers under way that nobody reads."""
    client.settimeout(0.3)
    with suppress(TimeoutError):
        client.sendall(b"x" * (64 << 20))
    reset(client)


def held() -> tuple[int, int]:
    """The descriptors of this process, and the tasks of event loops that have not ended."""
    tasks = [task for task in gc.get_objects() if isinstance(task, asyncio.Task) and not task.done()]
    return len([*DESCRIPTORS.iterdir()]), len(tasks)


def idle(served: Served) -> tuple[int, int]:
    """What is held while the service, which is there, has nobody to serve; maybe a descriptor too many."""
    assert served.answer(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 403 ")
    return held()


def settled(before: tuple[int, int]) -> None:
    """Wait until no more is held than before."""

    def left() -> list[int]:
        return [now - then for now, then in zip(held(), before, strict=True)]

    wait_until(lambda: max(left()) <= 0, lambda: left())


def half_a_hello(served: Served) -> socket.socket:
    """A client that ends in the middle of its first message of TLS."""
    client = served.send(CONNECT)
    assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
    client.sendall(b"\x16\x03\x01\x02\x00\x01")
    return client


WAYS: dict[str, Callable[[Served], None]] = {
    "says nothing": lambda served: served.send().close(),
    "half a request": lambda served: served.send(CONNECT[:20]).close(),
    "resets half a request": lambda served: reset(served.send(CONNECT[:20])),
    "does not wait for the answer": lambda served: reset(served.send(CONNECT)),
    "half a hello": lambda served: half_a_hello(served).close(),
    "resets half a hello": lambda served: reset(half_a_hello(served)),
    "hangs up": lambda served: served.tunnel().close(),
    "resets": lambda served: reset(served.tunnel()),
    "resets HTTP": lambda served: reset(served.led(STORAGE)),
    "is elsewhere": lambda served: reset(served.send(connect_head("a.b.googleapis.com:443"))),
}


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="needs /proc")
@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_disappears_leaves_nothing(
    served: Served, way: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    before = idle(served)
    for _ in range(20):
        WAYS[way](served)
    idle(served)  # whom it takes after all the others
    settled(before)
    assert "Traceback" not in capfd.readouterr().err
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="needs /proc")
def test_a_client_that_disappears_under_a_flood_leaves_nothing(
    served: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    before = idle(served)
    for _ in range(3):
        flood_and_reset(served.tunnel())
    settled(before)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="needs /proc")
def test_a_proxy_that_ends_leaves_no_tunnel(upstream: Upstream, caplog: pytest.LogCaptureFixture) -> None:
    before = held()
    with serving(Path(upstream.listener.getsockname())) as running:
        clients: list[socket.socket] = [running.tunnel() for _ in range(5)]
        clients.append(half_a_hello(running))
    for client in clients:
        client.close()
    settled(before)
    assert [record.getMessage() for record in caplog.records] == []


def test_a_client_that_says_nothing_in_tls_is_left(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = idle(served)
    monkeypatch.setattr(proxy_module, "HELLO_SECONDS", 0.05)
    with half_a_hello(served) as client:
        assert client.recv(1000) == b""
    settled(before)
    assert [record.getMessage() for record in caplog.records] == []


def test_more_clients_than_there_is_room_for_are_told(
    served: Served, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(proxy_module, "MOST_TUNNELS", 2)
    with served.tunnel(), served.tunnel():
        assert served.answer(CONNECT).startswith(b"HTTP/1.1 503 ")
        assert "2 clients are connected" in capfd.readouterr().err


def test_those_that_have_gone_make_room(served: Served, upstream: Upstream) -> None:
    for _ in range(MOST_TUNNELS + 10):
        reset(served.tunnel())
    with served.tunnel():
        assert upstream.taken == MOST_TUNNELS + 11


def test_two_hundred_clients_of_http_at_once(served: Served) -> None:
    with ExitStack() as stack:
        clients = []
        for _ in range(10):
            clients += [stack.enter_context(served.led(STORAGE)) for _ in range(20)]
        for client in clients:
            client.sendall(b"GET /storage/v1/b?project=p HTTP/1.1\r\nHost: storage.googleapis.com\r\n\r\n")
        for client in clients:
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "head",
    [
        b"CONNECT " + b"a" * (1 << 20) + b":443 HTTP/1.1\r\n\r\n",
        CONNECT[:-2] + b"X: " + b"a" * (1 << 20) + b"\r\n\r\n",
        CONNECT[:-2] + b"X: a\r\n" * 100_000 + b"\r\n",
    ],
)
def test_a_head_without_an_end_is_refused(served: Served, head: bytes) -> None:
    with served.send() as client:
        with suppress(OSError):
            client.sendall(head)
        with suppress(ConnectionResetError):
            assert client.recv(1000)[:13] in (b"HTTP/1.1 400 ", b"")


@pytest.mark.parametrize(
    ("target", "status", "sentence"),
    [
        ("a.b.googleapis.com:443", 403, "does not emulate a.b.googleapis.com:443"),
        ("googleapis.com:443", 403, "does not emulate googleapis.com:443"),
        ("accounts.google.com:443", 403, "does not emulate accounts.google.com:443"),
        ("STORAGE.googleapis.com.:80", 403, "does not emulate STORAGE.googleapis.com.:80"),
        ("localhost:443", 403, "does not lead to localhost:443"),
        ("127.0.0.1:22", 403, "does not lead to 127.0.0.1:22"),
        ("127.1:22", 403, "does not lead to 127.1:22"),
        ("0.0.0.0:22", 403, "does not lead to 0.0.0.0:22"),
        ("[::1]:22", 403, "does not lead to [::1]:22"),
        ("[::ffff:127.0.0.1]:22", 403, "does not lead to"),
        ("[::]:22", 403, "does not lead to [::]:22"),
        ("169.254.169.254:80", 403, "does not lead to 169.254.169.254:80"),
        ("[fe80::1]:80", 403, "does not lead to [fe80::1]:80"),
        ("[fd00:ec2::254]:80", 403, "does not lead to [fd00:ec2::254]:80"),
        ("100.100.100.200:80", 403, "does not lead to 100.100.100.200:80"),
        ("example.invalid:443", 502, "example.invalid:443 cannot be reached"),
        ("evilgoogleapis.com.invalid:443", 502, "cannot be reached"),
        ("a" * 300 + ":443", 502, "cannot be reached"),
        ("example.com:0", 400, "HOST:PORT"),
        ("example.com:65536", 400, "HOST:PORT"),
        (":443", 400, "400"),
        ("example.com", 400, "400"),
    ],
)
def test_what_is_not_led_anywhere(
    served: Served, target: str, status: int, sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = served.answer(connect_head(target)).decode()
    assert answer.startswith(f"HTTP/1.1 {status} ") and sentence in answer.partition("\n")[0], answer
    assert capfd.readouterr().err.count(sentence) == (status == 403)


def test_other_hosts_of_google_are_refused_by_the_name_of_the_call(
    served: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    for host in ("bigquery.googleapis.com", VERTEX, "bigquery.googleapis.com"):
        answer = served.call(host, f"POST /v2/x?key=k HTTP/1.1\nHost: {host}\nContent-Length: 0")
        assert answer.startswith(b"HTTP/1.1 405 ")
        assert f"does not emulate POST https://{host}/v2/x.".encode() in answer
    assert b"HTTP/1.1 405 " in served.call(
        "www.googleapis.com", "GET /oauth2/v1/certs HTTP/1.1\nHost: www.googleapis.com"
    )
    said = capfd.readouterr().err.splitlines()
    assert [line.split("https://")[1].split("/")[0] for line in said] == [
        "bigquery.googleapis.com",
        VERTEX,
        "www.googleapis.com",
    ]


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Host: evil.example", 403),
        ("Host: storage.googleapis.com.evil.example", 403),
        ("Host: evilgoogleapis.com", 403),
        ("Host: storage.googleapis.com\nOrigin: https://storage.googleapis.com", 403),
        ("Host: storage.googleapis.com\nSec-Fetch-Site: cross-site", 403),
        ("Host: storage.googleapis.com", 200),
        ("Host: storage.googleapis.com:443", 200),
        ("Host: 127.0.0.1", 200),
    ],
)
def test_the_rules_for_requests_hold_within_tls(served: Served, header: str, status: int) -> None:
    head = f"GET /storage/v1/b?project=p HTTP/1.1\n{header}\nConnection: close"
    assert served.call(STORAGE, head).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_proxy_within_the_proxy_is_refused(served: Served) -> None:
    answer = served.call(STORAGE, "CONNECT example.com:443 HTTP/1.1\nHost: example.com:443")
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_an_address_of_http_is_not_fetched(served: Served) -> None:
    answer = served.answer(
        b"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("X: y", 407),
        (f"{BASIC}!", 407),
        (f"{BASIC}{WRONG}", 407),
        (f"X-{BASIC}{RIGHT}", 407),
        (f"{BASIC}{RIGHT}\r\n{BASIC}{RIGHT}", 407),
        ("Authorization: Bearer right", 407),
        (f"proxy-authorization:  basic {RIGHT}", 200),
        ("Proxy-Authorization: Bearer right", 200),
    ],
)
def test_a_client_needs_the_token(header: str, status: int) -> None:
    with serving(token="right") as running, running.send(connect_head(f"{STORAGE}:443", header)) as client:
        answer = client.recv(1000)
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert (b"\r\nProxy-Authenticate: Basic " in answer) is (status == 407)  # else git gives no login


def test_the_token_of_the_connection_is_enough() -> None:
    with serving(token="right") as running:
        (running.buckets / "stage").mkdir()
        (running.buckets / "stage" / "a b").write_text("content")
        listed = f"GET /storage/v1/b?project=p HTTP/1.1\nHost: {STORAGE}\nConnection: close"
        assert b"stage" in running.call(STORAGE, listed, headers=(f"{BASIC}{RIGHT}",))
        read = f"GET /stage/a%20b HTTP/1.1\nHost: {STORAGE}\nRange: bytes=1-3\nConnection: close"
        assert running.call(STORAGE, read, headers=(f"{BASIC}{RIGHT}",)).endswith(b"\r\n\r\nont")
        plain = f"{listed}\r\nX-Forwarded-Proto: https\r\n\r\n".replace("\n", "\r\n").replace("\r\r", "\r")
        assert running.answer(plain.encode()).startswith(b"HTTP/1.1 401 ")


def test_an_upload_as_tensorflow_makes_it(served: Served) -> None:
    """It names an encoding that is none, and two lengths, and reads a header by its letters."""
    (served.buckets / "stage").mkdir()
    host, none = "Host: www.googleapis.com", b"\r\nTransfer-Encoding: identity"
    place = "/upload/storage/v1/b/stage/o?uploadType=resumable&name=a/b"
    with served.led("www.googleapis.com") as client:
        start = f"POST {place} HTTP/1.1\r\n{host}\r\nContent-Length: 0"
        client.sendall(start.encode() + none + b"\r\n\r\n")
        answer = client.recv(1 << 16).decode()
        (location,) = re.findall("\r\nLocation: https://www.googleapis.com(/.*)\r\n", answer)
        head = f"PUT {location} HTTP/1.1\r\n{host}\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.sendall(head.encode() + b"1d\r\n")
        client.sendall(none + b"\r\n0\r\n\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    assert (served.buckets / "stage" / "a" / "b").read_bytes() == none


def test_a_public_object_is_googles(served: Served) -> None:
    head = f"GET /public/a%20b?x=1 HTTP/1.1\nHost: {STORAGE}\nConnection: close"
    assert b"location: https://commondatastorage.googleapis.com/public/a%20b?x=1\r\n" in served.call(
        STORAGE, head
    )
    signed = served.call(STORAGE, f"{head}\nAuthorization: Bearer x")
    assert signed.startswith(b"HTTP/1.1 404 ")


def test_an_object_is_written_and_deleted_at_its_address(served: Served) -> None:
    (served.buckets / "stage").mkdir()
    end = f"Host: {STORAGE}\nConnection: close"
    put = f"PUT /stage/a%2Bb+c/d%26e HTTP/1.1\n{end}\nContent-Length: 0"
    file = served.buckets / "stage" / "a+b+c" / "d&e"
    for more in ("x-goog-copy-source: /stage/x", "x-goog-meta-a: b"):
        assert served.call(STORAGE, f"{put}\n{more}").startswith(b"HTTP/1.1 404 ")
    assert served.call(STORAGE, put.replace(" HTTP", "?partNumber=1 HTTP")).startswith(b"HTTP/1.1 404 ")
    assert served.call(STORAGE, put.replace("/stage/", "/public/")).startswith(b"HTTP/1.1 404 ")
    assert not file.exists()
    assert served.call(STORAGE, put).startswith(b"HTTP/1.1 200 ")
    assert file.read_bytes() == b""
    assert served.call(STORAGE, put.replace("PUT", "DELETE")).startswith(b"HTTP/1.1 204 ")
    assert not file.exists()


@contextmanager
def channel_to(host: str, port: int, bundle: Path, login: str) -> Iterator[Any]:
    """A channel of gRPC by way of a proxy."""
    grpc = pytest.importorskip("grpc")
    trusted = grpc.ssl_channel_credentials(bundle.read_bytes())
    options = [("grpc.http_proxy", f"http://{login}@127.0.0.1:{port}")]
    with grpc.secure_channel(f"{host}:443", trusted, options) as channel:
        yield channel


def test_without_a_server_of_grpc_its_clients_are_told_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    grpc = pytest.importorskip("grpc")
    with serving(token="right") as running:
        before = idle(running)
        with channel_to(VERTEX, running.port, running.bundle, "vtrain:right") as channel:
            for request in (b"", b"x" * (1 << 20), b""):
                with pytest.raises(grpc.RpcError) as caught:
                    channel.unary_unary("/google.cloud.aiplatform.v1.JobService/Get")(request, timeout=60)
                assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
                assert caught.value.details() == "The emulator answers no gRPC. Start it again with --grpc."
        settled((before[0] + 20, before[1]))  # those of gRPC itself
    assert capfd.readouterr().err.count("answers no gRPC") == 1


def test_other_hosts_are_reached_by_the_proxy_of_the_user(outer: OuterProxy) -> None:
    with serving() as running:
        with running.send(connect_head("example.com:8443")) as client:
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
            client.sendall(b"question")
            client.shutdown(socket.SHUT_WR)
            gc.collect()  # nobody else holds the connection
            assert b"".join(iter(lambda: client.recv(100), b"")) == b"question"
        assert running.answer(connect_head("refused.example:443")).startswith(b"HTTP/1.1 502 ")
        for own in ("localhost:22", "127.1:22", "[::1]:22", "169.254.169.254:80"):
            assert running.answer(connect_head(own)).startswith(b"HTTP/1.1 403 ")
    login = base64.b64encode(b"us@er:pass")
    assert outer.heads[0].startswith(b"CONNECT example.com:8443 HTTP/1.1\r\n") and login in outer.heads[0]


def test_a_client_that_stays_after_the_last_answer_is_left(
    outer: OuterProxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(proxy_module, "LAST_SECONDS", 0.05)
    monkeypatch.setattr(
        OuterProxy,
        "serve",
        lambda _self, end: (end.recv(9999), end.sendall(b"HTTP/1.1 200 \r\n\r\n"), end.close()),
    )
    with serving() as running:
        before = idle(running)
        with running.send(connect_head("example.com:443")) as client:
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
            assert client.recv(1000) == b""
            settled((before[0] + 1, before[1]))  # this end of the connection is open
    assert [record.getMessage() for record in caplog.records] == []


def test_a_proxy_of_vtrain_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://own.example:3128")
    assert outer_proxy() == "http://own.example:3128"
    monkeypatch.setenv("HTTPS_PROXY", "http://vtrain:secret@127.0.0.1:1")
    assert outer_proxy() == ""


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", "127.0.0.1"),
        ("internal.example, 10.0.0.0/8 ::1,b:8080", "127.0.0.1,internal.example,10.0.0.0/8,::1,b:8080"),
        ("*,.com,.googleapis.com,storage.googleapis.com,GOOGLEAPIS.com:443,apis.com", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_hosts_that_need_no_proxy_stay(given: str, kept: str) -> None:
    assert direct_hosts("127.0.0.1", given) == kept


CLIENTS = """
set -e
place=https://storage.googleapis.com
if command -v curl > /dev/null; then curl -sSf $place/stage/text; fi
"$1" -c "import urllib.request as r; print(r.urlopen('$place/stage/text').read().decode(), end='')"
"$1" -c "import requests; print(requests.get('$place/stage/text').text, end='')"
"$1" -c "import requests; print(requests.get('https://run.googleapis.com/v1/x').status_code)"
"""


def test_clients_without_a_network(tmp_path: Path) -> None:
    (tmp_path / "buckets" / "stage").mkdir(parents=True)
    (tmp_path / "buckets" / "stage" / "text").write_text("hello\n")
    root = Path(vtrain.__file__).parent.parent
    command = [sys.executable, "-m", "vtrain", "emulator", "exec", "--backend=process", "--"]
    command += ["sh", "-c", CLIENTS, "sh", sys.executable]
    alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if shutil.which("unshare") and subprocess.run([*alone, "true"], capture_output=True).returncode == 0:
        command = [*alone, *command]
    environment = os.environ | {"VTRAIN_HOME": str(tmp_path), "PYTHONPATH": str(root)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "hello\n" * (2 + bool(shutil.which("curl"))) + "405\n"
    assert "Refused: The emulator does not emulate GET https://run.googleapis.com/v1/x.\n" in ended.stderr
    assert [file.name for file in (tmp_path / "emulator").iterdir()] == ["tls.key"]


def test_the_key_is_private_and_kept_for_half_a_year(tmp_path: Path) -> None:
    key, bundle = tmp_path / "key.pem", tmp_path / "trusted.pem"
    server_tls(key, bundle)
    made = key.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600 and bundle.stat().st_mode & 0o777 == 0o644
    assert b"PRIVATE KEY" not in bundle.read_bytes()
    server_tls(key, bundle)
    assert key.read_bytes() == made
    half_a_year_ago = time.time() - 181 * 24 * 3600
    os.utime(key, (half_a_year_ago, half_a_year_ago))
    server_tls(key, bundle)
    assert key.read_bytes() != made
