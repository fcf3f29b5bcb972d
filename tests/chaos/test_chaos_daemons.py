"""Trainers that leave daemons behind, while shims, supervisors, trainers and daemons are killed at random.

The daemons have left their parents, their session and their environment. The full number of kills is that of
`nox -s chaos`; else there are a few.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from aftermath import check_all
from lib.chaos_report import KILLS_VARIABLE
from lib.waiting import wait_until
from places import Place
from victims import commands, kill, kill_shim, kill_supervisor, replicas

from vtrain.messages import states
from vtrain.runtime.folder import ReplicaFolder
from vtrain.runtime.locks import lock_holder

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

JOBS = 4
KILLS = 200 if os.environ.get(KILLS_VARIABLE) else 20
"""Read here: a test has no such variable."""
PAUSE_SECONDS = 0.02
TRAINER = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(os.environ["TMPDIR"]).parent
program = "import os, pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))"
program += "; time.sleep(3600)"
argv = [sys.executable, "-I", "-S", "-c", program, str(folder / "daemon")]
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    os.execve(sys.executable, argv, {})
time.sleep(3600)
"""


VICTIMS = (
    ("shim",),
    ("shim", "supervisor"),
    ("supervisor", "shim"),
    ("supervisor",),
    ("trainer",),
    ("daemon",),
)


def daemon_of(place: Place, replica: ReplicaFolder) -> int:
    """The living daemon of an attempt; 0 while it has none."""
    path = replica.path / "daemon"
    pid = int(path.read_text() or 0) if path.exists() else 0
    return pid if pid in daemons(place) else 0


def is_under_way(replica: ReplicaFolder) -> bool:
    """Whether an attempt runs and has left its daemon behind: else supervisors alone would be killed."""
    return (replica.path / "daemon").exists() and lock_holder(replica.lock) > 0 and replica.exit() is None


def kill_one(place: Place, name: str, replica: ReplicaFolder, victim: str) -> bool:
    """SIGKILL to something of a replica; whether it was there."""
    if victim == "shim":
        return kill_shim(place, replica)
    if victim == "supervisor":
        return kill_supervisor(place, name)
    started = json.loads((replica.path / "started.json").read_text())
    pid = daemon_of(place, replica) if victim == "daemon" else started["pid"]
    if pid and lock_holder(replica.lock) > 0 and replica.exit() is None and kill(pid):
        place.tally.kill(victim, "run")
        return True
    return False


def test_daemons_never_outlive_their_job(process_place: Place) -> None:
    place = process_place
    bystander = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import time; time.sleep(3600)"], env={}, start_new_session=True
    )
    names: list[str] = []
    kills = 0
    try:
        while kills < KILLS:
            living = [name for name in names if not states.has_ended(place.backend.get(name).state)]
            if len(living) < JOBS:
                names.append(place.submit(place.job(code=TRAINER, pools=(1, 1))))
                continue
            name = place.chance.choice(living)
            found = [replica for replica in replicas(place.folder(name)) if is_under_way(replica)]
            if not found:  # what was killed before is being made again
                time.sleep(PAUSE_SECONDS)
                continue
            replica = place.chance.choice(found)
            for victim in place.chance.choice(VICTIMS):
                kills += kill_one(place, name, replica, victim)
        for name in names:
            place.backend.cancel(name)
            place.ended(name)
            place.tally.add("jobs")
        check_all(place)
        wait_until(lambda: not daemons(place), "a daemon goes on")
        assert bystander.poll() is None, "a process was killed that is not the job's"
    finally:
        bystander.kill()
        bystander.wait()


def daemons(place: Place) -> list[int]:
    """The daemons of all attempts that still live: their folder is on their command line."""
    mark = f"{place.home}/jobs/".encode()
    return [pid for pid, command in commands().items() if mark in command]
