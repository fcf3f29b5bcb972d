"""Slots of a persistent resource: supervisors, and the processes that keep modules imported, are killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from lib.docker_engines import remaining
from lib.environment_packages import wheel
from lib.local_jobs import processes_of
from lib.waiting import wait_until
from places import Place
from victims import kill, kill_supervisor

from vtrain.messages import states
from vtrain.runtime.locks import lock_holder

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

JOBS, AT_ONCE = 30, 3
DEATHS = 4
"""Supervisors of a job that are killed: without a bound, a slow machine would do nothing but start them."""
LINES = 10
TRAINER = f"""
import time
{{first}}
print("begins", flush=True)
for number in range({LINES}):
    print("line", number, flush=True)
    time.sleep(0.05)
"""
TEAM = "--persistent-resource-id=team"
POOL = "machine-type=n1-standard-4"


def test_jobs_notice_nothing_of_it(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = _pool(place, tmp_path, monkeypatch)
    preload = ["--preload=framework"] if place.kind == "process" else []
    resource = ["persistent-resources", "create", TEAM, f"--resource-pool-spec={POOL},replica-count=2"]
    place.run(*resource, *preload, "--backend=local")
    create = ["custom-jobs", "create", f"--backend={place.kind}", TEAM, f"--worker-pool-spec={pool}"]
    place.run(*create, "--display-name=first", "--wait")
    left = [f"job{number}" for number in range(JOBS)]
    living: list[str] = []
    deaths: Counter[str] = Counter()

    def over() -> bool:
        living[:] = [name for name in living if not states.has_ended(place.backend.get(name).state)]
        while left and len(living) < AT_ONCE:
            title = left.pop()
            place.run(*create, f"--display-name={title}")
            living.append(place.named(title))
        mortal = [name for name in living if deaths[name] < DEATHS]
        if mortal and place.chance.random() < 0.4:
            name = place.chance.choice(mortal)
            deaths[name] += kill_supervisor(place, name)
        if place.kind == "process" and place.chance.random() < 0.3:
            _kill_preloader(place)
        return not living

    wait_until(over, pause=0.1, patience=500)
    warm = 0
    for job in place.jobs():
        assert job.state == states.SUCCEEDED, job.error
        lines = place.run("custom-jobs", "stream-logs", job.name, "--format=value(message)").splitlines()
        own = [line for line in lines if line.startswith(("begins", "line "))]
        assert own == ["begins", *(f"line {number}" for number in range(LINES))], job.name
        warm += any("started with framework" in line for line in lines)
        place.tally.add("jobs")
    assert (warm > 0) == (place.kind == "process")
    place.run("persistent-resources", "delete", "team", "--backend=local", "-q")
    _check_nothing_left(place)


def _pool(place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The worker pool of the jobs, whose trainer is in that folder."""
    first = "import framework" if place.kind == "process" else ""
    (folder / "code").mkdir()
    (folder / "code" / "train.py").write_text(TRAINER.format(first=first))
    pool = f"{POOL},local-package-path={folder / 'code'},script=train.py"
    if place.kind == "docker":
        return f"{pool},executor-image-uri={place.image}"
    wheel(folder / "wheels", "framework", code="")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder / "wheels"))
    return f"{pool},requirements=framework"


def _kill_preloader(place: Place) -> None:
    """End a process that keeps modules imported, or is about to."""
    holders = [lock_holder(lock) for lock in place.home.glob("slots/*/*.lock")]
    for pid in [pid for pid in holders if pid > 1][:1]:
        if kill(pid):
            place.tally.kill("waiting process", "run")


def _check_nothing_left(place: Place) -> None:
    wait_until(lambda: not processes_of(place.home), "processes are left")
    assert [*place.home.glob("slots/*")] == []
    if place.address is not None:
        place.run("gc", "--kind=container", "-q")
        with place.engine() as engine:
            assert remaining(engine, place.home) == []
