"""The clock of the machine is set back and forth: commands, supervisors and shims see another time.

The machine's own clock is everybody's, so a small library before the C library makes theirs wrong. What the
kernel and the Docker engine write themselves (times of files, of a container's lines) stays right.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from aftermath import check, check_all, until_writing
from lib.docker_engines import lacking
from places import Place
from victims import kill_supervisor, until_running

from vtrain.messages import states

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

SOURCE = Path(__file__).with_name("set_clock.c")
HOUR = 3600
STEPS = (-HOUR, -30 * 24 * HOUR, 2 * HOUR, 0)
TIMEOUT_SECONDS = 5


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes a clock wrong."""
    compiler = shutil.which("cc")
    if compiler is None:
        lacking("there is no C compiler, cc, on PATH")
    made = tmp_path_factory.mktemp("clock") / "set_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", made, SOURCE, "-ldl"], check=True)
    return made


@pytest.fixture
def clock(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says by how many seconds the clock is wrong, for processes that start from now on."""
    file = tmp_path / "wrong"
    file.write_text("0")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("CHAOS_CLOCK", str(file))
    seen = subprocess.run(["date", "+%s"], check=True, capture_output=True, env=os.environ | {})
    assert abs(int(seen.stdout) - time.time()) < HOUR / 2
    return file


def test_set_back_and_forth_while_jobs_run(place: Place, clock: Path) -> None:
    jobs = [place.job({"code": code}, pools=pools) for code, pools in ((0, (1, 1)), (3, (1,)))]
    names = [place.submit(job) for job in jobs]
    for job in jobs:
        until_writing(place, job)
    for step in STEPS:
        clock.write_text(str(step))
        place.tally.event("clocks set")
        time.sleep(place.chance.uniform(0.2, 0.8))
        kill_supervisor(place, place.chance.choice(names))
        until_running(place, names)
        name = place.named(started_by_a_command(place))
        check(place, name, states.SUCCEEDED)
    clock.write_text(str(STEPS[0]))
    place.enough(*(job.display_name for job in jobs))
    for name, state in zip(names, (states.SUCCEEDED, states.FAILED), strict=True):
        check(place, name, state)
    check_all(place)


def started_by_a_command(place: Place) -> str:
    """The display name of a short job that a command has created and waited for."""
    job = place.job({"lines": 5})
    process = place.command("custom-jobs", "create", "--wait", job=job)
    _, err = process.communicate()
    assert process.returncode == 0, err.decode()
    return job.display_name


def test_a_timeout_is_not_moved(place: Place, clock: Path) -> None:
    for step in (-HOUR, HOUR):
        clock.write_text("0")
        job = place.job(timeout=f"{TIMEOUT_SECONDS}s")
        began = time.monotonic()
        name = place.submit(job)
        until_writing(place, job)
        clock.write_text(str(step))
        place.tally.event("clocks set")
        check(place, name, states.CANCELLED)
        assert time.monotonic() - began >= TIMEOUT_SECONDS
    check_all(place)
