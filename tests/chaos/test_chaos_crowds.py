"""Many at once: commands about the same job, jobs, replicas."""

from __future__ import annotations

import os

import pytest
from aftermath import check, check_all, log, until_writing
from places import Place
from victims import kill_supervisor, until_running

from vtrain.errors import NotFoundError
from vtrain.messages import states

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

REPLICAS = int(os.environ.get("VTRAIN_CHAOS_REPLICAS") or 50)
VERBS = ("cancel", "describe", "delete", "stream-logs", "wait", "cancel", "delete", "describe")


def test_commands_about_the_same_job(place: Place) -> None:
    names = [place.submit(place.job({"lines": lines})) for lines in (10, 10**6)]
    until_running(place, names[1:])
    for name in names:
        crowd = [place.command("custom-jobs", verb, name) for verb in VERBS]
        kill_supervisor(place, name)
        for verb, process in zip(VERBS, crowd, strict=True):
            _, err = process.communicate()
            assert b"Traceback" not in err and b"unexpectedly" not in err, f"{verb}: {err.decode()}"
        place.tally.event("commands at once about one job", len(crowd))
    for name in names:
        assert gone(place, name) or states.has_ended(place.ended(name).state)
        for process in [place.command("custom-jobs", "delete", name) for _ in range(3)]:
            process.communicate()
        assert gone(place, name) and not place.folder(name).path.exists()
    check_all(place)


def gone(place: Place, name: str) -> bool:
    """Whether there is no such job any more."""
    try:
        place.backend.get(name)
    except NotFoundError:
        return True
    return False


def test_many_replicas_in_one_job(place: Place) -> None:
    job = place.job({"pause": 0.2, "code": 3}, pools=(1, REPLICAS - 1))
    name = place.submit(job)
    until_running(place, [name])
    for _ in range(3):
        kill_supervisor(place, name)
        until_running(place, [name])
    until_writing(place, job)
    place.enough(job.display_name)
    check(place, name, states.FAILED)
    assert len({entry.task_name for entry in log(place, name)}) == REPLICAS + 1
    place.tally.event("replicas in one job", REPLICAS)
    check_all(place)


def test_fifty_jobs_at_once(place: Place) -> None:
    count = 50 if place.kind == "process" else 12
    jobs = [place.job({"pause": 0.2}) for _ in range(count)]
    names = [place.submit(job) for job in jobs]
    until_running(place, names)
    for name in place.chance.sample(names, 10):
        kill_supervisor(place, name)
    place.enough(*(job.display_name for job in jobs))
    for name in names:
        check(place, name, states.SUCCEEDED)
    place.tally.event("jobs at once", count)
    check_all(place)
