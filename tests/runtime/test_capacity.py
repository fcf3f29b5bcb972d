"""The queue for this machine: what a job claims, who may start, and the leases in a real store."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.local_jobs import kill, processes_of
from lib.supervisors import START

from vtrain.errors import ConfigError
from vtrain.messages import states
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJob,
    CustomJobSpec,
    MachineSpec,
    WorkerPoolSpec,
)
from vtrain.runtime.capacity import offer as offer_module
from vtrain.runtime.capacity.leases import Admitted, Claim, Lease, Waiting, decide, pool_devices
from vtrain.runtime.capacity.offer import Offer, claim_of, machine_offer, physical_memory, wants_accelerators
from vtrain.runtime.capacity.queue import (
    admit,
    attend,
    due,
    enqueue,
    look_after,
    release,
    waiting_reason,
)
from vtrain.runtime.folder import JobFolder, write_struct
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.locks import hold_lock
from vtrain.runtime.machines import GIB
from vtrain.runtime.store import Record, Store

GPUS = ("GPU-a", "GPU-b", "GPU-c", "GPU-d")
FOUR_GPUS = Offer(memory_bytes=32 * GIB, accelerators=GPUS)
IMAGE = ContainerSpec(image_uri="an/image")
NAME = "projects/local/locations/us-central1/customJobs/{}"


def spec_of(*pools: tuple[int, MachineSpec | None]) -> CustomJobSpec:
    """A job of pools, each of so many replicas on such a machine."""
    return CustomJobSpec(
        worker_pool_specs=tuple(
            WorkerPoolSpec(container_spec=IMAGE, replica_count=count, machine_spec=machine)
            for count, machine in pools
        )
    )


def gpus(count: int) -> MachineSpec:
    return MachineSpec(accelerator_type="NVIDIA_L4", accelerator_count=count)


SMALL = MachineSpec(machine_type="n1-standard-4")


def test_memory_is_summed_over_the_replicas() -> None:
    assert claim_of(spec_of((1, SMALL), (0, None)), FOUR_GPUS).memory_bytes == 15 * GIB
    assert claim_of(spec_of((1, SMALL), (1, SMALL)), FOUR_GPUS).memory_bytes == 30 * GIB


def test_no_job_claims_more_than_there_is() -> None:
    claim = claim_of(spec_of((8, SMALL)), FOUR_GPUS)
    assert (claim.memory_bytes, claim.memory_limit) == (32 * GIB, 32 * GIB)


def test_memory_of_the_command_line_takes_the_place_of_the_machines() -> None:
    limit = 2 * GIB
    assert claim_of(spec_of((3, SMALL)), FOUR_GPUS, memory_bytes=limit).memory_bytes == 6 * GIB
    assert claim_of(spec_of((1, None)), FOUR_GPUS, memory_bytes=limit).memory_bytes == 2 * GIB


@pytest.mark.parametrize("machine", [None, MachineSpec(machine_type="z9-standard-4")])
def test_who_names_no_machine_never_waits(machine: MachineSpec | None) -> None:
    assert claim_of(spec_of((4, machine)), FOUR_GPUS).is_empty


def test_memory_may_be_left_out_of_the_queue() -> None:
    assert claim_of(spec_of((1, SMALL)), Offer(memory_bytes=0)).is_empty


def test_every_replica_has_gpus_of_its_own() -> None:
    claim = claim_of(spec_of((1, gpus(2)), (2, gpus(1))), FOUR_GPUS)
    assert claim.counts == {"workerpool0-0": 2, "workerpool1-0": 1, "workerpool1-1": 1}


def test_too_few_gpus_are_shared_out_evenly() -> None:
    assert claim_of(spec_of((2, gpus(8))), FOUR_GPUS).counts == {
        "workerpool0-0": 2,
        "workerpool0-1": 2,
    }


def test_with_fewer_gpus_than_replicas_none_gets_any() -> None:
    claim = claim_of(spec_of((5, gpus(1))), FOUR_GPUS)
    assert claim.counts == {}
    assert pool_devices(claim, 0) == ()


def test_gpus_that_nobody_can_list_are_not_leased() -> None:
    claim = claim_of(spec_of((1, gpus(1))), Offer())
    assert claim.is_empty
    assert pool_devices(claim, 0) is None


def test_the_flag_alone_claims_all_gpus() -> None:
    claim = claim_of(spec_of((1, None)), FOUR_GPUS, all_gpus=True)
    assert claim.counts == {"workerpool0-0": 4}
    assert pool_devices(claim, 0) == GPUS


@pytest.mark.parametrize(
    ("pools", "flag", "wanted"),
    [
        (((1, SMALL), (1, None)), False, False),
        (((1, SMALL), (1, None)), True, True),
        (((1, SMALL), (1, gpus(1))), False, True),
    ],
)
def test_gpus_are_looked_for_where_a_replica_asks_for_some(
    pools: tuple[tuple[int, MachineSpec | None], ...], flag: bool, wanted: bool
) -> None:
    assert wants_accelerators(spec_of(*pools), all_gpus=flag) is wanted


def test_tpus_are_not_counted() -> None:
    tpu = MachineSpec(machine_type="cloud-tpu", accelerator_type="TPU_V3", accelerator_count=8)
    assert claim_of(spec_of((1, tpu)), FOUR_GPUS).is_empty


@given(
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from([None, SMALL, gpus(1), gpus(3)])), min_size=1),
    st.integers(0, 64),
    st.integers(0, 4),
)
def test_a_claim_fits_the_machine(
    pools: list[tuple[int, MachineSpec | None]], memory_gib: int, devices: int
) -> None:
    offer = Offer(memory_bytes=memory_gib * GIB, accelerators=GPUS[:devices])
    claim = claim_of(spec_of(*pools), offer)
    assert claim.memory_bytes <= offer.memory_bytes
    assert sum(claim.counts.values()) <= devices
    assert isinstance(decide("a", claim, [Lease(name="a")]), Admitted)


def test_the_machines_memory_is_measured() -> None:
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < physical_memory() <= whole
    assert 0.9 * physical_memory() < machine_offer(accelerators=False).memory_bytes < physical_memory()


@pytest.mark.parametrize(("text", "size"), [("16g", 16 * GIB), ("1.5g", 3 * GIB // 2), ("none", 0)])
def test_memory_can_be_limited(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VTRAIN_MEMORY", text)
    assert machine_offer(accelerators=False).memory_bytes == size


def test_limits_may_stand_in_the_project_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.vtrain]\nmemory = "8g"\naccelerators = "none"\n')
    monkeypatch.chdir(tmp_path)
    offer = machine_offer(accelerators=True)
    assert (offer.memory_bytes, offer.accelerators) == (8 * GIB, ())


@pytest.mark.parametrize("text", ["much", "0", "-1g", "16 GB RAM", "16", "1000k"])
def test_a_limit_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VTRAIN_MEMORY", text)
    with pytest.raises(ConfigError) as caught:
        machine_offer(accelerators=False)
    wrong = "less than any job needs" if text in SMALLER else "not a size"
    assert caught.value.message == f"VTRAIN_MEMORY: {text!r} is {wrong}."
    assert caught.value.hint == "Write 16g, or none where jobs should not wait for memory."


SMALLER = ("16", "1000k")


def test_one_megabyte_is_enough_of_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VTRAIN_MEMORY", "1m")
    assert machine_offer(accelerators=False) == Offer(memory_bytes=2**20)


def test_a_container_has_the_memory_that_its_control_group_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    first, second = tmp_path / "memory.max", tmp_path / "limit_in_bytes"
    monkeypatch.setattr(offer_module, "CGROUP_LIMITS", (str(first), str(second)))
    assert physical_memory() == whole  # on a machine without control groups
    first.write_text("max\n")
    assert physical_memory() == whole
    second.write_text("1000000\n")
    assert physical_memory() == 1_000_000
    assert machine_offer(accelerators=False).memory_bytes == 950_000


MACHINE = Claim(memory_limit=10, accelerators=GPUS)


def claim_for(memory: int = 0, *counts: int) -> Claim:
    named = {f"workerpool{index}-0": count for index, count in enumerate(counts)}
    return Claim(memory_bytes=memory, memory_limit=10, counts=named, accelerators=GPUS)


def test_the_reason_says_what_is_missing_and_who_has_it() -> None:
    holder = Lease(name=NAME.format(7), memory_bytes=8, is_admitted=True, devices={"r": GPUS})
    waiting = decide("b", claim_for(3 * GIB, 1), [holder, Lease(name="b")])
    assert isinstance(waiting, Waiting)
    assert "it needs 3 GB of memory" in waiting.reason
    assert "it needs 1 GPU, and 0 of 4 are free (job 7 runs)" in waiting.reason


DEMANDS = st.tuples(st.integers(0, 10), st.lists(st.integers(1, 2), max_size=2))


@given(st.lists(DEMANDS, min_size=1, max_size=12), st.lists(st.integers(0, 1000), max_size=40))
def test_nothing_is_leased_twice_and_nobody_overtakes(
    wanted: list[tuple[int, list[int]]], moves: list[int]
) -> None:
    """Jobs come, ask and end in any order: never oversubscribed, first come first served, all get through."""
    claims = {str(number): claim_for(memory, *counts) for number, (memory, counts) in enumerate(wanted)}
    coming, queue, admitted = list(claims), list[Lease](), list[str]()
    for move in moves:
        if move % 3 == 0 and coming:
            queue.append(Lease(name=coming.pop(0)))
        elif move % 3 == 1:
            end_one(queue, move)
        elif queue:
            name = queue[move % len(queue)].name
            ask(name, claims[name], queue, admitted)
        check(queue)
    queue += [Lease(name=name) for name in coming]
    while queue:
        for lease in reversed(queue):
            ask(lease.name, claims[lease.name], queue, admitted)
        check(queue)
        assert any(lease.is_admitted for lease in queue), "an empty machine lets nobody start"
        end_one(queue, 0)
    assert admitted == list(claims)


def end_one(queue: list[Lease], choice: int) -> None:
    holders = [lease for lease in queue if lease.is_admitted]
    if holders:
        queue.remove(holders[choice % len(holders)])


def ask(name: str, claim: Claim, queue: list[Lease], admitted: list[str]) -> None:
    place = next(index for index, lease in enumerate(queue) if lease.name == name)
    answer = decide(name, claim, queue)
    if isinstance(answer, Waiting):
        assert not queue[place].is_admitted
        return
    if not queue[place].is_admitted:
        admitted.append(name)
    assert {replica: len(uuids) for replica, uuids in answer.devices.items()} == claim.counts
    queue[place] = Lease(name=name, memory_bytes=claim.memory_bytes, is_admitted=True, devices=answer.devices)


def check(queue: list[Lease]) -> None:
    holders = [lease for lease in queue if lease.is_admitted]
    given_out = [uuid for lease in holders for uuids in lease.devices.values() for uuid in uuids]
    assert sum(lease.memory_bytes for lease in holders) <= MACHINE.memory_limit
    assert len(given_out) == len(set(given_out))


class Queue:
    """Jobs in a store, whose supervisors live: this process holds their locks."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = Store.open(home)
        self.locks: list[int] = []

    def submit(self, number: int, claim: Claim) -> JobOrder:
        name = NAME.format(number)
        folder = JobFolder(self.home / "jobs" / str(number))
        folder.path.mkdir(parents=True)
        lock = hold_lock(folder.lock)
        assert lock is not None
        self.locks.append(lock)
        record = Record(
            name=name,
            collection="customJobs",
            state=states.PENDING,
            create_time="2026-01-01T00:00:00Z",
            backend="process",
            document="{}",
        )
        order = JobOrder(
            home=str(self.home),
            name=name,
            job=CustomJob(name=name),
            backend="process",
            grace_seconds=1,
            claim=claim,
        )
        write_struct(folder.path / "spec.json", order)
        with self.store.transaction() as connection:
            self.store.insert(record)
            enqueue(connection, name, claim)
        return order

    def due(self) -> list[int]:
        """The numbers of the jobs that need a supervisor."""
        return [int(name.rpartition("/")[2]) for name in due(self.store)]

    def end(self, order: JobOrder) -> None:
        self.store.update(order.name, state=states.SUCCEEDED, end_time="", document="{}")

    def leases(self) -> int:
        return int(self.store.execute("SELECT count(*) FROM leases")[0][0])


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    made = Queue(tmp_path / "home")
    yield made
    for process in processes_of(made.home):  # a supervisor that was started for a job of no test process
        kill(process)
    for lock in made.locks:
        os.close(lock)


def test_leases_are_kept_and_given_back(queue: Queue) -> None:
    first, second = (queue.submit(number, claim_for(6, 3)) for number in (1, 2))
    granted = admit(queue.store, START, first)
    assert granted == Admitted(devices={"workerpool0-0": GPUS[:3]})
    assert admit(queue.store, START, first) == granted
    assert isinstance(admit(queue.store, START, second), Waiting)
    release(queue.store, first.name)
    release(queue.store, first.name)
    assert admit(queue.store, START, second) == granted
    release(queue.store, second.name)
    assert queue.leases() == 0


def test_a_job_that_needs_nothing_neither_waits_nor_is_counted(queue: Queue) -> None:
    full = queue.submit(1, claim_for(10))
    assert isinstance(admit(queue.store, START, full), Admitted)
    assert admit(queue.store, START, queue.submit(2, Claim(memory_limit=10))) == Admitted()
    assert queue.leases() == 1


def test_a_later_job_does_not_overtake_even_where_it_would_fit(queue: Queue) -> None:
    running, large, small = (queue.submit(n, claim_for(size)) for n, size in ((1, 6), (2, 9), (3, 1)))
    assert isinstance(admit(queue.store, START, running), Admitted)
    waiting = admit(queue.store, START, small)
    assert isinstance(waiting, Waiting)
    assert waiting.reason == "job 2 was there before and waits as well."
    assert isinstance(admit(queue.store, START, large), Waiting)
    release(queue.store, running.name)
    assert isinstance(admit(queue.store, START, small), Waiting)
    assert isinstance(admit(queue.store, START, large), Admitted)
    assert isinstance(admit(queue.store, START, small), Admitted)


def test_a_place_that_was_forgotten_is_taken_again(queue: Queue) -> None:
    """Who leases forgets the places of jobs that the store does not have, or does not have yet."""
    running, first, second = (queue.submit(number, claim_for(10)) for number in (1, 2, 3))
    assert isinstance(admit(queue.store, START, running), Admitted)
    release(queue.store, first.name)
    waiting = admit(queue.store, START, first)
    assert isinstance(waiting, Waiting)
    assert waiting.reason.endswith("(job 1 runs).")
    release(queue.store, running.name)
    assert isinstance(admit(queue.store, START, second), Waiting)
    assert isinstance(admit(queue.store, START, first), Admitted)


def test_what_has_ended_or_is_deleted_does_not_count(queue: Queue) -> None:
    ended, deleted, third = (queue.submit(number, claim_for(10)) for number in (1, 2, 3))
    assert isinstance(admit(queue.store, START, ended), Admitted)
    queue.end(ended)
    assert isinstance(admit(queue.store, START, deleted), Admitted)
    queue.store.delete(deleted.name)
    assert isinstance(admit(queue.store, START, third), Admitted)
    assert queue.leases() == 1


def test_a_holder_whose_folder_is_gone_does_not_stop_the_queue(queue: Queue) -> None:
    lost, waiting = (queue.submit(number, claim_for(10)) for number in (1, 2))
    assert isinstance(admit(queue.store, START, lost), Admitted)
    shutil.rmtree(queue.home / "jobs" / "1")
    assert isinstance(admit(queue.store, START, waiting), Waiting)
    assert attend(queue.store, START, own=waiting.name)
    assert queue.store.get(lost.name).state == states.FAILED
    assert isinstance(admit(queue.store, START, waiting), Admitted)


def test_of_those_that_wait_only_the_first_needs_a_supervisor(queue: Queue) -> None:
    running, first, *others = (queue.submit(number, claim_for(8)) for number in range(1, 6))
    assert queue.due() == [1, 2]
    assert isinstance(admit(queue.store, START, running), Admitted)
    assert queue.due() == [1, 2]
    assert attend(queue.store, START, own=first.name)
    assert not attend(queue.store, START, own=others[0].name)
    queue.end(running)
    assert queue.due() == [2, 3]


def test_all_that_fit_need_a_supervisor_and_the_next_one(queue: Queue) -> None:
    running, *_ = (queue.submit(number, claim_for(size)) for number, size in enumerate((9, 3, 3, 3, 3, 1), 1))
    assert isinstance(admit(queue.store, START, running), Admitted)
    assert queue.due() == [1, 2]
    queue.end(running)
    assert queue.due() == [2, 3, 4, 5]  # 3 + 3 + 3 of 10 fit; the next does not, and lets no later one pass


def test_gpus_decide_who_is_next_in_line(queue: Queue) -> None:
    running, *_ = (queue.submit(number, claim_for(1, gpus)) for number, gpus in enumerate((3, 1, 2, 1), 1))
    assert isinstance(admit(queue.store, START, running), Admitted)
    assert queue.due() == [1, 2, 3]


def test_a_job_whose_end_is_asked_for_waits_no_longer(queue: Queue) -> None:
    running, _, last = (queue.submit(number, claim_for(9)) for number in (1, 2, 3))
    assert isinstance(admit(queue.store, START, running), Admitted)
    queue.store.update(last.name, state=states.QUEUED, end_time="", document="{}")
    assert queue.due() == [1, 2]
    queue.store.request(last.name, "cancel")
    assert queue.due() == [1, 2, 3]
    queue.end(last)
    assert queue.due() == [1, 2]


def test_who_looks_at_a_job_starts_its_supervisor_where_it_has_none(queue: Queue) -> None:
    started: list[str] = []

    def start(folder: JobFolder, lock: int) -> None:
        started.append(folder.path.name)
        os.close(lock)

    def look(order: JobOrder, state: str, *, at_once: bool = False) -> list[str]:
        started.clear()
        queue.store.update(order.name, state=state, end_time="", document="{}")
        look_after(queue.store, start, queue.store.get(order.name), at_once=at_once)
        return list(started)

    running, waiting, last = (queue.submit(number, claim_for(8)) for number in (1, 2, 3))
    assert look(running, states.RUNNING) == [], "it has one"
    for lock in queue.locks:
        os.close(lock)
    queue.locks.clear()
    assert look(running, states.RUNNING) == [], "one was started a moment ago"
    for number in (1, 2, 3):
        os.utime(queue.home / "jobs" / str(number) / "lock", (0, 0))
    assert look(running, states.RUNNING) == ["1"]
    assert look(running, states.RUNNING) == []
    os.utime(queue.home / "jobs" / "1" / "lock", (2**32, 2**32))
    assert look(running, states.RUNNING) == ["1"], "the clock was set back since one was started"
    assert look(running, states.RUNNING, at_once=True) == ["1"]
    assert look(last, states.QUEUED) == ["2"], "it waits for its turn without one, and the first does not"
    assert look(last, states.QUEUED, at_once=True) == ["3"]
    assert look(last, states.SUCCEEDED, at_once=True) == [], "it has ended"
    shutil.rmtree(queue.home / "jobs" / "2")
    assert look(waiting, states.QUEUED) == []
    assert queue.store.get(waiting.name).state == states.FAILED, "its folder is lost"


def test_a_change_wakes_the_others_and_not_the_caller(queue: Queue) -> None:
    running, first = (queue.submit(number, claim_for(8)) for number in (1, 2))
    assert isinstance(admit(queue.store, START, running), Admitted)
    fifos = [JobFolder(queue.home / "jobs" / str(number)).wake_fifo for number in (1, 2)]
    for fifo in fifos:
        os.mkfifo(fifo)
    ears = [os.open(fifo, os.O_RDONLY | os.O_NONBLOCK) for fifo in fifos]
    attend(queue.store, START, own=first.name)
    assert [os.read(ear, 9) for ear in ears] == [b"", b""]
    attend(queue.store, START, own=first.name, changed=True)
    assert [os.read(ear, 9) for ear in ears] == [b".", b""]
    release(queue.store, running.name)
    third = queue.submit(3, claim_for(8))
    assert isinstance(admit(queue.store, START, first), Admitted)
    assert [os.read(ear, 9) for ear in ears] == [b"", b""]
    release(queue.store, first.name)
    queue.end(first)
    assert isinstance(admit(queue.store, START, third), Admitted)
    for ear in ears:
        os.close(ear)


def test_the_others_are_woken_before_a_job_leaves_the_line_and_after(queue: Queue) -> None:
    holder, second = (queue.submit(number, claim_for(2)) for number in (1, 2))
    assert isinstance(admit(queue.store, START, holder), Admitted)
    fifo = JobFolder(queue.home / "jobs" / "1").wake_fifo
    os.mkfifo(fifo)
    ear = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    assert isinstance(admit(queue.store, START, second), Admitted)
    assert os.read(ear, 9) == b".."
    os.close(ear)


@pytest.mark.parametrize(("column", "value"), [("devices", "{"), ("devices", 7), ("memory_bytes", "much")])
def test_a_damaged_lease_keeps_gpus_from_others_and_nothing_else(
    queue: Queue, column: str, value: object
) -> None:
    holder, next_one, with_gpu = (
        queue.submit(number, own)
        for number, own in enumerate((claim_for(1, 1), claim_for(9), claim_for(0, 1)), 1)
    )
    assert isinstance(admit(queue.store, START, holder), Admitted)
    with queue.store.transaction() as connection:
        connection.execute(f"UPDATE leases SET {column} = ? WHERE name = ?", (value, holder.name))
    assert queue.due() == [1, 2, 3]
    assert isinstance(admit(queue.store, START, next_one), Admitted)
    assert isinstance(admit(queue.store, START, with_gpu), Waiting)
    queue.end(holder)
    assert isinstance(admit(queue.store, START, with_gpu), Admitted)


def test_a_waiting_job_is_told_why(queue: Queue) -> None:
    running, first, second = (queue.submit(number, claim_for(8)) for number in (1, 2, 3))
    assert waiting_reason(queue.store, running) == ""
    assert isinstance(admit(queue.store, START, running), Admitted)
    assert waiting_reason(queue.store, running) == ""
    assert waiting_reason(queue.store, first).endswith("are free (job 1 runs).")
    assert waiting_reason(queue.store, second) == "job 2 was there before and waits as well."


def test_a_waiting_job_that_cannot_be_read_ends_and_the_next_one_takes_its_place(queue: Queue) -> None:
    running, damaged, *_ = (queue.submit(number, claim_for(9)) for number in (1, 2, 3))
    assert isinstance(admit(queue.store, START, running), Admitted)
    assert queue.due() == [1, 2]
    (queue.home / "jobs" / "2" / "spec.json").write_text("{")
    os.close(queue.locks.pop(1))
    attend(queue.store, START, own=running.name, changed=True)
    assert queue.store.get(damaged.name).state == states.FAILED
    assert queue.due() == [1, 3]


def lock_as_folder(folder: JobFolder) -> None:
    folder.lock.unlink()
    folder.lock.mkdir()


def file_as_folder(folder: JobFolder) -> None:
    shutil.rmtree(folder.path)
    folder.path.touch()


@pytest.mark.child
@pytest.mark.parametrize("damage", [lock_as_folder, file_as_folder])
def test_a_holder_that_cannot_be_looked_after_does_not_stop_the_queue(
    queue: Queue, damage: Callable[[JobFolder], None]
) -> None:
    holder, waiting = (queue.submit(number, claim_for(9)) for number in (1, 2))
    assert isinstance(admit(queue.store, START, holder), Admitted)
    damage(JobFolder(queue.home / "jobs" / "1"))
    assert attend(queue.store, START, own=waiting.name, changed=True)
    assert isinstance(admit(queue.store, START, waiting), Waiting)
    queue.end(holder)
    assert isinstance(admit(queue.store, START, waiting), Admitted)


def test_forty_at_once_are_never_too_many(queue: Queue) -> None:
    orders = [queue.submit(number, claim_for(number % 5 + 1, number % 2 + 1)) for number in range(1, 41)]
    running: set[int] = set()
    guard = threading.Lock()
    troubles: list[str] = []

    def work(share: list[JobOrder]) -> None:
        store = Store.open(queue.home)
        for order in share:
            while isinstance(granted := admit(store, START, order), Waiting):
                pass
            number = int(order.name.rpartition("/")[2])
            with guard:
                running.add(number)
                memory = sum(other % 5 + 1 for other in running)
                devices = sum(other % 2 + 1 for other in running)
                if memory > 10 or devices > len(GPUS) or len(granted.devices["workerpool0-0"]) > 2:
                    troubles.append(f"{sorted(running)} run together")
            with guard:
                running.remove(number)
                release(store, order.name)
        store.close()

    threads = [threading.Thread(target=work, args=(orders[start::5],)) for start in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []
    assert queue.leases() == 0
