"""The proxy that leads gRPC to the emulator: whom it lets through, and what clients leave that disappear."""

from __future__ import annotations

import asyncio
import base64
import gc
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from vtrain.emulator.vertex.grpc_proxy import MOST_CLIENTS, proxying
from vtrain.retry import wait_until

CONNECT = b"CONNECT us-central1-aiplatform.googleapis.com:443 HTTP/1.1\r\n\r\n"
DESCRIPTORS = Path("/proc/self/fd")


def listening(place: Path) -> socket.socket:
    """A Unix socket that listens."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.listen(64)
    return listener


@pytest.fixture
def place() -> Iterator[Path]:
    """The path of a socket, which has to be short."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "server"


class Upstream:
    """A server that sends back what it gets, and hangs up when its client does."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.listener = listening(place)
        self.taken = 0
        self.thread = threading.Thread(target=self._accept)
        self.thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.taken += 1
                threading.Thread(target=_echo, args=(connection,)).start()

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


def _echo(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        while block := connection.recv(1 << 16):
            connection.sendall(block)


@pytest.fixture
def upstream(place: Path) -> Iterator[Upstream]:
    made = Upstream(place)
    yield made
    made.close()


@pytest.fixture
def proxy(upstream: Upstream) -> Iterator[int]:
    with proxying(upstream.place, "") as port:
        yield port


def connect(port: int, head: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.sendall(head)
    return client


def tunnel(port: int) -> socket.socket:
    """A connection to the upstream, through which a word has gone both ways."""
    client = connect(port, CONNECT)
    assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
    client.sendall(b"hello")
    assert client.recv(5, socket.MSG_WAITALL) == b"hello"
    return client


def hang_up(client: socket.socket) -> None:
    client.close()


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


def idle(proxy: int) -> tuple[int, int]:
    """What is held while the proxy, which is there, has nobody to serve; maybe a descriptor too many."""
    with connect(proxy, b"GET / HTTP/1.1\r\n\r\n") as client:
        assert client.recv(1000).startswith(b"HTTP/1.1 403 ")
        assert client.recv(1000) == b""
    return held()


def settled(before: tuple[int, int]) -> None:
    """Wait until no more is held than before."""

    def left() -> list[int]:
        return [now - then for now, then in zip(held(), before, strict=True)]

    assert wait_until(lambda: max(left()) <= 0, 60, longest=0.2), left()


WAYS: dict[str, Callable[[int], None]] = {
    "says nothing": lambda port: hang_up(connect(port)),
    "half a request": lambda port: hang_up(connect(port, CONNECT[:20])),
    "resets half a request": lambda port: reset(connect(port, CONNECT[:20])),
    "does not wait for the answer": lambda port: reset(connect(port, CONNECT)),
    "hangs up": lambda port: hang_up(tunnel(port)),
    "resets": lambda port: reset(tunnel(port)),
    "is elsewhere": lambda port: reset(connect(port, b"CONNECT example.com:443 HTTP/1.1\r\n\r\n")),
}


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="needs /proc")
@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_disappears_leaves_nothing(
    proxy: int, way: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = idle(proxy)
    for _ in range(20):
        WAYS[way](proxy)
    idle(proxy)  # whom it takes after all the others
    settled(before)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="needs /proc")
def test_a_client_that_disappears_under_a_flood_leaves_nothing(
    proxy: int, capfd: pytest.CaptureFixture[str]
) -> None:
    before = idle(proxy)
    for _ in range(3):
        flood_and_reset(tunnel(proxy))
    settled(before)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="needs /proc")
def test_a_proxy_that_ends_leaves_no_tunnel(upstream: Upstream, caplog: pytest.LogCaptureFixture) -> None:
    before = held()
    with proxying(upstream.place, "") as port:
        clients = [tunnel(port) for _ in range(5)]
    for client in clients:
        client.close()
    settled(before)
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="needs /proc")
def test_a_client_that_stays_after_the_last_answer_is_left(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("vtrain.emulator.vertex.grpc_proxy.LAST_SECONDS", 0.05)
    with (
        listening(place) as listener,
        proxying(place, "") as port,
    ):
        before = idle(port)
        with connect(port, CONNECT) as client:
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
            listener.accept()[0].close()
            assert client.recv(1000) == b""
            settled((before[0] + 1, before[1]))  # this end of the connection is open
    assert [record.getMessage() for record in caplog.records] == []


def test_more_clients_than_there_is_room_for_are_told(
    proxy: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("vtrain.emulator.vertex.grpc_proxy.MOST_CLIENTS", 2)
    with tunnel(proxy), tunnel(proxy):
        with connect(proxy) as client:
            assert client.recv(1000).startswith(b"HTTP/1.1 503 ")
        assert "2 clients are connected" in capfd.readouterr().err


def test_a_client_that_has_said_all_gets_its_answer(place: Path) -> None:
    """Also where Python collects what nobody holds meanwhile."""
    with (
        listening(place) as listener,
        proxying(place, "") as port,
        connect(port, CONNECT) as client,
    ):
        upstream, _ = listener.accept()
        with upstream:
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
            client.sendall(b"question")
            client.shutdown(socket.SHUT_WR)
            upstream.settimeout(60)
            assert upstream.recv(8, socket.MSG_WAITALL) == b"question"
            assert upstream.recv(1) == b""
            gc.collect()
            upstream.sendall(b"answer")
        assert client.recv(6, socket.MSG_WAITALL) == b"answer"


def test_those_that_have_gone_make_room(proxy: int, upstream: Upstream) -> None:
    for _ in range(MOST_CLIENTS + 10):
        reset(tunnel(proxy))
    with tunnel(proxy):
        assert upstream.taken == MOST_CLIENTS + 11


def test_what_would_leave_this_machine_is_refused_and_named(
    proxy: int, upstream: Upstream, capfd: pytest.CaptureFixture[str]
) -> None:
    with connect(proxy, b"CONNECT example.com:443 HTTP/1.1\r\n\r\n") as client:
        assert client.recv(1000).startswith(b"HTTP/1.1 403 ")
    assert "example.com:443" in capfd.readouterr().err
    assert upstream.taken == 0


def test_a_client_that_says_nothing_is_left(
    proxy: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = idle(proxy)
    monkeypatch.setattr("vtrain.emulator.vertex.grpc_proxy.HEAD_SECONDS", 0.05)
    with connect(proxy, CONNECT[:20]) as client:
        assert client.recv(1000) == b""
    settled(before)
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("", 407),
        ("Proxy-Authorization: Basic !\r\n", 407),
        (f"Proxy-Authorization: Basic {base64.b64encode(b'token:wrong').decode()}\r\n", 407),
        (f"X-Proxy-Authorization: Basic {base64.b64encode(b'token:right').decode()}\r\n", 407),
        ("Authorization: Bearer right\r\n", 407),
        (f"proxy-authorization:  basic {base64.b64encode(b'token:right').decode()}\r\n", 200),
        ("Proxy-Authorization: Bearer right\r\n", 200),
    ],
)
def test_a_client_needs_the_token(upstream: Upstream, head: str, status: int) -> None:
    with (
        proxying(upstream.place, "right") as port,
        connect(port, CONNECT[:-2] + f"{head}\r\n".encode()) as client,
    ):
        assert client.recv(1000).startswith(f"HTTP/1.1 {status} ".encode())
        if status == 200:  # it is connected, and the server's thread may take a while to see that
            assert wait_until(lambda: upstream.taken, 60)
    assert upstream.taken == (status == 200)


def test_a_proxy_that_ends_at_once_ends_without_a_fault(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the emulator beside it cannot start."""
    faults: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda told: faults.append(told.exc_value))
    for _ in range(20):
        with proxying(place, ""):
            pass
    assert faults == []
