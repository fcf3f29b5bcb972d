"""`vtrain gc --images`, on images that only the test knows."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vtrain.containers.build import BuildRequest, build_image
from vtrain.containers.engine import HOME_LABEL, IMAGE_HOME_LABEL, JOB_LABEL, KIND_LABEL, Engine
from vtrain.containers.images import find_image, list_images, remove_image
from vtrain.messages.names import CUSTOM_JOBS
from vtrain.privacy import home_label
from vtrain.runtime.store import Record, Store

JOB = "1234567890123456789"
NAME = f"projects/local/locations/us-central1/customJobs/{JOB}"
MakeImage = Callable[..., str]


def test_gc_of_images_needs_an_engine(vtrain) -> None:
    ended = vtrain("gc", "--images")
    assert ended.code == 1
    assert "DOCKER_HOST" in ended.err


@pytest.fixture
def make_image(docker_engine: Engine, base_image: str, vtrain_home: Path) -> Iterator[MakeImage]:
    """Builds images of this test's home, or of another one."""
    names: list[str] = []

    def make(*more_names: str, home: Path = vtrain_home) -> str:
        name = f"vtrain/gc-test:{uuid.uuid4().hex[:16]}"
        names.extend((name, *more_names))
        text = f"FROM {base_image}\nENV MADE_FOR={name}\n"
        labels = {KIND_LABEL: "image", IMAGE_HOME_LABEL: home_label(home)}
        request = BuildRequest(tags=(name, *more_names), dockerfile=text, labels=labels)
        build_image(docker_engine, request, lambda _line: None)
        return name

    yield make
    for name in names:
        remove_image(docker_engine, name)


def listed(vtrain: Callable[..., Any], *flags: str) -> dict[str, str]:
    ended = vtrain("gc", "--images", "--format=json", *flags)
    assert ended.code == 0, ended.err
    return {entry["name"]: entry["status"] for entry in json.loads(ended.out)}


@pytest.mark.docker
def test_a_dry_run_lists_and_removes_nothing(vtrain, make_image: MakeImage, docker_engine: Engine) -> None:
    name = make_image()
    ended = vtrain("gc", "--images", "--dry-run")
    assert ended.code == 0
    header, line = ended.out.splitlines()
    assert header.split() == ["NAME", "KIND", "SIZE", "CREATED", "STATUS"]
    assert line.startswith(name)
    assert "would be removed" in line
    assert find_image(docker_engine, name) is not None


@pytest.mark.docker
def test_what_a_container_or_a_job_uses_stays(
    vtrain, make_image: MakeImage, docker_engine: Engine, vtrain_home: Path
) -> None:
    free, contained, named = make_image(), make_image(), make_image()
    other = f"vtrain-test/{uuid.uuid4().hex}:1"
    make_image(other)
    _store_job(vtrain_home, named, "JOB_STATE_PENDING")
    container = docker_engine.client.create_container(contained)["Id"]
    try:
        assert listed(vtrain) == {
            free: "removed",
            contained: "kept: a container uses it",
            named: "kept: a job uses it",
        }
    finally:
        docker_engine.client.remove_container(container)
    assert find_image(docker_engine, free) is None
    assert all(find_image(docker_engine, name) for name in (contained, named, other))
    assert listed(vtrain) == {contained: "removed", named: "kept: a job uses it"}
    assert vtrain("gc", "--images").err == "Nothing is removed: STATUS says why.\n"


@pytest.mark.docker
def test_images_of_another_home_stay_unless_asked_for(
    vtrain, make_image: MakeImage, docker_engine: Engine, tmp_path: Path
) -> None:
    own, foreign = make_image(), make_image(home=tmp_path)
    assert listed(vtrain) == {own: "removed"}
    assert find_image(docker_engine, foreign) is not None
    planned = listed(vtrain, "--all-homes", "--dry-run")
    assert planned[foreign] == "would be removed"


@pytest.mark.docker
def test_images_say_which_home_made_them(
    vtrain, docker_engine: Engine, base_image: str, tmp_path: Path, vtrain_home: Path
) -> None:
    (tmp_path / "task.py").write_text(f"print({uuid.uuid4().hex!r})\n")
    made = vtrain(
        "package",
        "image",
        f"--local-package-path={tmp_path}",
        "--script=task.py",
        f"--executor-image-uri={base_image}",
        "--format=json",
    )
    assert made.code == 0, made.err
    image = find_image(docker_engine, json.loads(made.out)["image"])
    assert image is not None
    assert image.labels[IMAGE_HOME_LABEL] == home_label(vtrain_home)


SETUP = """
from setuptools import setup
commands = {{"console_scripts": ["gc-test=task:x"]}}
setup(name="gc-test", version="{number}", py_modules=["task"], entry_points=commands)
"""


@pytest.mark.docker
@pytest.mark.pages
def test_the_runtime_image_of_a_job_stays_for_another_home(
    vtrain,
    docker_engine: Engine,
    base_image: str,
    tmp_path: Path,
    vtrain_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A package with commands of its own is installed into an image, which vtrain builds for the job."""
    (tmp_path / "setup.py").write_text(SETUP.format(number=uuid.uuid4().int))
    (tmp_path / "task.py").write_text("print('trained')\n")
    pool = f"machine-type=n1-standard-4,executor-image-uri={base_image},python-module=task"
    words = ("custom-jobs", "create", "--backend=docker", "--display-name=gc", "--wait")
    ended = vtrain(*words, f"--worker-pool-spec={pool},local-package-path={tmp_path}")
    assert ended.code == 0, ended.err
    (image,) = list_images(docker_engine, {KIND_LABEL: "runtime", IMAGE_HOME_LABEL: home_label(vtrain_home)})
    monkeypatch.setenv("VTRAIN_HOME", str(tmp_path / "another home"))
    assert listed(vtrain, "--dry-run") == {}
    assert listed(vtrain, "--dry-run", "--all-homes")[image.tags[0]] == "would be removed"
    monkeypatch.setenv("VTRAIN_HOME", str(vtrain_home))
    assert listed(vtrain) == {image.tags[0]: "removed"}


@pytest.mark.docker
def test_nothing_to_remove_is_said(vtrain, make_image: MakeImage) -> None:
    ended = vtrain("gc", "--images")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "There is nothing to remove.\n"


@pytest.mark.docker
@pytest.mark.parametrize("state", ["", "JOB_STATE_FAILED", "JOB_STATE_RUNNING", "no row"])
def test_containers_and_networks_stay_only_with_a_job_that_runs(
    vtrain, make_image: MakeImage, docker_engine: Engine, base_image: str, vtrain_home: Path, state: str
) -> None:
    if state == "no row":  # the store was moved away
        (vtrain_home / "jobs" / JOB).mkdir(parents=True)
        (vtrain_home / "jobs" / JOB / "spec.json").touch()
    elif state:
        _store_job(vtrain_home, base_image, state)
    stays = state in ("JOB_STATE_RUNNING", "no row")
    labels = {JOB_LABEL: JOB, HOME_LABEL: home_label(vtrain_home)}
    client = docker_engine.client
    name = f"vtrain-gc-{uuid.uuid4().hex[:8]}"
    network = client.create_network(name, labels=labels, ipam=_subnet())["Id"]
    config = client.create_host_config(network_mode=name)
    container = client.create_container(
        base_image, ["sleep", "600"], name=name, labels=labels, host_config=config
    )["Id"]
    client.start(container)
    expected = {} if stays else {name: "removed"}
    assert listed(vtrain) == expected
    filters = {"label": f"{HOME_LABEL}={labels[HOME_LABEL]}"}
    left = client.containers(all=True, filters=filters), client.networks(filters=filters)
    if stays:
        assert [len(found) for found in left] == [1, 1]
        client.remove_container(container, force=True)
        client.remove_network(network)
    else:
        assert left == ([], [])


def _subnet() -> Any:
    from docker.types import IPAMConfig, IPAMPool

    number = uuid.uuid4().int % 200
    return IPAMConfig(pool_configs=[IPAMPool(subnet=f"10.214.{number}.0/28")])


def _store_job(home: Path, image: str, state: str) -> None:
    pools = [{"containerSpec": {"imageUri": image}}, {}]
    document = {"name": NAME, "state": state, "jobSpec": {"workerPoolSpecs": pools}}
    Store.open(home).insert(
        Record(
            name=NAME,
            collection=CUSTOM_JOBS,
            state=state,
            create_time="2026-01-01T00:00:00Z",
            backend="docker",
            document=json.dumps(document),
        )
    )
