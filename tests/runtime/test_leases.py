"""The rules of the queue as values: which jobs start, which wait and why, and which are next in line."""

from __future__ import annotations

import msgspec
import pytest

from vtrain.runtime.capacity.leases import (
    Admitted,
    Claim,
    Lease,
    Waiting,
    decide,
    next_in_line,
    pool_devices,
)
from vtrain.runtime.machines import GIB

GPUS = ("GPU-a", "GPU-b", "GPU-c", "GPU-d")


def claim(memory: int = 0, *counts: int, limit: int = 10) -> Claim:
    named = {f"workerpool{index}-0": count for index, count in enumerate(counts)}
    return Claim(memory_bytes=memory * GIB, memory_limit=limit * GIB, counts=named, accelerators=GPUS)


def holder(name: str, memory: int = 0, *uuids: str) -> Lease:
    devices = {"workerpool0-0": uuids} if uuids else {}
    return Lease(name=f"jobs/{name}", memory_bytes=memory * GIB, is_admitted=True, devices=devices)


def waiter(name: str, memory: int = 0) -> Lease:
    return Lease(name=f"jobs/{name}", memory_bytes=memory * GIB)


def test_what_just_fits_starts() -> None:
    queue = [holder("1", 4), waiter("2", 6)]
    assert decide("jobs/2", claim(6), queue) == Admitted()


def test_what_does_not_fit_is_told_what_is_missing() -> None:
    queue = [holder("1", 4), waiter("2", 7)]
    assert decide("jobs/2", claim(7), queue) == Waiting(
        reason="it needs 7 GB of memory, and 6 GB of 10 GB are free (job 1 runs)."
    )


def test_less_than_nothing_is_never_free() -> None:
    """The limit may have been lowered since the others started."""
    queue = [holder("1", 8), holder("2", 8), waiter("3", 1)]
    answer = decide("jobs/3", claim(1), queue)
    assert isinstance(answer, Waiting)
    assert answer.reason == "it needs 1 GB of memory, and 0 MB of 10 GB are free (job 1, job 2 run)."
    one_byte = Claim(memory_bytes=1, memory_limit=10 * GIB)
    assert isinstance(decide("jobs/3", one_byte, queue), Waiting)


def test_everything_that_is_missing_is_told() -> None:
    queue = [holder("1", 9, "GPU-a", "GPU-b", "GPU-c"), waiter("2")]
    answer = decide("jobs/2", claim(2, 1, 1), queue)
    assert isinstance(answer, Waiting)
    assert answer.reason == (
        "it needs 2 GB of memory, and 1 GB of 10 GB are free; "
        "it needs 2 GPUs, and 1 of 4 are free (job 1 runs)."
    )


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (1, "job 1 runs"),
        (3, "job 1, job 2, job 3 run"),
        (4, "job 1, job 2, job 3 and 1 more run"),
        (5, "job 1, job 2, job 3 and 2 more run"),
    ],
)
def test_three_holders_are_named(count: int, told: str) -> None:
    queue = [*(holder(str(number), 2) for number in range(1, count + 1)), waiter("9")]
    answer = decide("jobs/9", claim(10), queue)
    assert isinstance(answer, Waiting)
    assert answer.reason.endswith(f" ({told}).")


def test_the_free_gpus_are_handed_out_in_order() -> None:
    queue = [holder("1", 0, "GPU-b"), waiter("2")]
    assert decide("jobs/2", claim(0, 1, 2), queue) == Admitted(
        devices={"workerpool0-0": ("GPU-a",), "workerpool1-0": ("GPU-c", "GPU-d")}
    )


def test_who_has_a_lease_keeps_it_whatever_else_runs() -> None:
    queue = [holder("1", 10, *GPUS), holder("2", 10, "GPU-d")]
    assert decide("jobs/2", claim(10, 1), queue) == Admitted(devices={"workerpool0-0": ("GPU-d",)})


def test_an_earlier_job_is_not_passed() -> None:
    queue = [holder("1", 2), waiter("2", 9), waiter("3", 1)]
    assert decide("jobs/3", claim(1), queue) == Waiting(reason="job 2 was there before and waits as well.")


def test_a_job_that_is_not_in_the_queue_is_behind_all() -> None:
    assert decide("jobs/9", claim(1), [holder("1", 2)]) == Admitted()
    assert isinstance(decide("jobs/9", claim(1), [waiter("1", 2)]), Waiting)


CLAIMS = {f"jobs/{number}": claim(memory) for number, memory in enumerate((9, 6, 3, 1, 1))}


def test_all_that_may_start_and_the_first_that_may_not_are_next() -> None:
    queue = [waiter(str(number)) for number in range(5)]
    given = {name: own.memory_bytes for name, own in CLAIMS.items()}
    queue = [msgspec.structs.replace(lease, memory_bytes=given[lease.name]) for lease in queue]
    assert next_in_line(queue, CLAIMS.get) == ["jobs/0", "jobs/1"]
    assert next_in_line(queue[1:], CLAIMS.get) == ["jobs/1", "jobs/2", "jobs/3", "jobs/4"]
    assert next_in_line([holder("8", 8), *queue[1:]], CLAIMS.get) == ["jobs/1"]
    assert next_in_line([holder("8", 8)], CLAIMS.get) == []


def test_gpus_that_the_next_job_will_have_are_taken() -> None:
    claims = {"jobs/1": claim(0, 3), "jobs/2": claim(0, 1), "jobs/3": claim(0, 1)}
    queue = [waiter("1"), waiter("2"), waiter("3")]
    assert next_in_line(queue, claims.get) == ["jobs/1", "jobs/2", "jobs/3"]
    assert next_in_line([holder("0", 0, "GPU-d"), *queue], claims.get) == ["jobs/1", "jobs/2"]


def test_a_job_that_cannot_be_read_is_next_and_the_last() -> None:
    queue = [waiter("7"), waiter("3", 1)]
    assert next_in_line(queue, CLAIMS.get) == ["jobs/7"]


def test_a_claim_is_empty_when_it_counts_nothing() -> None:
    assert Claim().is_empty
    assert Claim(memory_limit=5, accelerators=GPUS).is_empty
    assert not Claim(memory_bytes=1).is_empty
    assert not Claim(counts={"workerpool0-0": 1}).is_empty


def test_stand_ins_for_the_gpus_of_a_pool() -> None:
    own = claim(0, 1, 3)
    assert pool_devices(own, 0) == ("GPU-a",)
    assert pool_devices(own, 1) == GPUS[:3]
    assert pool_devices(own, 2) == ()
    assert pool_devices(Claim(counts={"workerpool0-0": 1}), 0) is None


def on_team(name: str, count: int, *, admitted: bool = False) -> Lease:
    return Lease(name=f"jobs/{name}", line="team", slots={"pool": count}, is_admitted=admitted)


def slots(count: int, limit: int = 2) -> Claim:
    return Claim(line="team", slots={"pool": count}, slot_limits={"pool": limit})


def test_each_line_is_first_come_for_itself() -> None:
    queue = [holder("1", 9), waiter("2", 5), on_team("3", 2, admitted=True), on_team("4", 1), waiter("5", 1)]
    claims = {"jobs/2": claim(5), "jobs/4": slots(1), "jobs/5": claim(1)}
    assert next_in_line(queue, claims.get) == ["jobs/2", "jobs/4"]
    assert isinstance(decide("jobs/5", claim(1), queue), Waiting)
    told = decide("jobs/4", slots(1), queue)
    assert isinstance(told, Waiting)
    assert told.reason.startswith("it needs 1 of pool on team, and 0 of 2 are free")
    other = Lease(name="jobs/6", line="other", slots={"pool": 2}, is_admitted=True)
    assert decide("jobs/4", slots(2), [other, on_team("4", 2)]) == Admitted(), "a pool of that name"


def test_a_job_that_needs_more_slots_is_not_overtaken() -> None:
    queue = [on_team("1", 1, admitted=True), on_team("2", 2), on_team("3", 1)]
    claims = {"jobs/2": slots(2), "jobs/3": slots(1)}
    assert next_in_line(queue, claims.get) == ["jobs/2"]
    assert isinstance(decide("jobs/3", slots(1), queue), Waiting)
    queue[0] = on_team("0", 0)
    assert decide("jobs/2", slots(2), queue[1:]) == Admitted()
