"""Environments go when nobody has used them for long, and never under a trainer that starts."""

from __future__ import annotations

import json
import os
import time
import venv
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from vtrain.atomic import clear, set_aside
from vtrain.runtime.environments import layers
from vtrain.runtime.environments.interpreters import (
    add_site,
    site_packages,
)
from vtrain.runtime.environments.layers import claim, is_complete, last_claimed, make_once, withdraw
from vtrain.runtime.gc.candidate import ELSEWHERE
from vtrain.runtime.locks import hold_lock


def made(home, name: str, *, reads: Path | None = None, days: float = 40) -> Path:
    """An environment, or what one is made of, that was used last that many days ago."""
    folder = home.path / "environments" / name

    def build(_lock: int) -> None:
        venv.create(folder, symlinks=True)
        if reads is not None:
            add_site(folder, site_packages(reads))

    make_once(folder, build, lambda _line: None, reads)
    os.utime(folder / "complete", (home.now - days * 86400,) * 2)
    return folder


def found(home, days: float = 30) -> dict[str, str]:
    """What the search finds, and why it is kept."""
    return {candidate.name: candidate.kept for candidate in home.found("environment", days)}


def test_what_nobody_has_used_for_long_goes(home) -> None:
    old, recent = made(home, "packages/old"), made(home, "packages/recent", days=3)
    candidates = home.found("environment")
    assert [(one.name, one.kind) for one in candidates] == [("environments/packages/old", "environment")]
    assert candidates[0].size > 0
    assert candidates[0].discard() == ""
    assert not old.exists() and is_complete(recent)
    assert [path.name for path in old.parent.iterdir() if path.name.startswith((".gone", "old"))] == []


def test_what_an_environment_reads_stays_with_it(home) -> None:
    below = made(home, "dependencies/below")
    made(home, "packages/recent", reads=below, days=1)
    made(home, "dependencies/other")
    assert found(home) == {"environments/dependencies/other": ""}


def test_whoever_uses_one_uses_what_it_reads(home) -> None:
    below = made(home, "dependencies/below")
    above = made(home, "packages/above", reads=below)
    assert claim(above)
    assert found(home) == {}


def test_a_time_to_come_is_that_of_a_clock_that_was_set_back(home) -> None:
    made(home, "packages/later", days=-2)
    made(home, "packages/just-now", days=0)
    assert found(home) == {"environments/packages/later": ""}


def test_nothing_goes_within_the_hour(home) -> None:
    made(home, "wheels/new", days=0.01)
    made(home, "wheels/older", days=0.1)
    assert found(home, days=0) == {"environments/wheels/older": ""}


def test_what_a_living_job_runs_in_stays(home) -> None:
    below = made(home, "dependencies/below")
    above = made(home, "packages/above", reads=below)
    job = home.job(1, "RUNNING")
    order = {"argv": ["python"], "env": {"PATH": f"{above}/bin:/usr/bin"}}
    (job.path / "replicas" / "workerpool0-0").mkdir(parents=True)
    (job.path / "replicas" / "workerpool0-0" / "spec.json").write_text(json.dumps(order))
    (job.path / "replicas.json").write_text('["workerpool0-0"]')
    made(home, "packages/other")
    assert found(home) == {
        "environments/packages/above": "a job uses it",
        "environments/packages/other": "",
        "environments/dependencies/below": "a job uses it",
    }
    home.store.update(home.name(1), state="JOB_STATE_FAILED", end_time="2026-01-01T00:00:00Z", document="{}")
    assert set(found(home).values()) == {""}


def test_what_was_used_since_a_job_came_that_prepares_stays(home) -> None:
    home.job(1, "PENDING", days=39)
    made(home, "packages/before", days=40)
    made(home, "packages/since", days=38)
    assert found(home) == {
        "environments/packages/before": "",
        "environments/packages/since": "a job uses it",
    }


def test_one_that_is_being_made_stays(home) -> None:
    folder = home.path / "environments" / "packages" / "half"
    folder.mkdir(parents=True)
    home.age(folder)
    lock = hold_lock(folder.with_name("half.lock"))
    assert lock is not None
    (candidate,) = home.found("environment")
    assert candidate.discard() == "it was used just now"
    os.close(lock)
    assert candidate.discard() == ""
    assert not folder.exists() and not folder.with_name("half.lock").exists()


def test_one_that_is_used_again_before_it_goes_stays(home) -> None:
    below = made(home, "dependencies/below")
    folder = made(home, "packages/again", reads=below)
    candidates = home.found("environment")
    assert claim(folder)
    assert [each.discard() for each in candidates] == ["it was used just now"] * 2
    assert is_complete(folder) and is_complete(below)


def test_the_second_of_two_finds_it_gone(home) -> None:
    made(home, "packages/old")
    first, second = (home.found("environment")[0] for _ in range(2))
    assert [first.discard(), second.discard()] == ["", ELSEWHERE]
    assert [path.name for path in (home.path / "environments" / "packages").iterdir()] == [".claims"]


@pytest.mark.parametrize("order", ["claim first", "withdraw first"])
def test_a_claim_and_a_withdrawal_at_once(home, order: str) -> None:
    """Either the claim counts and the folder is there, or it does not and the folder is gone."""
    for _ in range(100):
        folder = made(home, "packages/contested")
        with ThreadPoolExecutor(2) as crew:
            acts: list[partial[Any]] = [
                partial(claim, folder),
                partial(withdraw, folder, last_claimed(folder)),
            ]
            if order == "withdraw first":
                acts.reverse()
            outcomes = {act.func: crew.submit(act) for act in acts}
        assert outcomes[claim].result() is is_complete(folder)
        assert outcomes[claim].result() is (outcomes[withdraw].result() is None)
        clear(folder.with_name(".gone-contested"))


def test_one_is_made_again_after_it_was_withdrawn(home) -> None:
    folder = made(home, "packages/again")
    assert withdraw(folder, last_claimed(folder)) is not None
    assert not claim(folder)
    assert is_complete(made(home, "packages/again"))


def test_one_is_claimed_or_withdrawn_and_never_both(home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that comes while a folder is being set aside waits, and is told that it is gone."""
    folder = made(home, "packages/contested")
    claims: list[Future[bool]] = []
    with ThreadPoolExecutor(1) as job:

        def set_aside_slowly(path: Path) -> Path:
            claims.append(job.submit(claim, folder))
            time.sleep(0.2)
            return set_aside(path)

        monkeypatch.setattr(layers, "set_aside", set_aside_slowly)
        assert withdraw(folder, last_claimed(folder)) is not None
    assert not claims[0].result()


def test_whoever_waited_for_a_lock_that_was_removed_waits_for_the_new_one(home) -> None:
    folder = home.path / "environments" / "packages" / "new"
    folder.parent.mkdir(parents=True)
    lock, waits, begun = folder.with_name("new.lock"), Queue[bytes](), list[int]()
    removed = hold_lock(lock)
    with ThreadPoolExecutor(1) as job:
        job.submit(make_once, folder, begun.append, waits.put)
        waits.get(timeout=30)
        lock.unlink()  # as a withdrawal does
        other = hold_lock(lock)
        assert removed is not None and other is not None
        os.close(removed)
        waits.get(timeout=30)
        assert begun == []
        os.close(other)
    assert len(begun) == 1 and is_complete(folder)


def test_one_that_reads_another_folder_than_wanted_is_made_again(home) -> None:
    first, second = made(home, "dependencies/first"), made(home, "dependencies/second")
    folder = made(home, "packages/moved", reads=first)
    assert layers.layer_below(made(home, "packages/moved", reads=second)) == second
    assert is_complete(folder)
