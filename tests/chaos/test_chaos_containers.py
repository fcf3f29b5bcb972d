"""Containers that somebody else removes, kills or stops: their replicas begin again."""

from __future__ import annotations

from contextlib import suppress

import pytest
from aftermath import check, check_all
from lib.waiting import wait_until
from places import Place
from victims import kill_supervisor, replicas, until_running

from vtrain.backends.docker.container import container_order
from vtrain.messages import states
from vtrain.runtime.folder import ReplicaFolder

pytestmark = [pytest.mark.chaos, pytest.mark.docker, pytest.mark.timeout(600)]

EACH = 3


def end_container(place: Place, replica: ReplicaFolder) -> bool:
    """Remove, kill or stop a replica's container; whether it ran."""
    from docker.errors import APIError

    if not replica.is_ordered or not replica.started() or replica.exit() is not None:
        return False
    order = container_order(replica)
    way = place.chance.choice(["removed", "killed", "stopped"])
    with suppress(APIError), place.engine() as engine:
        if way == "removed":
            engine.client.remove_container(order.name, force=True)
        elif way == "killed":
            engine.client.kill(order.name, "SIGKILL")
        else:
            engine.client.stop(order.name, timeout=1)
        place.tally.kill("container", way)
        return True
    return False


def test_ended_by_somebody_else(docker_place: Place) -> None:
    place = docker_place
    whole = {"restart_job_on_worker_restart": True}
    fast, failing = {"pause": 0.005}, {"code": 5}
    jobs = [place.job(fast, pools=(1, 2)), place.job(failing, pools=(1, 1), **whole), place.job()]
    names = [place.submit(job) for job in jobs]
    until_running(place, names)
    left = {(name, replica.name): EACH for name in names for replica in replicas(place.folder(name))}

    def enough() -> bool:
        name, task = place.chance.choice([key for key, times in left.items() if times])
        replica = next(found for found in replicas(place.folder(name)) if found.name == task)
        left[name, task] -= end_container(place, replica)
        if place.chance.random() < 0.1:
            kill_supervisor(place, name)
        place.backend.get(name)
        return not any(left.values())

    wait_until(enough, pause=0.1)
    until_running(place, names)
    place.enough(*(job.display_name for job in jobs))
    for name, state in zip(names, (states.SUCCEEDED, states.FAILED, states.SUCCEEDED), strict=True):
        check(place, name, state)
    check_all(place)
