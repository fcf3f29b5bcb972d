"""pip's configuration alone names an index and its certificate: whatever fetches packages goes by it."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from lib.docker_engines import lacking
from lib.environment_packages import direct_sdist, wheel
from lib.private_index import LOGIN, PrivateIndex, forget_settings, private_index

from vtrain.containers.engine import IMAGE_HOME_LABEL, Engine
from vtrain.containers.images import list_images
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource
from vtrain.privacy import home_label
from vtrain.runtime.environments.environment import EnvironmentSpec, make_environment, plan_environment

BACKEND = """
import io, tarfile

def build_sdist(folder, config_settings=None):
    with tarfile.open(f"{folder}/trainer-1.tar.gz", "w:gz") as archive:
        archive.add("trainer", "trainer-1/trainer")
        metadata = b"Metadata-Version: 2.1\\nName: trainer\\nVersion: 1\\n"
        info = tarfile.TarInfo("trainer-1/PKG-INFO")
        info.size = len(metadata)
        archive.addfile(info, io.BytesIO(metadata))
    return "trainer-1.tar.gz"
"""
PYPROJECT = '[build-system]\nrequires = ["own-backend"]\nbuild-backend = "own_backend"\n'


@pytest.fixture(autouse=True)
def nothing_else_is_set(monkeypatch: pytest.MonkeyPatch, own_home: Path) -> None:
    forget_settings(monkeypatch, dict(os.environ))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(own_home / "xdg"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")  # with uv, as nox has it


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PrivateIndex]:
    with private_index(tmp_path / "index") as served:
        packages = tmp_path / "index" / "packages"
        wheel(packages, "left")
        wheel(packages, "pip")
        wheel(packages, "own_backend", code=BACKEND)
        yield served


def configure(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_environments(index: PrivateIndex, own_home: Path, tmp_path: Path) -> None:
    configure(own_home / ".config/pip/pip.conf", index.lines)
    package = direct_sdist(tmp_path, "import left; print(left.VERSION)", ("left",))
    made = make_environment(
        plan_environment(EnvironmentSpec(packages=(package,)), tmp_path / "home"), [].append
    )
    argv = [made.python, "-m", "trainer.task"]
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "1.0\n"


@pytest.mark.parametrize("place", [".config/pip/pip.conf", ".pip/pip.conf", "named.conf"])
def test_isolated_builds(
    place: str,
    index: PrivateIndex,
    own_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configure(own_home / place, index.lines)
    if place == "named.conf":
        monkeypatch.setenv("PIP_CONFIG_FILE", str(own_home / place))
    configure(tmp_path / "project" / "pyproject.toml", PYPROJECT)
    configure(tmp_path / "project" / "trainer" / "task.py", "")
    plan = plan_sdist(TrainerSource(folder=tmp_path / "project", python_module="trainer.task"))
    assert build_sdist(plan, tmp_path / "packages").sdist.is_file()
    assert any(path.endswith("own_backend-1.0-py3-none-any.whl") for path in index.requests)


def test_doctor_names_the_index_and_the_certificate(index: PrivateIndex, own_home: Path, vtrain: Any) -> None:
    configure(own_home / ".config/pip/pip.conf", index.lines)
    assert said_by_doctor(vtrain) == ("ok", f"{index.url} answers (certificates: {index.authority})")
    configure(own_home / ".config/pip/pip.conf", f"[global]\nindex-url = {index.url}\n")
    status, text = said_by_doctor(vtrain)
    assert status == "warning"
    assert text.startswith(f"uv cannot ask {index.url}") and "invalid peer certificate" in text


def said_by_doctor(vtrain: Any) -> tuple[str, str]:
    ended = vtrain("doctor", "--backend=process", "--format=json")
    (found,) = (each for each in json.loads(ended.out) if each["check"] == "package index")
    assert LOGIN not in ended.out
    return found["status"], found["text"]


@contextmanager
def in_reach_of_builds(engine: Engine, folder: Path, login: str = "") -> Iterator[tuple[PrivateIndex, str]]:
    """An index that containers reach, and the name of its one package, which no image has yet."""
    (network,) = engine.client.networks(names=["bridge"])
    gateway = str(ipaddress.ip_network(network["IPAM"]["Config"][0]["Subnet"])[1])
    name = f"left{uuid4().hex}"
    try:
        with private_index(folder, gateway, login) as index:
            wheel(folder / "packages", name)
            yield index, name
    except OSError as error:
        lacking(f"the engine's network is not one of this machine: {error}")


def job(folder: Path, image: str, package: str) -> list[str]:
    """A command line that runs a script, which imports the package."""
    folder.mkdir()
    (folder / "train.py").write_text(f"import {package}; print({package}.VERSION)\n")
    line = ["custom-jobs", "local-run", "--backend=docker", f"--executor-image-uri={image}"]
    return [*line, f"--local-package-path={folder}", "--script=train.py", f"--requirements={package}"]


@pytest.mark.docker
@pytest.mark.parametrize("more", [[], ["--bake"]])
def test_images_keep_no_login_and_no_certificate(
    more: list[str],
    base_image: str,
    docker_engine: Engine,
    tmp_path: Path,
    own_home: Path,
    vtrain: Any,
    vtrain_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = {IMAGE_HOME_LABEL: home_label(vtrain_home)}
    monkeypatch.setenv("HTTP_PROXY", f"http://{LOGIN}@127.0.0.1:1")  # which HTTPS does not use
    with in_reach_of_builds(docker_engine, tmp_path / "index", LOGIN) as (index, package):
        configure(own_home / ".config/pip/pip.conf", index.with_login)
        line = [*job(tmp_path / "job", base_image, package), *more]
        monkeypatch.setenv("DOCKER_BUILDKIT", "0")
        refused = vtrain(*line)
        assert refused.code == 125 and "The classic builder would keep" in refused.err, refused.err
        assert not list_images(docker_engine, mine)
        monkeypatch.delenv("DOCKER_BUILDKIT")
        ended = vtrain(*line)
        assert (ended.code, ended.out.splitlines()[-1:]) == (0, ["1.0"]), ended.err
    (image,) = list_images(docker_engine, mine)
    shown = docker("history", "--no-trunc", "--format={{.CreatedBy}}", image.id) + docker("inspect", image.id)
    assert LOGIN not in refused.err + ended.err + shown
    pip = "find / -xdev -type f -path *vtrain-pip* -o -type f -name cert.pem"
    assert docker("run", "--rm", "--network=none", "--entrypoint=find", image.id, *pip.split()[1:]) == ""


@pytest.mark.docker
def test_the_classic_builder_is_told_what_is_no_secret(
    docker_engine: Engine,
    base_image: str,
    tmp_path: Path,
    own_home: Path,
    vtrain: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    with in_reach_of_builds(docker_engine, tmp_path / "index") as (index, package):
        configure(own_home / ".config/pip/pip.conf", index.lines)
        line = job(tmp_path / "job", base_image, package)
        for more in ([], ["--bake"]):
            ended = vtrain(*line, *more)
            assert (ended.code, ended.out.splitlines()[-1:]) == (0, ["1.0"]), ended.err


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True).stdout
