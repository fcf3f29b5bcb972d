"""What a job needs of this machine for itself alone: memory and accelerators. Pure."""

from __future__ import annotations

from vtrain.engine.accelerators import gpu_count
from vtrain.engine.capacity.claim import Claim
from vtrain.engine.capacity.offer import Offer
from vtrain.engine.container_options import ContainerOptions
from vtrain.engine.machines import GIB, machine
from vtrain.engine.replica import replica_ids
from vtrain.messages.custom_job import CustomJobSpec, MachineSpec, WorkerPoolSpec


def claim_of(spec: CustomJobSpec, options: ContainerOptions, offer: Offer) -> Claim:
    """The claim of a job. It never exceeds the offer, so that each job can run when it is alone."""
    available = len(offer.accelerators or ())
    return Claim(
        memory_bytes=min(_memory(spec, options), offer.memory_bytes),
        memory_limit=offer.memory_bytes,
        counts=_shares(_wanted(spec, options, available), available),
        accelerators=offer.accelerators,
    )


def wants_accelerators(spec: CustomJobSpec, options: ContainerOptions) -> bool:
    """Whether any replica asks for a GPU."""
    return bool(_wanted(spec, options, 1))


def _memory(spec: CustomJobSpec, options: ContainerOptions) -> int:
    """The sum over the replicas: `--memory`, else that of the machine type; an unknown type needs none."""
    pools = (spec.worker_pool_specs[member.pool] for member in replica_ids(spec))
    return sum(options.memory_bytes or _machine_memory(pool) for pool in pools)


def _machine_memory(pool: WorkerPoolSpec) -> int:
    known = machine(pool.machine_spec.machine_type) if pool.machine_spec is not None else None
    return int(known.memory_gib * GIB) if known is not None else 0


def _wanted(spec: CustomJobSpec, options: ContainerOptions, available: int) -> dict[str, int]:
    """How many GPUs each replica asks for; `--gpu` asks for all."""
    found = {}
    for member in replica_ids(spec):
        asked = gpu_count(spec.worker_pool_specs[member.pool].machine_spec or MachineSpec())
        found[member.name] = asked or (available if options.gpus else 0)
    return {name: count for name, count in found.items() if count}


def _shares(wanted: dict[str, int], available: int) -> dict[str, int]:
    """What each replica gets: what it asks for, or an equal share of what there is; nobody shares a GPU.

    With fewer GPUs than replicas that ask for some, none gets any: half a job on GPUs is no job.
    """
    if sum(wanted.values()) <= available:
        return wanted
    share = available // len(wanted)
    return {name: min(count, share) for name, count in wanted.items()} if share else {}
