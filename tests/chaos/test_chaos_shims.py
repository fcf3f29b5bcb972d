"""Shims that are killed: their replicas begin again, and what was written stays."""

from __future__ import annotations

import pytest
from aftermath import check, check_all
from lib.waiting import wait_until
from places import Place
from victims import kill_shim, kill_supervisor, replicas, until_running

from vtrain.messages import states
from vtrain.runtime.recovery import RESTARTS_PER_JOB, RESTARTS_PER_REPLICA

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


def test_killed_at_random(process_place: Place) -> None:
    place = process_place
    whole = {"restart_job_on_worker_restart": True}
    fast, failing = {"pause": 0.005}, {"code": 5}
    jobs = [place.job(fast, pools=(1, 2)), place.job(pools=(1, 1), **whole), place.job(failing)]
    names = [place.submit(job) for job in jobs]
    until_running(place, names)
    tasks = [(name, replica.name) for name in names for replica in replicas(place.folder(name))]
    left = dict.fromkeys(tasks, RESTARTS_PER_REPLICA)

    def enough() -> bool:
        name, task = place.chance.choice([key for key, times in left.items() if times])
        replica = next(found for found in replicas(place.folder(name)) if found.name == task)
        left[name, task] -= kill_shim(place, replica)
        if place.chance.random() < 0.2:
            kill_supervisor(place, name)
        place.backend.get(name)
        return sum(left.values()) <= len(left)  # some restarts stay unused: no job may run out of them

    wait_until(enough, pause=0.1)
    until_running(place, names)
    place.enough(*(job.display_name for job in jobs))
    for name, state in zip(names, (states.SUCCEEDED, states.SUCCEEDED, states.FAILED), strict=True):
        check(place, name, state)
    check_all(place)


def test_killed_until_the_rules_give_up(process_place: Place) -> None:
    place = process_place
    name = place.submit(place.job())
    kills = 0

    def over() -> bool:
        nonlocal kills
        kills += sum(kill_shim(place, replica) for replica in replicas(place.folder(name)))
        return states.has_ended(place.backend.get(name).state)

    wait_until(over)
    job = check(place, name, states.FAILED)
    assert kills == (RESTARTS_PER_REPLICA + 1) * (RESTARTS_PER_JOB + 1)
    assert job.error is not None and job.error.details[0]["reason"] == "SUPERVISION_LOST"
    check_all(place)
