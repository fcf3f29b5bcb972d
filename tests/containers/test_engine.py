"""Connections to a real engine, by every way there is, and its errors in our words."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
from lib.engine_relay import make_certificates, make_ssh, path_with, relay

from vtrain.containers.build import DOCKERFILE, BuildRequest, ContextFile, build_image, has_buildx
from vtrain.containers.discovery import EngineAddress, find_engine, find_local_engine
from vtrain.containers.engine import Engine, connect, engine_errors, image_facts
from vtrain.containers.images import find_image, list_images, push_image, pushed_digest
from vtrain.errors import EngineAwayError, EngineError

pytestmark = pytest.mark.docker
BUILDKIT = pytest.param(
    "1", marks=pytest.mark.skipif(not has_buildx(), reason='no "docker buildx" (.ci/install-buildx)')
)


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


def test_an_engine_behind_tls_builds_and_lists_but_runs_no_jobs(
    socket_path: str, base_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make certificates with")
    ours, others = tmp_path / "ours", tmp_path / "others"
    ours.mkdir()
    others.mkdir()
    make_certificates(others)
    with relay(socket_path, make_certificates(ours)) as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
        monkeypatch.setenv("DOCKER_CERT_PATH", str(ours))
        address = find_engine()
        assert address.host == f"https://127.0.0.1:{port}"
        facts = image_facts(address, base_image)
        assert facts is not None
        assert image_facts(address, "vtrain-test/none:1") is None
        with closing(connect(address)) as engine:
            assert facts["Id"] in {image.id for image in list_images(engine, {"vtrain.test-base": ""})}
        with pytest.raises(EngineError, match="is on another machine or behind TLS") as refused:
            find_local_engine()
        assert "--backend=process" in refused.value.hint
        monkeypatch.setenv("DOCKER_CERT_PATH", str(others))
        with pytest.raises(EngineError, match="certificate verify failed"):
            image_facts(find_engine(), base_image)
        monkeypatch.setenv("DOCKER_CERT_PATH", "/nonexistent")
        with pytest.raises(EngineError, match="cannot be reached at https"):
            image_facts(find_engine(), base_image)


@pytest.mark.parametrize("buildkit", [BUILDKIT, "0"])
@pytest.mark.parametrize("by", ["DOCKER_HOST", "context"])
def test_an_engine_on_another_machine_builds_and_pushes(
    socket_path: str,
    loopback_registry: str,
    new_name: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    by: str,
    buildkit: str,
) -> None:
    monkeypatch.setenv("DOCKER_BUILDKIT", buildkit)
    name = new_name(loopback_registry)
    request = BuildRequest(
        tags=(name,),
        dockerfile=f"FROM scratch\nCOPY a /a\nENV NAME={name}\n",
        files=(ContextFile(name="a", content=b"a"),),
    )
    with relay(socket_path, host="127.0.0.2") as port:
        host = f"tcp://127.0.0.2:{port}"
        if by == "DOCKER_HOST":
            monkeypatch.setenv("DOCKER_HOST", host)
        else:
            monkeypatch.delenv("DOCKER_HOST")
            line = ["docker", "context", "create", "far", f"--docker=host={host}"]
            subprocess.run(line, check=True, capture_output=True)
            monkeypatch.setenv("DOCKER_CONTEXT", "far")
        address = find_engine()
        assert (address.host, address.is_local) == (host, False)
        with closing(connect(address)) as engine:
            built = build_image(engine, request, print)
            digest = push_image(engine, name, tell=print)
            assert pushed_digest(engine, name, tell=print) == digest
        facts = image_facts(address, name)
        assert facts is not None
        assert facts["Id"] == built


@pytest.mark.parametrize("buildkit", [BUILDKIT])
def test_buildx_reaches_an_engine_over_ssh(
    docker_engine: Engine,
    socket_path: str,
    new_name: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    buildkit: str,
) -> None:
    record = make_ssh(tmp_path, socket_path)
    monkeypatch.setenv("PATH", path_with(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "ssh://me@box:2222")
    address = find_engine()
    assert not address.is_local
    name = new_name()
    request = BuildRequest(tags=(name,), dockerfile=f"FROM scratch\nENV A={name}\nCOPY {DOCKERFILE} /\n")
    with closing(connect(address)) as engine:
        built = build_image(engine, request, print)
    image = find_image(docker_engine, name)
    assert image is not None
    assert image.id == built
    assert record.read_text().split()[-6:] == ["2222", "--", "box", "docker", "system", "dial-stdio"]


def test_ssh_needs_a_library_of_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("paramiko") is not None:
        pytest.skip("paramiko is there")
    monkeypatch.setenv("DOCKER_HOST", "ssh://me@box")
    with pytest.raises(EngineError, match="cannot be reached at ssh://me@box: Install paramiko"):
        image_facts(find_engine(), "python")


def test_an_engine_that_is_away(tmp_path: Path) -> None:
    address = EngineAddress(host=f"unix://{tmp_path}/none.sock", origin="DOCKER_HOST")
    with pytest.raises(EngineAwayError) as away:
        connect(address)
    place = f"unix://{tmp_path}/none.sock (from DOCKER_HOST)"
    assert away.value.message == f"The Docker engine at {place} does not answer: no such socket."


def test_an_engine_that_goes_away_in_the_middle(socket_path: str) -> None:
    with relay(socket_path, limit=600) as port:
        engine = connect(EngineAddress(host=f"tcp://127.0.0.1:{port}", origin="test"))
        with closing(engine), pytest.raises(EngineAwayError, match="went away; it cannot describe itself"):
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
