"""The persistent resources of this machine: pools of slots, each of which runs one replica at a time.

Sources of the rules: `PersistentResource` and `ResourcePool` of
`google/cloud/aiplatform/v1/persistent_resource.proto`, and Google's page on training with a persistent
resource. One rule is not documented: a job waits for its turn if its replicas do not fit now.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from vtrain.errors import ConfigError, ConflictError, DamagedError, FieldError, NotFoundError
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.custom_job import CustomJobSpec, DiskSpec, MachineSpec, WorkerPoolSpec
from vtrain.messages.names import PERSISTENT_RESOURCES, ResourceName, parse_name
from vtrain.messages.persistent_resource import PersistentResource, ResourcePage, ResourcePool
from vtrain.messages.rules import check_resource_pools
from vtrain.messages.structs import Operation, Query
from vtrain.retry import wait_until
from vtrain.runtime.adoption import Start
from vtrain.runtime.capacity.leases import Claim
from vtrain.runtime.capacity.queue import is_living, read_queue, request_end
from vtrain.runtime.database import has_store
from vtrain.runtime.home import Home
from vtrain.runtime.store import Store
from vtrain.runtime.supervisor_process import random_job_id
from vtrain.runtime.warm_slots import end_warm_slots
from vtrain.times import timestamp

RUNNING = "RUNNING"
_ID = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_TYPE = "type.googleapis.com/google.cloud.aiplatform.v1.PersistentResource"
_EMPTY = "type.googleapis.com/google.protobuf.Empty"
END_SECONDS = 120.0
"""The longest wait for the end of jobs whose resource is deleted by force."""
_DEFAULT_DISK = DiskSpec(boot_disk_type="pd-ssd", boot_disk_size_gb=100)


class ResourceRegistry:
    """Persistent resources in the store of a home. Every method raises StorageError where it refuses.

    What Vertex AI continues after its answer is done here at once.
    """

    def __init__(self, home: Path, place: ResourceName, start: Start, preload: tuple[str, ...] = ()) -> None:
        """`place` is that of new resources, which keep the modules `preload` imported between jobs."""
        self._home = home
        self._place = place
        self._start = start
        self._preload = preload

    @cached_property
    def _store(self) -> Store:
        return Store.open(self._home)

    def create_resource(
        self, resource_id: str, resource: PersistentResource, unknown_fields: dict[str, Any]
    ) -> Operation:
        """Keep a resource; its slots are there at once.

        Raises ConfigError for an id, a pool or fields that are not taken, ConflictError for an id in use.
        """
        if unknown_fields:
            raise ConfigError(
                f"This machine does not know {', '.join(unknown_fields)} of a persistent resource."
            )
        if not _ID.fullmatch(resource_id):
            raise ConfigError(
                f"{resource_id!r} is not the id of a persistent resource.",
                hint="Up to 63 of a-z, 0-9 and '-'; the first is a letter, the last no hyphen.",
            )
        check_resource_pools(resource.resource_pools)
        name, now = self._name(resource_id), timestamp()
        kept = msgspec.structs.replace(
            resource,
            name=name,
            resource_pools=_with_ids(resource.resource_pools),
            state=RUNNING,
            create_time=now,
            start_time=now,
            update_time=now,
        )
        with self._store.transaction() as connection:
            added = connection.execute(
                "INSERT OR IGNORE INTO persistent_resources (name, project, location, document, preload)"
                " VALUES (?, ?, ?, ?, ?)",
                (name, self._place.project, self._place.location, _json(kept), " ".join(self._preload)),
            )
            if not added.rowcount:
                raise ConflictError(f"There is a persistent resource {resource_id} already.")
        return _done(name, {"@type": _TYPE} | to_document(kept))

    def get_resource(self, name: str) -> PersistentResource:
        """The resource with the slots that are used now. Raises NotFoundError, DamagedError."""
        return self._with_use(_read(name, resource_row(self._store, name)[0]))

    def list_resources(self, query: Query) -> ResourcePage:
        """The resources of a place, the newest first, on one page."""
        if not has_store(self._home):
            return ResourcePage(resources=())
        rows = self._store.execute(
            "SELECT name, document FROM persistent_resources WHERE project = ?"
            " AND (? = '' OR location = ?) ORDER BY rowid DESC",
            (query.project, query.location, query.location),
        )
        found, damaged = [], []
        for name, document in rows:
            try:
                found.append(self._with_use(_read(name, document)))
            except DamagedError:
                damaged.append(name)
        return ResourcePage(resources=tuple(found), damaged=tuple(damaged))

    def reboot_resource(self, name: str) -> Operation:
        """Start the slots anew, and end its preloaders. Raises ConflictError while a job has one."""
        with self._store.transaction() as connection:
            resource = self.get_resource(name)
            if holders := self._jobs(name):
                raise ConflictError(
                    f"Jobs run on {resource.name.rpartition('/')[2]}: {', '.join(holders)}.",
                    hint="Wait for their end, or cancel them.",
                )
            end_warm_slots(Home(self._home).slots_of(name))
            now = timestamp()
            rebooted = msgspec.structs.replace(resource, start_time=now, update_time=now, answer=None)
            connection.execute(
                "UPDATE persistent_resources SET document = ? WHERE name = ?", (_json(rebooted), name)
            )
        return _done(name, {"@type": _TYPE} | to_document(rebooted))

    def delete_resource(self, name: str, *, force: bool = False) -> Operation:
        """Remove the resource and its preloaders, also where its entry is damaged.

        Raises NotFoundError, and ConflictError while jobs run or wait on it, which `force` cancels.
        """
        resource_row(self._store, name)
        if force:
            jobs = self._jobs(name)
            for job in jobs:
                request_end(self._store, self._start, job, "cancel")
            wait_until(
                lambda: not any(is_living(self._store, self._start, job) for job in jobs),
                END_SECONDS,
                longest=0.5,
            )
        with self._store.transaction() as connection:
            resource_row(self._store, name)
            if jobs := self._jobs(name):
                raise ConflictError(
                    f"Jobs run or wait on {name.rpartition('/')[2]}: {', '.join(jobs)}.",
                    hint="Wait for their end, or add --force, which cancels them.",
                )
            # Before the row goes: without that nobody would look for them again.
            end_warm_slots(Home(self._home).slots_of(name))
            connection.execute("DELETE FROM persistent_resources WHERE name = ?", (name,))
        return _done(name, {"@type": _EMPTY})

    def _name(self, resource_id: str) -> str:
        place = self._place
        return str(msgspec.structs.replace(place, collection=PERSISTENT_RESOURCES, id=resource_id))

    def _jobs(self, name: str) -> list[str]:
        """The jobs that run or wait on a resource, the first in line first."""
        return [lease.name for lease in read_queue(self._store) if lease.line == name]

    def claim(self, spec: CustomJobSpec, claim: Claim) -> Claim:
        """The claim of a job with the slots of the resource that it names, in place of memory.

        Raises NotFoundError, and ConfigError for a job that does not fit any of its pools.
        """
        resource_id = spec.persistent_resource_id
        name = self._name(resource_id)
        document, preload = resource_row(self._store, name)
        resource = _read(name, document)
        if spec.scheduling is not None and spec.scheduling.strategy == "SPOT":
            raise FieldError("scheduling.strategy", "SPOT does not go with a persistent resource.")
        runtime = resource.resource_runtime_spec
        account = runtime.service_account_spec if runtime is not None else None
        if account is not None and account.enable_custom_service_account and not spec.service_account:
            raise FieldError(
                "serviceAccount",
                f"{resource_id} requires that each job names its own.",
                hint="Give --service-account=ACCOUNT.",
            )
        slots: Counter[str] = Counter()
        for index, pool in enumerate(spec.worker_pool_specs):
            if pool.task is not None:
                slots[_fitting(resource, pool, index).id] += pool.replica_count or 1
        limits = {pool.id: slot_count(pool) for pool in resource.resource_pools}
        for pool_id, count in slots.items():
            if count > limits[pool_id]:
                raise ConfigError(
                    f"The job needs {count} replicas of {pool_id}, and {resource_id} has {limits[pool_id]}.",
                    hint="Lower replicaCount, or make a larger resource.",
                )
        slot_limits = {pool_id: limits[pool_id] for pool_id in slots}
        return msgspec.structs.replace(
            claim,
            memory_bytes=0,
            line=name,
            slots=dict(slots),
            slot_limits=slot_limits,
            preload=tuple(preload.split()),
        )

    def _with_use(self, resource: PersistentResource) -> PersistentResource:
        """The resource as it is used now: pools grow and shrink with the demand within their limits."""
        used: Counter[str] = Counter()
        for lease in read_queue(self._store):
            if lease.is_admitted and lease.line == resource.name:
                used.update(lease.slots)
        pools = tuple(
            msgspec.structs.replace(
                pool, used_replica_count=used[pool.id], replica_count=_present(pool, used[pool.id])
            )
            for pool in resource.resource_pools
        )
        return msgspec.structs.replace(resource, resource_pools=pools)


def resource_names(home: Path) -> list[str]:
    """The names of all persistent resources of a home, also of those whose entry is damaged."""
    rows = Store.open(home).execute("SELECT name FROM persistent_resources") if has_store(home) else ()
    return [name for (name,) in rows]


def resource_row(store: Store, name: str) -> tuple[str, ...]:
    """The stored document of a resource, and the modules that it keeps imported. Raises NotFoundError."""
    rows = store.execute("SELECT document, preload FROM persistent_resources WHERE name = ?", (name,))
    if not rows:
        raise NotFoundError(
            f"Persistent resource {name.rpartition('/')[2]} not found.",
            hint="See what there is:\n$ vtrain persistent-resources list",
        )
    return rows[0]


def _done(name: str, response: dict[str, Any]) -> Operation:
    """The operation of what was done before its answer."""
    now = timestamp()
    return Operation(
        name=f"{name}/operations/{random_job_id()}",
        metadata={"genericMetadata": {"createTime": now, "updateTime": now}},
        done=True,
        response=response,
    )


def slot_count(pool: ResourcePool) -> int:
    """The most replicas that a pool runs at a time."""
    scaling = pool.autoscaling_spec
    most = scaling.max_replica_count if scaling is not None else None
    return most or pool.replica_count or 0


def _present(pool: ResourcePool, used: int) -> int:
    """The replicas that a pool has now: of one that scales, as many as are used."""
    scaling = pool.autoscaling_spec
    least = (scaling.min_replica_count or 0) if scaling is not None else (pool.replica_count or 0)
    return max(least, used)


def _with_ids(pools: tuple[ResourcePool, ...]) -> tuple[ResourcePool, ...]:
    """The pools, each with an id: its own, or one that is made of its machine."""
    found: list[ResourcePool] = []
    for pool in pools:
        machine = pool.machine_spec or MachineSpec()
        words = [machine.machine_type, machine.accelerator_type.lower().replace("_", "-")]
        words.append(str(machine.accelerator_count) if machine.accelerator_type else "")
        base = pool.id or "-".join(filter(None, words))
        taken = [other.id for other in found]
        numbered = (base if number == 1 else f"{base}-{number}" for number in range(1, len(pools) + 2))
        unique = next(each for each in numbered if each not in taken)
        found.append(msgspec.structs.replace(pool, id=unique))
    return tuple(found)


def _fitting(resource: PersistentResource, pool: WorkerPoolSpec, index: int) -> ResourcePool:
    """The resource pool with the machines of a worker pool. Raises ConfigError where none has them."""
    machine, disk = pool.machine_spec or MachineSpec(), pool.disk_spec or _DEFAULT_DISK
    for candidate in resource.resource_pools:
        if candidate.machine_spec == machine and (candidate.disk_spec or _DEFAULT_DISK) == disk:
            return candidate
    there = ", ".join(_shown(each.machine_spec, each.disk_spec) for each in resource.resource_pools)
    raise ConfigError(
        f"workerPoolSpecs[{index}] does not fit the persistent resource {resource.name.rpartition('/')[2]}: "
        f"it asks for {_shown(machine, pool.disk_spec)}, and the resource has {there}.",
        hint="Machine, accelerators and disk have to be the same as those of a resource pool.",
    )


def _shown(machine: MachineSpec | None, disk: DiskSpec | None) -> str:
    machine = machine or MachineSpec()
    words = [machine.machine_type or "no machine type"]
    if machine.accelerator_type:
        words.append(f"with {machine.accelerator_count} {machine.accelerator_type}")
    if disk is not None and disk != _DEFAULT_DISK:
        words.append(f"and {disk.boot_disk_size_gb} GB of {disk.boot_disk_type}")
    return " ".join(words)


def _json(resource: PersistentResource) -> str:
    return msgspec.json.encode(to_document(resource)).decode()


def _read(name: str, document: str) -> PersistentResource:
    try:
        decoded = msgspec.json.decode(document, type=dict[str, Any])
        found = from_document(PersistentResource, decoded)
    except (msgspec.DecodeError, msgspec.ValidationError):
        found = PersistentResource()
    if found.name != name or parse_name(name) is None:
        raise DamagedError(
            f"The entry of {name} in the store is damaged: it is not the JSON of this resource.",
            hint=f"To remove it: vtrain persistent-resources delete {name}",
        )
    return found
