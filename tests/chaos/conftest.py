"""Places for chaos: each backend in a home of its own, one seed for all, a check after every test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.chaos_report import seed_of
from lib.docker_engines import remaining
from lib.local_jobs import processes_of
from lib.second_engine import SecondEngine
from places import Place
from victims import kill

from vtrain.messages import states


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.docker)])
def place(request: pytest.FixtureRequest, home: Path) -> Iterator[Place]:
    """A backend, whose jobs have all ended well when the test is over."""
    yield from watched_place(request, request.param, home)


@pytest.fixture
def process_place(request: pytest.FixtureRequest, home: Path) -> Iterator[Place]:
    """The backend process."""
    yield from watched_place(request, "process", home)


@pytest.fixture
def docker_place(request: pytest.FixtureRequest, home: Path) -> Iterator[Place]:
    """The backend docker."""
    yield from watched_place(request, "docker", home)


def watched_place(request: pytest.FixtureRequest, way: str, home: Path) -> Iterator[Place]:
    """A place that is counted and swept when the test is over."""
    place = open_place(request, way, home)
    yield place
    request.node.user_properties.append(place.tally.as_property())
    sweep(place)


@pytest.fixture
def engine_place(
    request: pytest.FixtureRequest, own_engine: SecondEngine, home: Path, base_image: str
) -> Iterator[Place]:
    """The backend docker, with an engine of the test's own."""
    seed = f"{seed_of(request.config)} {request.node.nodeid}"
    place = Place("docker", home, seed, image=base_image, address=own_engine.address)
    yield place
    request.node.user_properties.append(place.tally.as_property())
    sweep(place)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a short path, which the commands of the test use."""
    folder = Path(tempfile.mkdtemp(prefix="vtrain-chaos-", dir="/tmp"))
    monkeypatch.setenv("VTRAIN_HOME", str(folder / "home"))
    monkeypatch.setenv("VTRAIN_GRACE_SECONDS", "1")
    yield folder / "home"
    shutil.rmtree(folder, ignore_errors=True)


def open_place(request: pytest.FixtureRequest, kind: str, home: Path) -> Place:
    seed = f"{seed_of(request.config)} {request.node.nodeid}"
    if kind == "process":
        return Place(kind, home, seed)
    address = request.getfixturevalue("engine_address")
    return Place(kind, home, seed, image=request.getfixturevalue("base_image"), address=address)


def sweep(place: Place) -> None:
    """Where a test has failed, its jobs are ended all the same."""
    place.close()
    for job in place.jobs() if place.home.is_dir() else ():
        if not states.has_ended(job.state):
            place.backend.kill(job.name)
            place.ended(job.name)
    for pid in processes_of(place.home):
        kill(pid)
    if place.address is not None:
        with place.engine() as engine:
            remaining(engine, place.home)
