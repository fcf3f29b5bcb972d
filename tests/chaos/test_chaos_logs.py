"""Whatever writes a log is killed while it writes: each line is shown once, to each reader, at any time."""

from __future__ import annotations

import os
from collections import defaultdict

import msgspec
import pytest
from aftermath import check, check_all, log
from lib.waiting import wait_until
from places import Place
from victims import kill_shim, kill_supervisor, replicas, until_running

from vtrain.messages import states
from vtrain.messages.log import LogEntry, LogQuery
from vtrain.runtime.process.journal import segment_numbers
from vtrain.runtime.recovery import RESTARTS_PER_REPLICA

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

KILLS = int(os.environ.get("VTRAIN_CHAOS_LOG_KILLS") or 40)
"""On each backend. Read here: a test has no such variable."""
KILLS_OF_A_JOB = 25
SHARE_OF_SHIMS = 0.4
SMALL_PAGE = 2000


class Follower:
    """Reads the log of a job page by page while it is written."""

    def __init__(self, place: Place, name: str) -> None:
        self.entries: list[LogEntry] = []
        self._place = place
        self._query = LogQuery(name=name, limit=place.chance.choice([SMALL_PAGE, 2**22]))

    def read(self) -> None:
        """All that is there now."""
        while True:
            page = self._place.backend.logs(self._query)
            assert page.trouble == ""
            self.entries += page.entries
            self._query = msgspec.structs.replace(self._query, cursor=page.cursor)
            if not page.entries:
                return

    def check(self) -> None:
        """It has seen what a later reader sees."""
        self.read()
        later = log(self._place, self._query.name)
        assert texts(self.entries) == texts(later)
        for entries in (self.entries, later):
            assert len({entry.insert_id for entry in entries}) == len(entries)


def texts(entries: list[LogEntry]) -> dict[tuple[str, int, str], str]:
    """The lines of each stream of each attempt."""
    found: dict[tuple[str, int, str], str] = defaultdict(str)
    for entry in entries:
        found[entry.task_name, entry.attempt, entry.stream] += f"{entry.message}\n"
    return dict(found)


def wave(place: Place, kills: int) -> None:
    """A few jobs to their end; so many of their processes are killed meanwhile."""
    whole = {"restart_job_on_worker_restart": True}
    fast, slow = {"pause": 0.002, "halves": True}, {"pause": 0.01, "halves": True, "code": 7}
    jobs = [place.job(fast, pools=(1, 2)), place.job(slow), place.job(slow, pools=(1, 1), **whole)]
    names = [place.submit(job) for job in jobs]
    followers = [Follower(place, name) for name in names]
    until_running(place, names)
    tasks = [(name, replica.name) for name in names for replica in replicas(place.folder(name))]
    shims = dict.fromkeys(tasks if place.kind == "process" else (), RESTARTS_PER_REPLICA - 1)
    enough = place.tally.counts["kills"] + kills

    def over() -> bool:
        left = [key for key, times in shims.items() if times]
        if left and place.chance.random() < SHARE_OF_SHIMS:
            name, task = place.chance.choice(left)
            replica = next(found for found in replicas(place.folder(name)) if found.name == task)
            shims[name, task] -= kill_shim(place, replica)
        if place.tally.counts["kills"] < enough:
            kill_supervisor(place, place.chance.choice(names))
        for name, follower in zip(names, followers, strict=True):
            place.backend.get(name)
            follower.read()
        return place.tally.counts["kills"] >= enough

    wait_until(over, "the kills take too long", pause=place.chance.uniform(0.02, 0.2))
    until_running(place, names)
    place.enough(*(job.display_name for job in jobs))
    for name, state in zip(names, (states.SUCCEEDED, states.FAILED, states.FAILED), strict=True):
        check(place, name, state)
    for follower in followers:
        follower.check()
    for name, task in tasks:
        place.tally.event("segments", len(segment_numbers(str(place.folder(name).logs / task))))


def test_each_line_is_shown_once(place: Place) -> None:
    for begun in range(0, KILLS, KILLS_OF_A_JOB):
        wave(place, min(KILLS - begun, KILLS_OF_A_JOB))
    check_all(place)
