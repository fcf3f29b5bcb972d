"""Commands that are killed at any moment, alone or with the supervisor: there is a whole job, or none."""

from __future__ import annotations

import subprocess
import time

import pytest
from aftermath import check, check_all
from places import Place
from victims import kill_supervisor

from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

COMMANDS = 14
LINES = 25


def seconds_of_a_create(place: Place) -> float:
    """How long a create takes that nobody kills; its job stays."""
    began = time.monotonic()
    _, err = place.command("custom-jobs", "create", job=place.job({"lines": LINES})).communicate()
    assert b"Traceback" not in err, err.decode()
    return time.monotonic() - began


def kill_command(place: Place, verb: str, process: subprocess.Popen[bytes], after: float) -> None:
    """SIGKILL to the command after that time, unless it has ended before."""
    try:
        process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        process.kill()
        place.tally.kill("command", verb)
        process.communicate()


@pytest.mark.parametrize("verb", ["create", "local-run"])
def test_killed_at_any_moment(place: Place, verb: str) -> None:
    longest = seconds_of_a_create(place) * (1.2 if verb == "create" else 3)
    jobs = [place.job({"lines": LINES}) for _ in range(COMMANDS)]
    for job in jobs:
        process = place.command("custom-jobs", verb, job=job)
        kill_command(place, verb, process, place.chance.uniform(0.05, longest))
        name = place.named(job.display_name)
        if name and place.chance.random() < 0.5:
            kill_supervisor(place, name)
    for job in jobs:
        check_unless_unborn(place, job)
    check_all(place)


def test_killed_with_the_supervisor(place: Place) -> None:
    longest = seconds_of_a_create(place) * 1.2
    jobs = [place.job({"lines": LINES}) for _ in range(COMMANDS // 2)]
    for job in jobs:
        process = place.command("custom-jobs", "create", "--wait", job=job)
        time.sleep(place.chance.uniform(longest / 2, longest * 2))
        name = place.named(job.display_name)
        if name:
            kill_supervisor(place, name)
        kill_command(place, "wait", process, 0)
    for job in jobs:
        check_unless_unborn(place, job)
    check_all(place)


def check_unless_unborn(place: Place, job: CustomJob) -> None:
    """A job that the store knows runs to its end; of another one no trainer has ever run."""
    name = place.named(job.display_name)
    if name:
        check(place, name, states.SUCCEEDED)
    else:
        assert not list(place.checkpoints(job.display_name).glob("*.run*"))
        place.tally.add("creates that were killed before there was a job")


def test_a_hundred_creates_at_once(place: Place) -> None:
    count = 100 if place.kind == "process" else 10
    jobs = [place.job({"lines": 2, "pause": 0}) for _ in range(count)]
    processes = [place.command("custom-jobs", "create", job=job) for job in jobs]
    for process in processes:
        _, err = process.communicate()
        assert process.returncode == 0, err.decode()
    place.tally.event("creates at once", count)
    assert len({job.name for job in place.jobs()}) == count
    for job in jobs:
        check(place, place.named(job.display_name), states.SUCCEEDED)
    check_all(place)
