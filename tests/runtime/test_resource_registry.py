"""Persistent resources while others submit jobs, and while processes are killed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vtrain.errors import NotFoundError
from vtrain.messages.custom_job import CustomJob, MachineSpec
from vtrain.messages.names import CUSTOM_JOBS, PERSISTENT_RESOURCES, parse_name
from vtrain.messages.persistent_resource import PersistentResource, ResourcePool
from vtrain.runtime import resource_registry, warm_slots
from vtrain.runtime.capacity.leases import Claim
from vtrain.runtime.enrolment import enrol, pending
from vtrain.runtime.home import Home
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.resource_registry import ResourceRegistry
from vtrain.runtime.store import Record, Store

PLACE = "projects/local/locations/us-central1"
TEAM = f"{PLACE}/{PERSISTENT_RESOURCES}/team"
JOB = f"{PLACE}/{CUSTOM_JOBS}/1"


def submit(home: Path) -> None:
    """Submit a job on the resource whose supervisor does nothing."""
    job = pending(CustomJob(display_name="job"), JOB)
    claim = Claim(line=TEAM, slots={"n1-standard-4": 1}, slot_limits={"n1-standard-4": 1})
    order = JobOrder(home=str(home), name=JOB, job=job, backend="process", grace_seconds=1, claim=claim)
    store = Store.open(home)
    try:
        enrol(store, job, order, lambda _, lock: os.close(lock))
    finally:
        store.close()


@pytest.fixture
def registry(vtrain_home: Path) -> ResourceRegistry:
    """A registry with a resource of one slot."""
    name = parse_name(TEAM)
    assert name is not None
    found = ResourceRegistry(vtrain_home, name, lambda _, lock: os.close(lock))
    pool = ResourcePool(machine_spec=MachineSpec(machine_type="n1-standard-4"), replica_count=1)
    found.create_resource("team", PersistentResource(resource_pools=(pool,)), {})
    return found


def in_the_middle(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> threading.Thread:
    """Let `act` begin once the registry has seen which jobs there are."""
    look = resource_registry.read_queue
    other = threading.Thread(target=act)

    def look_and_begin(store: Store) -> Any:
        found = look(store)
        if not other.ident:
            other.start()
            other.join(1)
        return found

    monkeypatch.setattr(resource_registry, "read_queue", look_and_begin)
    return other


@pytest.mark.parametrize("known", [False, True])
def test_a_job_is_refused_once_its_resource_is_being_deleted(
    registry: ResourceRegistry, vtrain_home: Path, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    """Its claim was made while the resource was still there."""
    ends: list[BaseException | None] = []

    def begin() -> None:
        try:
            submit(vtrain_home)
        except NotFoundError as error:
            ends.append(error)

    other = in_the_middle(monkeypatch, begin)
    if known:
        other.start()
        other.join()
        with pytest.raises(Exception, match=r"Jobs run or wait on team: .*customJobs/1"):
            registry.delete_resource(TEAM)
        assert (ends, registry.get_resource(TEAM).name) == ([], TEAM)
        return
    registry.delete_resource(TEAM)
    other.join()
    assert [str(end) for end in ends] == ["Persistent resource team not found."]
    assert Store.open(vtrain_home).living() == [] and not Home(vtrain_home).job(JOB).path.exists()


def test_a_resource_is_not_rebooted_under_a_job(
    registry: ResourceRegistry, vtrain_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that comes meanwhile is stored once the preloaders have ended."""
    seen: list[list[Record]] = []
    end = resource_registry.end_warm_slots

    def look_and_end(folder: Path) -> None:
        seen.append(Store.open(vtrain_home).living())
        end(folder)

    monkeypatch.setattr(resource_registry, "end_warm_slots", look_and_end)
    other = in_the_middle(monkeypatch, lambda: submit(vtrain_home))
    registry.reboot_resource(TEAM)
    other.join()
    assert seen == [[]]
    assert [job.name for job in Store.open(vtrain_home).living()] == [JOB]


def test_a_killed_delete_can_be_repeated(
    registry: ResourceRegistry, vtrain_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of the preloaders goes with the row: without that nobody would look for it again."""
    slots = Home(vtrain_home).slots_of(TEAM)
    slots.mkdir(parents=True)
    with monkeypatch.context() as patched:

        def killed(_folder: Path) -> None:
            raise KeyboardInterrupt

        patched.setattr(warm_slots, "remove_folder", killed)
        with pytest.raises(KeyboardInterrupt):
            registry.delete_resource(TEAM)
    assert registry.get_resource(TEAM).name == TEAM
    registry.delete_resource(TEAM)
    assert not slots.exists()
    with pytest.raises(NotFoundError):
        registry.get_resource(TEAM)
