"""The parts of a job that this machine does not reproduce: declared, once, by the names of its fields.

What happens instead of each is on the page docs/reference/fidelity.md, which a test holds to this list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from vtrain.messages.custom_job import CustomJob, CustomJobSpec, MachineSpec, WorkerPoolSpec
from vtrain.runtime.machines import machine_memory

SPEC_FIELDS = {
    "network": "network",
    "reservedIpRanges": "reserved_ip_ranges",
    "pscInterfaceConfig": "psc_interface_config",
    "protectedArtifactLocationId": "protected_artifact_location_id",
    "serviceAccount": "service_account",
    "enableWebAccess": "enable_web_access",
    "enableDashboardAccess": "enable_dashboard_access",
    "tensorboard": "tensorboard",
    "experiment": "experiment",
    "experimentRun": "experiment_run",
    "models": "models",
}
"""Fields of a job that no local backend reproduces: as the API writes them, and as we do."""
DEFAULT_BOOT_DISKS = ("", "pd-ssd")
DEFAULT_BOOT_DISK_GB = (0, 100)
REPRODUCED_STRATEGIES = ("", "STRATEGY_UNSPECIFIED", "STANDARD", "ON_DEMAND", "LOW_COST", "SPOT")

NO_CONSEQUENCE = (
    "machineType",
    "bootDiskType",
    "bootDiskSizeGb",
    "reservationAffinity",
    "enableWebAccess",
    "enableDashboardAccess",
    "scheduling.strategy",
    "scheduling.maxWaitDuration",
)
"""Fields about speed, price and access: a trainer gives the same result without them."""

SLOT_FIELDS = ("machineType", "bootDiskType", "bootDiskSizeGb")
"""Fields by which a job gets its slot of a persistent resource."""

PoolRule = Callable[[WorkerPoolSpec], bool]


def _machine(pool: WorkerPoolSpec) -> MachineSpec:
    return pool.machine_spec or MachineSpec()


CONTAINER_POOL_FIELDS: dict[str, PoolRule] = {
    "reservationAffinity": lambda pool: _machine(pool).reservation_affinity is not None,
    "nfsMounts": lambda pool: bool(pool.nfs_mounts),
    "lustreMounts": lambda pool: bool(pool.lustre_mounts),
    "bootDiskType": lambda pool: (
        pool.disk_spec is not None and pool.disk_spec.boot_disk_type not in DEFAULT_BOOT_DISKS
    ),
    "bootDiskSizeGb": lambda pool: (
        pool.disk_spec is not None and pool.disk_spec.boot_disk_size_gb not in DEFAULT_BOOT_DISK_GB
    ),
}
"""Fields of a pool that no local backend reproduces. Containers have the limits of their machine type."""
PROCESS_POOL_FIELDS: dict[str, PoolRule] = {
    "machineType": lambda pool: bool(_machine(pool).machine_type),
    **CONTAINER_POOL_FIELDS,
}


def not_reproduced(job: CustomJob, pool_fields: dict[str, PoolRule]) -> tuple[str, ...]:
    """The parts of a job that replicas on this machine do not reproduce, by one of the tables above."""
    spec, scheduling = job.job_spec, job.job_spec.scheduling
    pools = list(enumerate(spec.worker_pool_specs))
    found = [_of_pools(name, [n for n, pool in pools if rule(pool)]) for name, rule in pool_fields.items()]
    found += [name for name, attribute in SPEC_FIELDS.items() if getattr(spec, attribute)]
    if scheduling is not None and scheduling.strategy not in REPRODUCED_STRATEGIES:
        found.append(f"scheduling.strategy {scheduling.strategy}")
    if scheduling is not None and scheduling.max_wait_duration:
        found.append("scheduling.maxWaitDuration")
    if job.encryption_spec is not None:
        found.append("encryptionSpec")
    return tuple(filter(None, found))


def without_consequence(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """The names of fields whose absence does not change the result of a job, and the others."""
    found: tuple[list[str], list[str]] = ([], [])
    for name in names:
        found[_field(name) not in NO_CONSEQUENCE].append(name)
    return found


def notes_on(
    names: Iterable[str], spec: CustomJobSpec | None, backend: str, *, memory_is_given: bool
) -> Iterator[str]:
    """Sentences on fields without consequence: what is left of each on this machine, if anything.

    `memory_is_given` says that the machine types' memory does not count.
    """
    left: dict[str, list[str]] = {}
    for name in names:
        left.setdefault(_left_of(_field(name), spec, memory_is_given=memory_is_given), []).append(name)
    for what, fields in left.items():
        shown = ", ".join(fields)
        has = "have" if len(fields) > 1 else "has"
        yield f"{shown}: {what}." if what else f"{shown} {has} no effect on the backend {backend}."


def _left_of(field: str, spec: CustomJobSpec | None, *, memory_is_given: bool) -> str:
    """The effect that a field has here; empty for none."""
    if field == "enableDashboardAccess":
        return "only AIP_DASHBOARD_PORT is set"
    if spec is not None and spec.persistent_resource_id and field in SLOT_FIELDS:
        return "only a slot of the persistent resource is chosen by it"
    pools = spec.worker_pool_specs if spec is not None else ()
    if field == "machineType" and not memory_is_given and any(machine_memory(pool) for pool in pools):
        return "only its memory counts here, for the queue"
    return ""


def _field(name: str) -> str:
    """`machineType` of `machineType of workerPoolSpecs[0]`."""
    return name.partition(" ")[0]


def declaration(names: Iterable[str]) -> str:
    """The fields that are not reproduced, in one line."""
    return f"Not reproduced here: {', '.join(names)}."


def _of_pools(name: str, numbers: list[int]) -> str:
    """`nfsMounts of workerPoolSpecs[0] and [2]`; empty for no pool."""
    if not numbers:
        return ""
    *others, last = (f"[{number}]" for number in numbers)
    return f"{name} of workerPoolSpecs{', '.join(others)}{' and ' if others else ''}{last}"
