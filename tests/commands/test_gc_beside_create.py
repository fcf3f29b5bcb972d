"""Garbage collection at every step of a create under way: what the create needs stays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from lib.waiting import wait_until

from vtrain.backends.docker import garbage
from vtrain.containers.engine import HOME_LABEL, JOB_LABEL
from vtrain.core import submission
from vtrain.privacy import home_label
from vtrain.runtime import enrolment, supervisor_process
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.gc import candidate
from vtrain.runtime.gc.candidate import Search
from vtrain.runtime.gc.sweep import on_machine

DAY = 86400.0
PATIENCE_SECONDS = 120.0


TRAINER = """
import pathlib, time
while not pathlib.Path({go!r}).exists():
    time.sleep(0.02)
print("trained")
"""
"""Runs until it may end: an ended job may go, so that nobody collects then."""


class Collector:
    """Runs garbage collection for things of any age after each step that it is put behind."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
        """`first` is a job of long ago, which may go."""
        self.home = home
        self.first = first
        self.monkeypatch = monkeypatch
        self.runs = 0
        self.removed: list[str] = []

    def behind(self, owner: Any, step: str) -> None:
        """Collect each time after that step, which does what it always does."""
        act: Callable[..., Any] = getattr(owner, step)

        def act_and_collect(*values: Any, **named: Any) -> Any:
            result = act(*values, **named)
            self.collect()
            return result

        self.monkeypatch.setattr(owner, step, act_and_collect)

    def collect(self) -> None:
        """Remove all that may go, as `vtrain gc --older-than=0s` does."""
        self.runs += 1
        for found in on_machine(Search(home=self.home, older_than=0.0, now=time.time())):
            if not found.kept and not found.discard() and found.name != self.first:
                self.removed.append(f"{found.kind} {found.name}")


@pytest.fixture
def go(vtrain_home: Path) -> Path:
    """The trainers may end when this is there; it lies outside their package."""
    return vtrain_home.parent / "go"


@pytest.fixture
def create(vtrain: Any, tmp_path: Path, go: Path) -> Callable[..., Any]:
    """Runs `create` for a trainer of its own package."""
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").write_text("")
    (tmp_path / "trainer" / "task.py").write_text(TRAINER.format(go=str(go)))
    pool = f"machine-type=n1-standard-4,local-package-path={tmp_path},python-module=trainer.task"
    argv = "custom-jobs create --backend=process --display-name=a --staging-bucket=gs://staging".split()
    return lambda *flags: vtrain(*argv, f"--worker-pool-spec={pool}", "--format=value(name)", *flags)


@pytest.fixture
def collector(
    create: Callable[..., Any], vtrain_home: Path, go: Path, monkeypatch: pytest.MonkeyPatch
) -> Collector:
    """Collects at each step of the next create, which finds package and environment of long ago."""
    go.touch()
    first = create("--wait")
    assert first.code == 0, first.err
    go.unlink()
    moment = time.time() - 40 * DAY
    for path in vtrain_home.rglob("*"):
        with suppress(FileNotFoundError):  # a file of SQLite, when the supervisor ends
            os.utime(path, (moment, moment), follow_symlinks=False)
    made = Collector(vtrain_home, monkeypatch, first.out.strip())
    made.behind(submission, "package_and_stage")
    made.behind(JobFolder, "make")
    made.behind(enrolment, "_insert")
    made.behind(supervisor_process, "start_supervisor")
    return made


def test_a_create_loses_nothing(
    vtrain: Any, create: Callable[..., Any], collector: Collector, go: Path
) -> None:
    ended = create()
    assert ended.code == 0, ended.err
    name = ended.out.strip()

    def is_running() -> bool:
        collector.collect()
        return vtrain("custom-jobs", "describe", name, "--format=value(state)").out == "JOB_STATE_RUNNING\n"

    wait_until(is_running)
    collector.collect()
    go.touch()
    assert vtrain("custom-jobs", "wait", name).code == 0
    assert vtrain("custom-jobs", "stream-logs", name).out.count("trained") == 1
    needed = [entry for entry in collector.removed if not entry.startswith("environment ")]
    assert collector.runs > 4 and needed == []


def test_without_the_hour_of_grace_a_create_would_lose_what_it_needs(
    vtrain: Any, create: Callable[..., Any], collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard is what keeps it: the same steps without it remove the package before there is a job."""
    monkeypatch.setattr(candidate, "FRESH_SECONDS", 0.0)
    ended = create()
    packages = [entry for entry in collector.removed if entry.startswith("package ")]
    folders = [entry for entry in collector.removed if entry.startswith("job jobs/")]
    assert len(packages) == 2 and len(folders) == 1
    assert ended.code == 1
    assert vtrain("custom-jobs", "list", "--format=value(name)").out == ""


@pytest.mark.docker
def test_the_network_of_a_job_that_begins_during_the_search_stays(
    docker_engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search asks for the living jobs last: what it has listed by then is of one of them, or of none."""
    labels = {JOB_LABEL: "j-of-a-test", HOME_LABEL: home_label(tmp_path)}
    asked = garbage.living_jobs
    made: list[str] = []

    def job_begins(home: Path) -> Any:
        living = asked(home)
        made.append(docker_engine.client.create_network("vtrain-gc-beside-create", labels=labels)["Id"])
        return living

    monkeypatch.setattr(garbage, "living_jobs", job_begins)
    try:
        found = [*garbage.orphans(docker_engine, Search(home=tmp_path, older_than=0.0, now=time.time()))]
    finally:
        for network in made:
            docker_engine.client.remove_network(network)
    assert made and not found
