"""An emulator that is killed while its clients create jobs: what it has answered is kept, and ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any
from urllib.request import urlopen

import pytest
from lib.waiting import wait_until
from places import Place
from victims import kill

from vtrain.emulator.running import find_running
from vtrain.messages import states

pytest.importorskip("uvicorn", reason="needs the extra emulator")
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

ROUNDS, CLIENTS, EACH = 6, 4, 3
JOBS = "v1/projects/p/locations/us-central1/customJobs"
POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": "1",
    "pythonPackageSpec": {
        "executorImageUri": "x",
        "pythonModule": "timeit",
        "args": ["-n1", "-r1", "print('ran once')"],
    },
}


def test_what_was_answered_is_kept(process_place: Place) -> None:
    place = process_place
    answered: list[str] = []
    for number in range(ROUNDS):
        url = _start(place)
        with ThreadPoolExecutor(CLIENTS) as clients:
            created = [clients.submit(_create, url, f"job{number}-{client}") for client in range(CLIENTS)]
            time.sleep(place.chance.uniform(0.0, 0.5))
            _kill(place)
        answered += [name for each in created for name in each.result()]
    url = _start(place)
    wait_until(lambda: all(states.has_ended(job["state"]) for job in _jobs(url)), "jobs do not end")
    found = {job["name"]: job for job in _jobs(url)}
    assert set(answered) <= set(found)
    for job in found.values():
        assert job["state"] == states.SUCCEEDED, job
        log = place.run(
            "custom-jobs", "stream-logs", job["name"].rpartition("/")[2], "--format=value(message)"
        )
        assert sum(line.startswith("ran once") for line in log.splitlines()) == 1
        place.tally.add("jobs")
    _kill(place)


def _start(place: Place) -> str:
    """Start the emulator of the home; its address."""
    argv = [sys.executable, "-m", "vtrain", "emulator", "start", "--detach", "--port=0", "--backend=process"]
    env = os.environ | {"VTRAIN_HOME": str(place.home)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


def _kill(place: Place) -> None:
    for running in find_running(place.home):
        assert running.process > 1
        if kill(running.process):
            place.tally.kill("emulator", "run")


def _create(url: str, title: str) -> list[str]:
    """Create jobs until the emulator is gone; the names of those that it has answered."""
    body = json.dumps({"displayName": title, "jobSpec": {"workerPoolSpecs": [POOL]}}).encode()
    names = []
    for _ in range(EACH):
        try:
            with urlopen(f"{url}/{JOBS}", data=body, timeout=60) as answer:
                names.append(json.load(answer)["name"])
        except (OSError, HTTPException, ValueError):
            break
    return names


def _jobs(url: str) -> list[dict[str, Any]]:
    """All jobs that the emulator lists."""
    with urlopen(f"{url}/{JOBS}?pageSize=100", timeout=60) as answer:
        found: list[dict[str, Any]] = json.load(answer).get("customJobs", [])
    return found
