"""Jobs that ended long ago go with all their traces; others stay."""

from __future__ import annotations

import json
import os
import shutil
import threading

import pytest

from vtrain.atomic import GONE, remove_folder, set_aside
from vtrain.messages.names import HYPERPARAMETER_TUNING_JOBS, TRIAL_LABEL
from vtrain.messages.resources import JOBS
from vtrain.runtime.gc.candidate import ELSEWHERE
from vtrain.runtime.gc.sweep import usage_of_home
from vtrain.runtime.locks import hold_lock
from vtrain.runtime.store import Record
from vtrain.times import from_epoch


def test_what_ended_long_ago_goes(home) -> None:
    old, recent, living = home.job(1), home.job(2, days=2), home.job(3, "RUNNING")
    home.store.request(home.name(1), "cancel")
    found = home.found("job")
    assert [(job.name, job.kind, job.kept) for job in found] == [(home.name(1), "job", "")]
    assert found[0].size == 1000
    assert [job.discard() for job in found] == [""]
    assert home.names() == [home.name(3), home.name(2)]
    assert not old.path.exists() and recent.path.exists() and living.path.exists()
    assert home.store.requests(home.name(1)) == frozenset()


def test_what_goes_is_counted_as_what_is_there(home) -> None:
    for number in range(3):
        home.job(number)
    (there,) = (usage for usage in usage_of_home(home.path) if usage.noun == "job")
    going = [job.size for job in home.found("job")]
    assert (there.count, there.size) == (3, sum(going)) == (len(going), 3000)


def test_the_age_is_counted_from_the_end(home) -> None:
    home.job(1, days=8)
    assert home.found("job", days=9) == []
    assert len(home.found("job", days=7)) == 1


def test_a_removal_that_was_killed_is_finished_by_the_next(home) -> None:
    set_aside(home.job(1).path)  # killed before the row was removed
    set_aside(home.job(2).path)
    home.store.delete(home.name(2))  # killed before the folder was removed from the disk
    assert [job.discard() for job in home.found("job")] == [""]
    assert home.names() == []
    assert [left.name for left in home.found("temporary")] == [f"jobs/{GONE}2"]
    assert [left.discard() for left in home.found("temporary")] == [""]
    assert list((home.path / "jobs").iterdir()) == []


def test_two_at_once_remove_the_same(home) -> None:
    for number in range(20):
        home.job(number)
    outcomes: list[str] = []
    threads = [threading.Thread(target=remove_all, args=(home, outcomes)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) <= {"", ELSEWHERE} and outcomes.count("") == 20
    assert home.names() == [] and list((home.path / "jobs").iterdir()) == []


def remove_all(home, outcomes: list[str]) -> None:
    outcomes.extend(candidate.discard() for candidate in home.found("job"))


def test_folders_of_no_job(home) -> None:
    lost, fresh, locked, known = (home.job(number, days=2).path for number in range(1, 5))
    for number in range(1, 4):
        home.store.delete(home.name(number))
    lock = hold_lock(locked / "lock")
    assert lock is not None
    for folder in (lost, locked, known):
        home.age(folder)
    found = {candidate.id: candidate.discard() for candidate in home.found("job")}
    os.close(lock)
    assert found == {"1": "", "3": "a supervisor has it"}
    assert [folder.exists() for folder in (lost, fresh, locked, known)] == [False, True, True, True]


def test_logs_without_a_store_stay_as_long_as_others(home) -> None:
    """Its store may have been moved away. What was never submitted has no log, and goes after an hour."""
    submitted, begun = (home.job(number).path for number in (1, 2))
    shutil.rmtree(begun / "logs")
    (begun / "logs").mkdir()
    for number, folder in ((1, submitted), (2, begun)):
        home.store.delete(home.name(number))
        home.age(folder, days=20)
    assert [lost.id for lost in home.found("job")] == ["2"]
    assert [lost.id for lost in home.found("job", days=10)] == ["1", "2"]
    assert [lost.id for lost in home.found("job", days=0)] == ["1", "2"]


def test_a_folder_of_no_job_stays_while_a_shim_lives(home) -> None:
    replica = home.job(1).replica("workerpool0-0", attempt=2)
    replica.path.mkdir(parents=True)
    home.store.delete(home.name(1))
    lock = hold_lock(replica.lock)
    home.age(home.path / "jobs" / "1")
    (lost,) = home.found("job")
    assert lost.discard() == "it has a process"
    os.close(lock)
    assert lost.discard() == ""


def test_a_trial_goes_with_its_study(home) -> None:
    trial, name = home.job(1), f"projects/local/locations/us-central1/{HYPERPARAMETER_TUNING_JOBS}/7"
    ended = {"state": "JOB_STATE_SUCCEEDED", "end_time": from_epoch(home.now - 40 * 86400)}
    told = {"name": home.name(1), "state": ended["state"], "labels": {TRIAL_LABEL: "7"}, "jobSpec": {}}
    home.store.update(home.name(1), **ended, document=json.dumps(told))
    document = json.dumps({"name": name, "state": ended["state"]})
    record = Record(name=name, collection=HYPERPARAMETER_TUNING_JOBS, document=document, **ended,
                    create_time=ended["end_time"], backend="process")  # fmt: skip
    home.store.insert(record)
    (home.path / "jobs" / "7").mkdir()
    (study,) = home.found("job")
    assert (study.name, study.discard(), trial.path.exists()) == (name, "", False)


@pytest.mark.parametrize("collection", JOBS)
def test_the_folder_of_a_stored_job_of_any_kind_is_not_lost(home, collection: str) -> None:
    folder = home.job(1).path
    home.store.delete(home.name(1))
    name = f"projects/local/locations/us-central1/{collection}/1"
    home.store.insert(
        Record(
            name=name,
            collection=collection,
            state="JOB_STATE_SUCCEEDED",
            create_time=from_epoch(home.now),
            backend="process",
            document=json.dumps({"name": name, "state": "JOB_STATE_SUCCEEDED"}),
        )
    )
    home.age(folder, days=1)
    assert home.found("job") == []


def test_a_folder_that_is_not_there_is_removed_already(home) -> None:
    remove_folder(home.path / "jobs" / "7")
    assert not (home.path / "jobs").exists()
