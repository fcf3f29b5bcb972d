"""Garbage collection at every step of a create under way: what the create needs stays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vtrain import submit
from vtrain.backends.local import LocalBackend
from vtrain.engine.folder import JobFolder
from vtrain.leftovers import leftover
from vtrain.leftovers.leftover import Search
from vtrain.leftovers.sweep import on_machine

DAY = 86400.0
PATIENCE_SECONDS = 120.0


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
def create(vtrain: Any, tmp_path: Path) -> Callable[..., Any]:
    """Runs `create` for a trainer that reads its own package."""
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").write_text("")
    (tmp_path / "trainer" / "task.py").write_text("print('trained')\n")
    pool = f"machine-type=n1-standard-4,local-package-path={tmp_path},python-module=trainer.task"
    argv = "custom-jobs create --backend=process --display-name=a --staging-bucket=gs://staging".split()
    return lambda *flags: vtrain(*argv, f"--worker-pool-spec={pool}", "--format=value(name)", *flags)


@pytest.fixture
def collector(
    vtrain: Any, create: Callable[..., Any], vtrain_home: Path, monkeypatch: pytest.MonkeyPatch
) -> Collector:
    """Collects at each step of the next create, which finds package and environment of long ago."""
    first = create("--wait")
    assert first.code == 0, first.err
    moment = time.time() - 40 * DAY
    for path in vtrain_home.rglob("*"):
        os.utime(path, (moment, moment), follow_symlinks=False)
    made = Collector(vtrain_home, monkeypatch, first.out.strip())
    made.behind(submit, "package_and_stage")
    made.behind(JobFolder, "make")
    made.behind(LocalBackend, "_insert")
    made.behind(LocalBackend, "_spawn_supervisor")
    return made


def test_a_create_loses_nothing(vtrain: Any, create: Callable[..., Any], collector: Collector) -> None:
    ended = create()
    assert ended.code == 0, ended.err
    name = ended.out.strip()
    deadline = time.monotonic() + PATIENCE_SECONDS
    shown = ""
    while shown not in ("SUCCEEDED", "FAILED", "CANCELLED"):
        assert time.monotonic() < deadline
        collector.collect()
        described = vtrain("custom-jobs", "describe", name, "--format=value(state)")
        shown = described.out.strip().removeprefix("JOB_STATE_")
    assert shown == "SUCCEEDED"
    assert vtrain("custom-jobs", "stream-logs", name).out.count("trained") == 1
    needed = [entry for entry in collector.removed if not entry.startswith("environment ")]
    assert collector.runs > 4 and needed == []


def test_without_the_hour_of_grace_a_create_would_lose_what_it_needs(
    vtrain: Any, create: Callable[..., Any], collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard is what keeps it: the same steps without it remove the package before there is a job."""
    monkeypatch.setattr(leftover, "FRESH_SECONDS", 0.0)
    ended = create()
    packages = [entry for entry in collector.removed if entry.startswith("package ")]
    folders = [entry for entry in collector.removed if entry.startswith("job jobs/")]
    assert len(packages) == 2 and len(folders) == 1
    assert ended.code == 1
    assert vtrain("custom-jobs", "list", "--format=value(name)").out == ""
