"""The needs of a job: the memory and accelerators that it has for itself alone. Pure."""

from __future__ import annotations

from vtrain.messages.custom_job import CustomJobSpec, MachineSpec
from vtrain.runtime.accelerators import gpu_count
from vtrain.runtime.capacity.leases import Claim
from vtrain.runtime.capacity.offer import Offer
from vtrain.runtime.machines import machine_memory
from vtrain.runtime.replica.vertex_view import replica_ids


def claim_of(spec: CustomJobSpec, offer: Offer, *, memory_bytes: int = 0, all_gpus: bool = False) -> Claim:
    """The claim of a job. It never exceeds the offer, so that each job can run when it is alone.

    `memory_bytes` (0: not given) takes the place of the machine types' memory; with `all_gpus` replicas ask
    for every GPU where their machine type has none.
    """
    available = len(offer.accelerators or ())
    pools = (spec.worker_pool_specs[member.pool] for member in replica_ids(spec))
    needed = sum(memory_bytes or machine_memory(pool) for pool in pools)
    return Claim(
        memory_bytes=min(needed, offer.memory_bytes),
        memory_limit=offer.memory_bytes,
        counts=_shares(_wanted(spec, all_gpus, available), available),
        accelerators=offer.accelerators,
    )


def wants_accelerators(spec: CustomJobSpec, *, all_gpus: bool = False) -> bool:
    """Whether any replica asks for a GPU."""
    return bool(_wanted(spec, all_gpus, 1))


def _wanted(spec: CustomJobSpec, all_gpus: bool, available: int) -> dict[str, int]:
    """How many GPUs each replica asks for; `--gpu` asks for all."""
    found = {}
    for member in replica_ids(spec):
        asked = gpu_count(spec.worker_pool_specs[member.pool].machine_spec or MachineSpec())
        found[member.name] = asked or (available if all_gpus else 0)
    return {name: count for name, count in found.items() if count}


def _shares(wanted: dict[str, int], available: int) -> dict[str, int]:
    """The share of each replica: as many as it asks for, else an equal part of those that there are.

    Replicas never share a GPU. With fewer GPUs than replicas that ask for some, no replica gets any.
    """
    if sum(wanted.values()) <= available:
        return wanted
    share = available // len(wanted)
    return {name: min(count, share) for name, count in wanted.items()} if share else {}
