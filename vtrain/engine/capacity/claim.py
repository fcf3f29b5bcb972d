"""What a job leases of this machine, as a value."""

from __future__ import annotations

import msgspec


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a job leases, decided when it is submitted; all of it, before any replica starts.

    `memory_bytes` is for all replicas together, `memory_limit` what all jobs together may have. `counts` says
    how many of `accelerators` (UUIDs of those that jobs may have) each replica gets. Without `accelerators`
    (None) nothing here can list them.
    """

    memory_bytes: int = 0
    memory_limit: int = 0
    counts: dict[str, int] = {}
    accelerators: tuple[str, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the job never waits: it needs nothing that is counted."""
        return not self.memory_bytes and not self.counts


def pool_devices(claim: Claim, pool: int) -> tuple[str, ...] | None:
    """Stand-ins for what each replica of a pool will have: as many as it gets; None where nobody knows."""
    if claim.accelerators is None:
        return None
    return claim.accelerators[: claim.counts.get(f"workerpool{pool}-0", 0)]
