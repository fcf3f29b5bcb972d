"""Which engine is found, and what is said when there is none."""

from __future__ import annotations

import errno
import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from vtrain.containers.discovery import EngineAddress, checked, find_engine, reason_of, refusal, usual_sockets
from vtrain.errors import EngineError

NO_ENGINE = "what answers there is no Docker engine (HTTP {})"
PONG = b"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\n\r\nOK"


@pytest.fixture
def listen() -> Iterator[Callable[..., Path]]:
    """Makes sockets that answer every connection with the same bytes; with None they keep silent."""
    servers: list[socket.socket] = []

    def make(path: Path, answer: bytes | None = PONG) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        server.listen()
        servers.append(server)
        if answer is not None:
            threading.Thread(target=_answer, args=(server, answer), daemon=True).start()
        return path

    yield make
    for server in servers:
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()


def _answer(server: socket.socket, answer: bytes) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection, suppress(OSError):
            connection.recv(4096)
            connection.sendall(answer)


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose path leaves room for a socket's (108 bytes)."""
    return tmp_path_factory.mktemp("s")


def test_docker_host_is_the_only_one_tried(short: Path, listen: Callable[..., Path]) -> None:
    listen(short / "runtime/docker.sock")
    environ = {"DOCKER_HOST": f"unix://{short}/none.sock", "XDG_RUNTIME_DIR": str(short / "runtime")}
    with pytest.raises(EngineError) as refused:
        find_engine(environ)
    assert refused.value.message == (
        f"The Docker engine at unix://{short}/none.sock (from DOCKER_HOST) does not answer: no such socket."
    )
    assert "DOCKER_HOST" in refused.value.hint


def test_docker_host_wins_over_a_context(short: Path, listen: Callable[..., Path]) -> None:
    path = listen(short / "a.sock")
    found = find_engine({"DOCKER_HOST": f"unix://{path}", "DOCKER_CONTEXT": "none", "HOME": str(short)})
    assert found == EngineAddress(host=f"unix://{path}", origin="DOCKER_HOST")
    assert found.is_local


def _context(config: Path, name: str, endpoint: dict[str, object]) -> None:
    digest = hashlib.sha256(name.encode()).hexdigest()
    folder = config / "contexts/meta" / digest
    folder.mkdir(parents=True)
    document = {"Name": name, "Metadata": {}, "Endpoints": {"docker": endpoint}}
    (folder / "meta.json").write_text(json.dumps(document))


@pytest.mark.parametrize("by", ["DOCKER_CONTEXT", "currentContext"])
def test_a_context_names_the_engine(short: Path, listen: Callable[..., Path], by: str) -> None:
    path = listen(short / "colima.sock")
    _context(short / ".docker", "colima", {"Host": f"unix://{path}", "SkipTLSVerify": False})
    environ = {"HOME": str(short)}
    if by == "currentContext":
        (short / ".docker/config.json").write_text('{"currentContext": "colima", "auths": {}}')
    else:
        environ["DOCKER_CONTEXT"] = "colima"
    assert find_engine(environ) == EngineAddress(
        host=f"unix://{path}", origin="the context colima", context="colima"
    )


def test_the_default_context_means_the_usual_sockets(short: Path, listen: Callable[..., Path]) -> None:
    (short / "config.json").write_text('{"currentContext": "elsewhere"}')
    environ = {"DOCKER_CONFIG": str(short), "HOME": str(short), "XDG_RUNTIME_DIR": str(short / "run")}
    with pytest.raises(EngineError, match=r"names the Docker context 'elsewhere', which .* does not have"):
        find_engine(environ)
    listen(short / "run/docker.sock")
    found = find_engine({**environ, "DOCKER_CONTEXT": "default"})
    assert found.host in ("unix:///var/run/docker.sock", f"unix://{short}/run/docker.sock")


@pytest.mark.parametrize(("skips_verification", "has_files"), [(True, False), (False, True), (False, False)])
def test_a_context_says_whether_there_is_tls(short: Path, skips_verification: bool, has_files: bool) -> None:
    _context(short, "far", {"Host": "tcp://10.0.0.1:2376", "SkipTLSVerify": skips_verification})
    if has_files:
        (short / "contexts/tls" / hashlib.sha256(b"far").hexdigest() / "docker").mkdir(parents=True)
    scheme = "https" if skips_verification or has_files else "tcp"
    found = find_engine({"DOCKER_CONFIG": str(short), "DOCKER_CONTEXT": "far"})
    assert found == EngineAddress(host=f"{scheme}://10.0.0.1:2376", origin="the context far", context="far")
    assert not found.is_local


def test_a_configuration_that_is_no_json_gets_a_sentence(short: Path) -> None:
    (short / "config.json").write_text("{")
    with pytest.raises(EngineError, match=r"config\.json cannot be read"):
        find_engine({"DOCKER_CONFIG": str(short)})


@pytest.mark.parametrize(
    "content",
    [
        '{"Endpoints": null}',
        '{"Endpoints": []}',
        '{"Endpoints": {"docker": null}}',
        '{"Endpoints": {"docker": {"Host": 5}}}',
        "[" * 100_000,
    ],
)
def test_a_damaged_context_gets_a_sentence(short: Path, content: str) -> None:
    _context(short, "far", {})
    (meta,) = short.glob("contexts/meta/*/meta.json")
    meta.write_text(content)
    with pytest.raises(EngineError, match=r"meta\.json cannot be read") as told:
        find_engine({"DOCKER_CONFIG": str(short), "DOCKER_CONTEXT": "far"})
    assert told.value.hint == "Correct it, or set DOCKER_HOST."


def test_usual_sockets_cover_the_known_engines(short: Path) -> None:
    found = [a.host for a in usual_sockets({"HOME": "/h", "XDG_RUNTIME_DIR": "/r", "COLIMA_HOME": "/c"})]
    assert found[0] == "unix:///var/run/docker.sock"
    assert {
        "unix:///r/docker.sock",
        "unix:///h/.docker/run/docker.sock",
        "unix:///h/.docker/desktop/docker.sock",
        "unix:///c/default/docker.sock",
        "unix:///h/.config/colima/default/docker.sock",
        "unix:///r/podman/podman.sock",
        "unix:///run/podman/podman.sock",
    } <= set(found)


def test_no_engine_at_all_says_what_was_tried(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = [EngineAddress(host=f"unix://{short}/{name}.sock", origin="x") for name in "ab"]
    monkeypatch.setattr("vtrain.containers.discovery.usual_sockets", lambda _: iter(listing))
    dead = socket.socket(socket.AF_UNIX)
    with dead:
        dead.bind(f"{short}/b.sock")
    with pytest.raises(EngineError) as refused:
        find_engine({"HOME": str(short)})
    assert refused.value.message == (
        f"No Docker engine answers. Tried: {short}/a.sock (no such socket); "
        f"{short}/b.sock (nobody listens there)."
    )
    assert "DOCKER_HOST" in refused.value.hint


def test_a_socket_that_never_answers_takes_two_seconds(short: Path, listen: Callable[..., Path]) -> None:
    address = EngineAddress(host=f"unix://{listen(short / 'mute.sock', None)}", origin="test")
    begun = time.monotonic()
    assert refusal(address) == "no answer in time"
    assert 1.5 < time.monotonic() - begun < 60


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "what answers there is no Docker engine"),
        (b"", "it closed the connection"),
        (b"HTTP/1.1 503 Busy\r\n\r\nstarting up", "starting up"),
        (b"HTTP/1.1 400 Bad\r\n\r\nClient sent an HTTP request to an HTTPS server.\n", None),
        (b"HTTP/1.0 404 Not Found\r\n\r\n404 page not found\n", NO_ENGINE.format(404)),
        (b"HTTP/1.0 501 x\r\nContent-Type: text/html\r\n\r\n\n<p>a\n<p>b", NO_ENGINE.format(501)),
        (b"HTTP/1.0 500 x\r\n\r\n  <!DOCTYPE HTML>\n<html>", NO_ENGINE.format(500)),
        (b"HTTP/1.0 200 OK\r\ncontent-type: text/html\r\n\r\n<html>", NO_ENGINE.format(200)),
        (b"HTTP/1.1 503 Busy\r\n\r\nnot\n  yet\n", "not yet"),
    ],
)
def test_what_is_no_engine_is_told(
    short: Path, listen: Callable[..., Path], answer: bytes, reason: str | None
) -> None:
    path = listen(short / "other.sock", answer)
    found = refusal(EngineAddress(host=f"unix://{path}", origin="test"))
    assert found == (reason or "Client sent an HTTP request to an HTTPS server")


def test_a_socket_that_may_not_be_used_says_which_group() -> None:
    from vtrain.containers.discovery import _hint

    reason = reason_of(PermissionError(errno.EACCES, "Permission denied"))
    assert reason == "permission denied"
    hint = _hint(EngineAddress(host="unix:///var/run/docker.sock", origin="DOCKER_HOST"), reason)
    assert "/var/run/docker.sock" in hint
    assert "docker $USER" in hint


@pytest.mark.parametrize(
    ("host", "full", "local"),
    [
        ("tcp://box", "tcp://box", False),
        ("127.0.0.1:4321", "tcp://127.0.0.1:4321", True),
        ("tcp://[::1]:2375", "tcp://[::1]:2375", True),
        ("https://127.0.0.1/", "https://127.0.0.1/", False),
        ("ssh://me@localhost", "ssh://me@localhost", False),
        ("unix:///run/x.sock", "unix:///run/x.sock", True),
    ],
)
def test_addresses_are_completed(host: str, full: str, local: bool) -> None:
    address = checked(EngineAddress(host=host, origin="DOCKER_HOST"))
    assert address.host == full
    assert address.is_local is local


@pytest.mark.parametrize(
    "host",
    [
        *("npipe:////./pipe/docker_engine", "tcp://", "unix://", "tcp://h:x", "tcp://h:0", "fd://3"),
        *("unix:/run/x.sock", "unix:run/x.sock", "/run/x.sock", "unix://run/x.sock", "ssh:/me@box"),
    ],
)
def test_what_is_no_address_is_refused(host: str) -> None:
    with pytest.raises(EngineError, match="is not an address of a Docker engine") as refused:
        find_engine({"DOCKER_HOST": host})
    assert "unix:///path" in refused.value.hint


def test_tls_is_asked_for_as_docker_does() -> None:
    host = {"DOCKER_HOST": "tcp://box"}
    assert find_engine(host).host == "tcp://box"
    for name in ("DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        assert find_engine({**host, name: "1"}).host == "https://box"
    assert find_engine({"DOCKER_HOST": "ssh://box", "DOCKER_TLS_VERIFY": "1"}).host == "ssh://box"
