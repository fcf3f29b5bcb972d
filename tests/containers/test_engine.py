"""Connections to a real engine, by every way there is, and its errors in our words."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from engine_relay import make_certificates, make_ssh, path_with, relay

from vtrain.containers.address import EngineAddress
from vtrain.containers.discovery import answers, find_engine, refusal
from vtrain.containers.engine import Engine, connect, engine_errors
from vtrain.errors import EngineAwayError, EngineError

pytestmark = pytest.mark.docker


@pytest.fixture
def socket_path(engine_address: EngineAddress) -> str:
    """The engine's socket on this machine."""
    if not engine_address.host.startswith("unix://"):
        pytest.skip("the engine is not on a socket of this machine")
    return engine_address.host.removeprefix("unix://")


def test_the_api_version_is_what_both_know(docker_engine: Engine) -> None:
    from docker.constants import DEFAULT_DOCKER_API_VERSION

    newest = docker_engine.client.version(api_version=False)["ApiVersion"]
    known = [tuple(map(int, version.split("."))) for version in (newest, DEFAULT_DOCKER_API_VERSION)]
    assert tuple(map(int, docker_engine.client.api_version.split("."))) == min(known)


def test_info_is_asked_once(docker_engine: Engine) -> None:
    assert docker_engine.info()["NCPU"] > 0
    assert docker_engine.info() is docker_engine.info()


def test_an_engine_on_a_tcp_port(socket_path: str) -> None:
    with relay(socket_path) as port:
        address = find_engine({"DOCKER_HOST": f"tcp://127.0.0.1:{port}"})
        assert address.is_local
        with closing(connect(address)) as engine:
            assert engine.info()["ID"]


def test_an_engine_behind_tls_wants_our_certificate(socket_path: str, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make certificates with")
    ours, others = tmp_path / "ours", tmp_path / "others"
    ours.mkdir()
    others.mkdir()
    make_certificates(others)
    with relay(socket_path, make_certificates(ours)) as port:
        environ = {"DOCKER_HOST": f"tcp://127.0.0.1:{port}", "DOCKER_TLS_VERIFY": "1"}
        with closing(connect(find_engine({**environ, "DOCKER_CERT_PATH": str(ours)}))) as engine:
            assert engine.info()["ID"]
        with pytest.raises(EngineError, match="certificate verify failed"):
            find_engine({**environ, "DOCKER_CERT_PATH": str(others)})
        with pytest.raises(EngineError, match="does not answer"):
            find_engine({"DOCKER_HOST": f"tcp://127.0.0.1:{port}"})


def test_an_engine_over_ssh(socket_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = make_ssh(tmp_path, socket_path)
    monkeypatch.setenv("PATH", path_with(tmp_path))
    address = find_engine({"DOCKER_HOST": "ssh://me@box:2222"})
    assert not address.is_local
    with closing(connect(address)) as engine:
        assert engine.info()["ID"]
        assert engine.client.images() is not None
    arguments = record.read_text()
    assert arguments.endswith("-l me -p 2222 -- box docker system dial-stdio")


def test_words_of_ssh_are_told(socket_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_ssh(tmp_path, socket_path)
    monkeypatch.setenv("PATH", path_with(tmp_path))
    assert "Could not resolve hostname" in refusal(EngineAddress(host="ssh://unknown", origin="test"))
    monkeypatch.setenv("PATH", "/nonexistent")
    assert refusal(EngineAddress(host="ssh://box", origin="test")) == "ssh is missing"


def test_an_engine_that_is_away(tmp_path: Path) -> None:
    address = EngineAddress(host=f"unix://{tmp_path}/none.sock", origin="DOCKER_HOST")
    assert not answers(address)
    with pytest.raises(EngineAwayError) as away:
        connect(address)
    place = f"unix://{tmp_path}/none.sock (from DOCKER_HOST)"
    assert away.value.message == f"The Docker engine at {place} does not answer: no such socket."


def test_an_engine_that_goes_away_in_the_middle(socket_path: str) -> None:
    with relay(socket_path, limit=600) as port:
        engine = connect(EngineAddress(host=f"tcp://127.0.0.1:{port}", origin="test"))
        with (
            closing(engine),
            pytest.raises(EngineAwayError, match="went away; it cannot describe itself"),
        ):
            engine.info()


def test_a_refusal_keeps_the_engines_words_and_the_cause(docker_engine: Engine) -> None:
    from docker.errors import NotFound

    with pytest.raises(EngineError) as refused, engine_errors("start the container"):
        docker_engine.client.start("vtrain-test-none")
    assert refused.value.message == (
        "The Docker engine cannot start the container: No such container: vtrain-test-none."
    )
    assert not isinstance(refused.value, EngineAwayError)
    assert isinstance(refused.value.__cause__, NotFound)


def test_a_netrc_is_for_other_hosts(
    engine_address: EngineAddress, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_home / ".netrc").write_text("machine localhost login me password secret\n")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with closing(connect(engine_address)) as engine:
        assert not engine.client.trust_env
        assert engine.info()["ID"]
