"""A Docker engine that is stopped, killed and started again while jobs run on it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TextIO

import pytest
from aftermath import check, check_all
from lib.second_engine import SecondEngine
from lib.waiting import wait_until
from places import Place
from victims import kill_supervisor, replicas

from vtrain.backends.docker.container import container_order
from vtrain.messages import states

pytestmark = [pytest.mark.chaos, pytest.mark.docker, pytest.mark.timeout(600)]

ROUNDS = 3


@pytest.mark.parametrize(
    "own_engine", [{}, {"live_restore": True}], indirect=True, ids=["plain", "live-restore"]
)
def test_stopped_and_killed(engine_place: Place, own_engine: SecondEngine) -> None:
    """What the engine itself has lost while it stopped is in its own log neither."""
    place, kept = engine_place, ExitStack()
    logs: dict[str, TextIO] = {}

    def keep_logs() -> None:
        for name, file in own_engine.container_logs().items():
            logs[name] = kept.enter_context(file)

    jobs = [place.job(), place.job({"code": 6 * 7}, pools=(1, 1))]
    names = [place.submit(job) for job in jobs]
    for _ in range(ROUNDS):
        until_containers_run(place, names)
        keep_logs()
        if place.chance.random() < 0.5:
            kill_supervisor(place, place.chance.choice(names))
        end_engine(place, own_engine)
        time.sleep(place.chance.uniform(0, 2))
        if place.chance.random() < 0.5:
            kill_supervisor(place, place.chance.choice(names))
        own_engine.start()
    until_containers_run(place, names)
    keep_logs()
    place.enough(*(job.display_name for job in jobs))
    ended = [place.ended(name) for name in names]
    with kept:
        recorded = {name: file.read() for name, file in logs.items()}
    for job, state in zip(ended, (states.SUCCEEDED, states.FAILED), strict=True):
        check(place, job.name, state, recorded=recorded)
    check_all(place)


def end_engine(place: Place, engine: SecondEngine) -> None:
    """Stop or kill the engine; one that is killed while it makes a network does not start again."""
    if place.chance.random() < 0.5:
        engine.stop()
        place.tally.event("engines stopped")
    else:
        engine.kill()
        place.tally.kill("engine", "run")


def until_containers_run(place: Place, names: list[str]) -> None:
    """The engine says of each replica's present container that it runs."""
    wait_until(lambda: all(place.backend.get(name) and containers_run(place, name) for name in names))


def containers_run(place: Place, name: str) -> bool:
    """Whether that is so of one job."""
    from docker.errors import NotFound

    attempts = replicas(place.folder(name))
    if not attempts or not all(attempt.started() and attempt.exit() is None for attempt in attempts):
        return False
    with place.engine() as engine:
        for attempt in attempts:
            order = container_order(attempt)
            try:
                if not engine.client.inspect_container(order.name)["State"]["Running"]:
                    return False
            except NotFound:
                return False
    return True
