"""The rules of the queue for this machine: what jobs claim, what they have leased, and which may start. Pure.

Jobs start in the order in which they were submitted. A job does not share what it leases, up to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from vtrain.sizes import memory_in_words


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The needs of a job, decided when it is submitted; leased together, before any replica starts.

    `memory_bytes` is for all replicas together, `memory_limit` what all jobs together may have. `counts` says
    how many of `accelerators` (UUIDs of those that jobs may have) each replica gets. Without `accelerators`
    (None) nothing here can list them. A job on a persistent resource stands in the `line` of that, and needs
    `slots` of its pools, of which there are `slot_limits`; the resource keeps the modules `preload` imported.
    """

    memory_bytes: int = 0
    memory_limit: int = 0
    counts: dict[str, int] = {}
    accelerators: tuple[str, ...] | None = None
    line: str = ""
    slots: dict[str, int] = {}
    slot_limits: dict[str, int] = {}
    preload: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the job never waits: it needs nothing that is counted."""
        return not self.memory_bytes and not self.counts and not self.slots


def pool_devices(claim: Claim, pool: int) -> tuple[str, ...] | None:
    """Stand-ins for what each replica of a pool will have: as many as it gets; None where nobody knows."""
    if claim.accelerators is None:
        return None
    return claim.accelerators[: claim.counts.get(f"workerpool{pool}-0", 0)]


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """The job may start. `devices` are the accelerators of each replica, by UUID."""

    devices: dict[str, tuple[str, ...]] = {}


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """The job does not fit now. `reason` is a sentence for people: what is missing, and who has it."""

    reason: str


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A living job in the queue: it has what it leased once it `is_admitted`, and waits before.

    With `is_damaged` nobody knows what it has: until its end no accelerator counts as free.
    """

    name: str
    memory_bytes: int = 0
    is_admitted: bool = False
    devices: dict[str, tuple[str, ...]] = {}
    line: str = ""
    slots: dict[str, int] = {}
    is_damaged: bool = False


def decide(name: str, claim: Claim, queue: Sequence[Lease]) -> Admitted | Waiting:
    """Whether the job may start now. `queue` holds all living jobs that need something, the oldest first.

    It waits for those before it in its own line: that of this machine, or of its persistent resource.
    """
    own = next((lease for lease in queue if lease.name == name), None)
    if own is not None and own.is_admitted:
        return Admitted(devices=own.devices)
    holders = [lease for lease in queue if lease.is_admitted]
    waiting = (lease for lease in queue if not lease.is_admitted and lease.line == claim.line)
    first = next(waiting, None)
    if first is not None and first.name != name:
        return Waiting(reason=f"{_short(first.name)} was there before and waits as well.")
    if lacking := list(_lacking(claim, holders)):
        return Waiting(reason=f"{'; '.join(lacking)} ({_named([lease.name for lease in holders])}).")
    free = iter(_free_devices(claim, holders))
    shares = {replica: tuple(next(free) for _ in range(count)) for replica, count in claim.counts.items()}
    return Admitted(devices=shares)


def next_in_line(queue: Sequence[Lease], claim_of: Callable[[str], Claim | None]) -> list[str]:
    """The waiting jobs that need a supervisor: those that may start, and the first of each line that may not.

    A job without a claim cannot be read any more; those behind it wait until it is out of the queue.
    """
    found, expected, blocked = [], list(queue), set[str]()
    for place, lease in enumerate(queue):
        if lease.is_admitted or lease.line in blocked:
            continue
        found.append(lease.name)
        claim = claim_of(lease.name)
        answer = decide(lease.name, claim, expected) if claim is not None else None
        if not isinstance(answer, Admitted):
            blocked.add(lease.line)
            continue
        expected[place] = msgspec.structs.replace(lease, is_admitted=True, devices=answer.devices)
    return found


def _lacking(claim: Claim, holders: Sequence[Lease]) -> Iterator[str]:
    """Parts of a sentence: what the job needs, and how much of it is free."""
    free = max(claim.memory_limit - sum(lease.memory_bytes for lease in holders), 0)
    if claim.memory_bytes > free:
        needed, limit = memory_in_words(claim.memory_bytes), memory_in_words(claim.memory_limit)
        yield f"it needs {needed} of memory, and {memory_in_words(free)} of {limit} are free"
    gpus, free = sum(claim.counts.values()), len(_free_devices(claim, holders))
    if gpus > free:
        there = len(claim.accelerators or ())
        yield f"it needs {gpus} {'GPU' if gpus == 1 else 'GPUs'}, and {free} of {there} are free"
    for pool, slots in claim.slots.items():
        used = sum(lease.slots.get(pool, 0) for lease in holders if lease.line == claim.line)
        most, resource = claim.slot_limits.get(pool, 0), claim.line.rpartition("/")[2]
        if slots > most - used:
            yield f"it needs {slots} of {pool} on {resource}, and {max(most - used, 0)} of {most} are free"


def _free_devices(claim: Claim, holders: Sequence[Lease]) -> list[str]:
    if any(lease.is_damaged for lease in holders):
        return []
    taken = {uuid for lease in holders for uuids in lease.devices.values() for uuid in uuids}
    return [uuid for uuid in claim.accelerators or () if uuid not in taken]


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(_short(name) for name in names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{shown}{more} {'runs' if len(names) == 1 else 'run'}"


def _short(name: str) -> str:
    return f"job {name.rpartition('/')[2]}"
