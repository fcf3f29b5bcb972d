"""The Engine API spoken directly, to a real engine and over lines that break."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from lib.engine_relay import relay
from lib.waiting import wait_until

from vtrain.containers.client import CallRefused, EngineCalls
from vtrain.containers.discovery import EngineAddress
from vtrain.containers.engine import Engine, engine_errors, image_facts
from vtrain.errors import EngineAwayError, EngineError

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.docker
def test_answers_and_refusals(docker_engine: Engine) -> None:
    calls = docker_engine.calls
    assert calls.get("/version")["ApiVersion"]
    assert calls.get("/containers/json", filters={"label": ["vtrain-test-none"]}) == []
    with pytest.raises(CallRefused, match="No such container: vtrain-test-none") as refused:
        calls.post("/containers/vtrain-test-none/start")
    assert refused.value.status == 404
    with pytest.raises(EngineError) as told, engine_errors("start the container"):
        calls.post("/containers/vtrain-test-none/start")
    assert told.value.message == (
        "The Docker engine cannot start the container: No such container: vtrain-test-none."
    )
    assert told.value.http_status == 404


@pytest.mark.docker
def test_many_threads_share_the_calls(docker_engine: Engine) -> None:
    found: list[object] = []

    def ask() -> None:
        for _ in range(5):
            found.append(docker_engine.calls.get("/version")["Version"])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 40
    assert len(set(found)) == 1


@pytest.mark.docker
def test_a_line_that_breaks_in_the_middle(docker_engine: Engine) -> None:
    socket_path = docker_engine.address.host.removeprefix("unix://")
    with relay(socket_path, limit=300) as port:
        calls = EngineCalls(EngineAddress(host=f"tcp://127.0.0.1:{port}", origin="test"))
        with closing(calls), pytest.raises(EngineAwayError, match="went away"), engine_errors("tell"):
            calls.get("/info")


@contextmanager
def saying(content: bytes, *, is_whole: bool = False) -> Iterator[EngineAddress]:
    """A server whose every answer has this content, or is it as a whole."""
    head = b"" if is_whole else b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content)
    answer = head + content
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_answer_once_each, args=(server, [], answer), daemon=True).start()
        yield EngineAddress(host=f"tcp://127.0.0.1:{server.getsockname()[1]}", origin="test")
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("content", [b"[]", b"null", b'"hello"', b"{}", b'{"NCPU": null, "MemTotal": 1}'])
def test_a_description_that_is_none(content: bytes) -> None:
    words = "is no Docker engine: it does not describe itself"
    with (
        saying(content) as address,
        closing(Engine(address)) as engine,
        pytest.raises(EngineError, match=words),
    ):
        engine.info()


def test_an_image_that_is_described_as_something_else() -> None:
    with saying(b"[]") as address, pytest.raises(EngineError, match="is no Docker engine"):
        image_facts(address, "python")


def test_an_answer_that_ends_in_the_middle() -> None:
    answer = b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"NCPU":'
    with (
        saying(answer, is_whole=True) as address,
        closing(Engine(address)) as engine,
        pytest.raises(EngineAwayError, match="in the middle of its answer"),
    ):
        engine.info()


@pytest.fixture
def answering() -> Iterator[tuple[EngineAddress, list[int]]]:
    """A server that answers one request a connection, does not say so, and closes; and what it took."""
    taken: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_answer_once_each, args=(server, taken), daemon=True).start()
        yield EngineAddress(host=f"tcp://127.0.0.1:{server.getsockname()[1]}", origin="test"), taken
        server.shutdown(socket.SHUT_RDWR)


def _answer_once_each(server: socket.socket, taken: list[int], answer: bytes = ANSWER) -> None:
    while True:
        try:
            near, _ = server.accept()
        except OSError:
            return
        with near:
            taken.append(len(near.recv(65536)))
            near.sendall(answer)


def wait_until_closed(calls: EngineCalls) -> None:
    wait_until(lambda: all(connection.is_stale for connection in calls.idle))


def test_a_connection_that_was_closed_meanwhile_is_not_used_again(
    answering: tuple[EngineAddress, list[int]],
) -> None:
    address, taken = answering
    with closing(EngineCalls(address)) as calls:
        for _ in range(3):
            assert calls.get("/x") == {}
            wait_until_closed(calls)
            assert calls.post("/x", {"a": 1}) == {}
            wait_until_closed(calls)
    assert len(taken) == 6


def test_no_engine_at_all(tmp_path: Path) -> None:
    calls = EngineCalls(EngineAddress(host=f"unix://{tmp_path}/none.sock", origin="test"), "1.41")
    with pytest.raises(EngineAwayError, match="went away"), engine_errors("tell"):
        calls.get("/info")
    with (
        pytest.raises(EngineAwayError, match="went away"),
        engine_errors("tell"),
        calls.stream("/events"),
    ):
        pass
