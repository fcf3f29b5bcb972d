"""Ids and folders of new jobs: nobody gets an id twice, and no submission harms another job."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from vtrain.errors import KeyTakenError, StorageError
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.names import CUSTOM_JOBS, KEY_LABEL
from vtrain.runtime.capacity.leases import Claim
from vtrain.runtime.enrolment import enrol, pending
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.store import Record, Store, delete_job
from vtrain.runtime.supervisor_process import dismiss_standby, new_job_id, stand_by

PLACE = f"projects/local/locations/us-central1/{CUSTOM_JOBS}"
WHOLE = Claim(memory_bytes=2**34, memory_limit=2**34)
"""All the memory of the machine: of such jobs one runs, and the others wait."""


def submit(
    store: Store, home: Path, name: str, *, key: str = "", claim: Claim = WHOLE, snapshot: str = ""
) -> CustomJob:
    """Submit a job whose supervisor does nothing."""
    job = pending(CustomJob(display_name="job", labels={KEY_LABEL: key} if key else {}), name)
    order = JobOrder(home=str(home), name=name, job=job, backend="process", grace_seconds=1, claim=claim)
    return enrol(store, job, order, lambda _, lock: os.close(lock), snapshot=snapshot)


@pytest.fixture
def store(vtrain_home: Path) -> Store:
    return Store.open(vtrain_home)


def test_a_taken_id_is_refused_and_its_job_stays(store: Store, vtrain_home: Path) -> None:
    first = submit(store, vtrain_home, f"{PLACE}/1")
    (vtrain_home / "jobs" / "1" / "kept").touch()
    with pytest.raises(StorageError):
        submit(store, vtrain_home, f"{PLACE}/1")
    with pytest.raises(StorageError):  # the folders are those of jobs of all kinds
        submit(store, vtrain_home, "projects/local/locations/europe-west4/hyperparameterTuningJobs/1")
    assert (vtrain_home / "jobs" / "1" / "kept").exists()
    assert [record.name for record in store.living()] == [first.name]


def test_an_id_whose_submission_is_under_way_is_refused(store: Store, vtrain_home: Path) -> None:
    """Another process has made the folder, and not stored the job yet."""
    (vtrain_home / "jobs" / "1" / "logs").mkdir(parents=True)
    with pytest.raises(StorageError):
        submit(store, vtrain_home, f"{PLACE}/1")
    assert (vtrain_home / "jobs" / "1" / "logs").exists()


def test_an_interrupt_after_the_job_was_stored_leaves_it(
    store: Store, vtrain_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = store.insert

    def interrupted(record: Record) -> None:
        insert(record)
        store._connection.commit()
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "insert", interrupted)
    with suppress(KeyboardInterrupt):
        submit(store, vtrain_home, f"{PLACE}/1")
    assert [record.name for record in store.living()] == [f"{PLACE}/1"]
    assert JobFolder(vtrain_home / "jobs" / "1").order().name == f"{PLACE}/1"


class Ids(RuleBasedStateMachine):
    """Any order of submissions in one process, with and without a supervisor that waits."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.home = self.folder / "home"
        self.store = Store.open(self.home)
        self.given: list[str] = []
        (self.folder / "nothing.py").touch()

    def teardown(self) -> None:
        dismiss_standby()
        self.store.close()
        shutil.rmtree(self.folder)

    def take(self) -> str:
        self.given.append(new_job_id(self.home))
        return f"{PLACE}/{self.given[-1]}"

    @rule()
    def a_supervisor_waits(self) -> None:
        stand_by(self.folder / "nothing.py", self.home, "process")

    @rule(claim=st.sampled_from([WHOLE, Claim()]))
    def a_job_is_submitted(self, claim: Claim) -> None:
        submit(self.store, self.home, self.take(), claim=claim)

    @rule()
    def a_job_is_refused_for_its_key(self) -> None:
        with suppress(KeyTakenError):
            submit(self.store, self.home, self.take(), key="the-key")

    @rule()
    def a_job_cannot_be_submitted(self) -> None:
        with pytest.raises(StorageError):
            submit(self.store, self.home, self.take(), snapshot="/nonexistent")

    @rule()
    def an_id_is_not_used(self) -> None:
        self.take()

    @rule(data=st.data())
    def a_job_ends_and_is_deleted(self, data: st.DataObject) -> None:
        if living := self.store.living():
            record = data.draw(st.sampled_from(living))
            self.store.update(record.name, state=states.SUCCEEDED, end_time="", document=record.document)
            delete_job(
                self.store, record.name, JobFolder(self.home / "jobs" / record.name.rpartition("/")[2])
            )

    @invariant()
    def every_id_was_given_once(self) -> None:
        assert len(set(self.given)) == len(self.given)

    @invariant()
    def every_job_has_its_folder(self) -> None:
        folders = [JobFolder(path) for path in (self.home / "jobs").glob("*")]
        assert {folder.path.name for folder in folders} == self.store.ids(CUSTOM_JOBS)
        assert all(folder.order().name == f"{PLACE}/{folder.path.name}" for folder in folders)


TestIds = pytest.mark.child(Ids.TestCase)
TestIds.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)
