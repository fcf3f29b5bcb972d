"""Supervisors that are killed again and again, whatever their jobs are doing: the jobs go on."""

from __future__ import annotations

import pytest
from aftermath import check, check_all
from lib.waiting import wait_until
from places import Place
from victims import kill_supervisor, until_running

from vtrain.messages import states

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


def kill_often(place: Place, names: list[str], kills: int) -> None:
    """Kill the supervisors of these jobs in any order, and look at the jobs so that others take over."""
    until_then = place.tally.counts["kills"] + kills

    def enough() -> bool:
        name = place.chance.choice(names)
        kill_supervisor(place, name)
        place.backend.get(name)
        return place.tally.counts["kills"] >= until_then

    wait_until(enough, "the kills take too long", pause=place.chance.uniform(0.02, 0.1))


def kill_until_ended(place: Place, names: list[str], *, each: int, chance: float) -> None:
    """Kill the supervisors of these jobs until the jobs have ended: each at most so often, at random."""
    left = dict.fromkeys(names, each)

    def over() -> bool:
        living = [name for name in names if not states.has_ended(place.backend.get(name).state)]
        for name in living:
            if left[name] and place.chance.random() < chance:
                left[name] -= kill_supervisor(place, name)
        return not living

    wait_until(over, pause=0.1)


def test_while_trainers_run(place: Place) -> None:
    wanted = ((0, (1,)), (3, (1, 2)), (0, (1, 1)), (7, (1,)))
    jobs = [place.job({"code": code}, pools=pools) for code, pools in wanted]
    names = [place.submit(job) for job in jobs]
    kill_often(place, names, 6)
    until_running(place, names)
    kill_often(place, names, 24)
    place.enough(*(job.display_name for job in jobs))
    for name, state in zip(names, (states.SUCCEEDED, states.FAILED) * 2, strict=True):
        check(place, name, state)
    check_all(place)


def test_in_each_phase_of_short_jobs(place: Place) -> None:
    jobs = [place.job({"lines": 15, "crashes": [139][: number % 2]}) for number in range(8)]
    names = [place.submit(job) for job in jobs]

    kill_until_ended(place, names, each=5, chance=0.3)
    for name in names:
        check(place, name, states.SUCCEEDED)
    check_all(place)


def test_while_jobs_are_stopped(place: Place) -> None:
    jobs = [place.job({"stubborn": stubborn}, pools=(1, 1)) for stubborn in (True, False, True, False)]
    names = [place.submit(job) for job in jobs]
    until_running(place, names)
    for name in names:
        place.backend.cancel(name)

    kill_until_ended(place, names, each=3, chance=0.8)
    for name in names:
        check(place, name, states.CANCELLED)
    check_all(place)
