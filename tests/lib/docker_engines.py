"""Docker engines for tests: the one that is found, a base image on it, and a registry on loopback."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from lib.second_engine import SecondEngine, missing_for_an_engine, second_engine
from lib.waiting import wait_until_gone

if TYPE_CHECKING:
    from vtrain.containers.discovery import EngineAddress
    from vtrain.containers.engine import Engine

BASE_IMAGE = "vtrain-test/python:3.11"
HOMES: set[str] = set()
"""The labels of the homes that tests of this process have had on the engine."""
OUTPUT = "vtrain_homes"
NO_ENGINE = "unix:///nonexistent/docker.sock"
ENVIRONMENT = dict(os.environ)  # as it was before a test chose another HOME
LEAVING_SECONDS = 60.0
LISTENING = re.compile(r"listening on [^ ]*:(\d+)")


def lacking(reason: str) -> NoReturn:
    """Skip the test; where Docker is required, fail it."""
    if ENVIRONMENT.get("VTRAIN_REQUIRE_DOCKER") == "1":
        pytest.fail(f"{reason}; VTRAIN_REQUIRE_DOCKER=1 does not let this pass", pytrace=False)
    pytest.skip(reason)


class ImageRemover:
    """Removes the images that homes of this run made, once all tests that met the engine have ended.

    Tests share these images, which are named by their content; so no test can remove them for itself.
    """

    def __init__(self) -> None:
        self._homes: set[str] = set()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of pytest-xdist has ended, and says which homes its tests had."""
        self._homes.update(getattr(node, "workeroutput", {}).get(OUTPUT, ()))

    def pytest_sessionfinish(self) -> None:
        from vtrain.containers.discovery import find_engine
        from vtrain.errors import EngineError

        homes = self._homes | HOMES
        if homes:
            with suppress(EngineError), connected(find_engine(ENVIRONMENT)) as engine:
                remove_images(engine, homes)


class HomesOfAWorker:
    """Tells the process that waits for this worker which homes its tests had on the engine."""

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        session.config.workeroutput[OUTPUT] = sorted(HOMES)  # type: ignore[attr-defined]


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    config.pluginmanager.register(HomesOfAWorker() if is_worker else ImageRemover())


def remove_images(engine: Engine, homes: Collection[str]) -> None:
    """Remove the images that bear the label of one of these homes, but those that a container uses."""
    from vtrain.containers.engine import IMAGE_HOME_LABEL, KIND_LABEL
    from vtrain.containers.images import list_images, remove_image
    from vtrain.errors import ImageError

    for image in list_images(engine, {KIND_LABEL: "", IMAGE_HOME_LABEL: ""}):
        if image.labels[IMAGE_HOME_LABEL] in homes:
            with suppress(ImageError):
                remove_image(engine, image.id)


@pytest.fixture(scope="session")
def engine_address() -> EngineAddress:
    """The engine that the environment of the test run leads to; without one the test is skipped."""
    from vtrain.containers.discovery import find_engine
    from vtrain.errors import EngineError

    try:
        return find_engine(ENVIRONMENT)
    except EngineError as error:
        lacking(str(error).partition(" Tried: ")[0])


@pytest.fixture(scope="session")
def _engine_of_the_session(engine_address: EngineAddress) -> Iterator[Engine]:
    """A connection that no test closes."""
    with connected(engine_address) as engine:
        yield engine


@pytest.fixture(autouse=True)
def _docker_environment(
    request: pytest.FixtureRequest, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Commands of a test meet the engine only where the test is marked `docker`; nothing stays behind."""
    monkeypatch.setenv("DOCKER_HOST", NO_ENGINE)
    if request.node.get_closest_marker("docker") is None:
        yield
        return
    engine: Engine = request.getfixturevalue("_engine_of_the_session")
    monkeypatch.setenv("DOCKER_HOST", engine.address.host)
    yield
    left = remaining(engine, own_home / ".vtrain")
    assert not left, f"left behind on the engine: {', '.join(left)}"


@pytest.fixture
def docker_engine(engine_address: EngineAddress) -> Iterator[Engine]:
    """The engine, connected."""
    with connected(engine_address) as engine:
        yield engine


@pytest.fixture(scope="session")
def base_image(_engine_of_the_session: Engine) -> str:
    """A small image with Python, pip and sh; `.ci/make-base-image` makes it."""
    from vtrain.containers.images import find_image

    if find_image(_engine_of_the_session, BASE_IMAGE) is None:
        lacking(f"the engine has no image {BASE_IMAGE}: run .ci/make-base-image")
    return BASE_IMAGE


@pytest.fixture(scope="session")
def base_image_file(
    _engine_of_the_session: Engine, base_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The base image as `docker save` writes it."""
    file = tmp_path_factory.mktemp("image") / "base.tar"
    with file.open("wb") as out:
        out.writelines(_engine_of_the_session.client.get_image(base_image))
    return file


@pytest.fixture
def own_engine(
    request: pytest.FixtureRequest, base_image_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SecondEngine]:
    """An engine with the base image that the test may stop and kill; DOCKER_HOST leads to it.

    Parametrized indirectly, by `{"live_restore": True}`. Tests that use it are marked `engine`.
    """
    if missing := missing_for_an_engine():
        lacking(missing)
    with second_engine(**getattr(request, "param", {})) as engine:
        with connected(engine.address) as connection, base_image_file.open("rb") as image:
            for _ in connection.client.load_image(image):
                pass
        monkeypatch.setenv("DOCKER_HOST", engine.host)
        yield engine


@contextmanager
def connected(address: EngineAddress) -> Iterator[Engine]:
    """A connection to the engine."""
    from vtrain.containers.engine import connect

    engine = connect(address)
    try:
        yield engine
    finally:
        engine.close()


def remaining(engine: Engine, home: Path) -> list[str]:
    """Containers and networks of a home's jobs that do not go away by themselves; they are removed now."""
    from docker.errors import NotFound

    with suppress(AssertionError):
        wait_until_gone(lambda: _belongings(engine, home), pause=0.1, patience=LEAVING_SECONDS)
    left = _belongings(engine, home)
    for kind, found in left:
        with suppress(NotFound):
            if kind == "container":
                engine.client.remove_container(found["Id"], force=True)
            else:
                engine.client.remove_network(found["Id"])
    return [f"{kind} {found.get('Name') or found['Names'][0]}" for kind, found in left]


def _belongings(engine: Engine, home: Path) -> list[tuple[str, dict[str, Any]]]:
    from vtrain.containers.engine import HOME_LABEL
    from vtrain.privacy import home_label

    HOMES.add(home_label(home))
    filters = {"label": f"{HOME_LABEL}={home_label(home)}"}
    containers = engine.client.containers(all=True, filters=filters)
    networks = engine.client.networks(filters=filters)
    return [("container", found) for found in containers] + [("network", found) for found in networks]


@pytest.fixture(scope="session")
def loopback_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of an empty registry on loopback, where engines of this machine may push without TLS."""
    program = shutil.which("docker-registry")
    if program is None:
        lacking("no docker-registry on PATH (Debian's package docker-registry)")
    folder = tmp_path_factory.mktemp("registry")
    config = folder / "config.yml"
    storage = f"{{filesystem: {{rootdirectory: {folder / 'storage'}}}, delete: {{enabled: true}}}}"
    config.write_text(f"version: 0.1\nstorage: {storage}\nhttp: {{addr: '127.0.0.1:0'}}\n")
    log = folder / "log"
    with log.open("wb") as out, subprocess.Popen([program, "serve", str(config)], stderr=out) as server:
        try:
            yield f"127.0.0.1:{_port_of(server, log)}"
        finally:
            server.terminate()
    shutil.rmtree(folder, ignore_errors=True)


def _port_of(server: subprocess.Popen[bytes], log: Path) -> str:
    """The port that the registry has chosen."""
    while server.poll() is None:
        if found := LISTENING.search(log.read_text()):
            return found[1]
        time.sleep(0.02)
    raise AssertionError(f"docker-registry ended before it listened: {log.read_text()}")
