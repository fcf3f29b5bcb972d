"""The containers of a job, from its order: their names, environment, mounts and resources."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from vtrain.backends.docker.container import (
    OPEN_TO_ALL,
    REPORTS,
    SITE,
    USER_BASE,
    WORK,
    ContainerOrder,
    Resources,
    bind,
    bucket_mounts,
    container_config,
    container_name,
    job_labels,
    option_mounts,
    program_of,
    seen_folder,
)
from vtrain.backends.docker.container_terminal import own_terminal, with_terminal
from vtrain.backends.docker.device_requests import grant
from vtrain.backends.docker.order_part import docker_part
from vtrain.backends.replica_options import CREDENTIALS_TARGET, ReplicaOptions
from vtrain.containers.labels import ATTEMPT_LABEL, REPLICA_LABEL
from vtrain.messages.custom_job import MachineSpec, PythonPackageSpec, WorkerPoolSpec
from vtrain.runtime.folder import DamagedFileError, JobFolder, require_struct
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.launcher import Runtime
from vtrain.runtime.machines import HostResources, Limits, limits
from vtrain.runtime.replica.replica_plan import replica_views
from vtrain.runtime.replica.vertex_view import HP_METRIC_FILE, PRIMARY, ReplicaId, host_name, service_hosts
from vtrain.runtime.replica.world import World

SHARED_MEMORY_PART = 2
"""Half of a replica's memory can be shared: with Docker's default of 64 MB, PyTorch's data loaders die."""


def container_orders(
    info: dict[str, Any],
    order: JobOrder,
    folder: JobFolder,
    runtimes: tuple[Runtime, ...],
    devices: Mapping[str, tuple[str, ...]],
    storage: Mapping[str, str],
    network: str,
) -> dict[str, ContainerOrder]:
    """The orders of all replicas, the primary first. `info` is the engine's description of itself.

    `devices` are the accelerators that each replica has for itself, by UUID; `storage` are the variables by
    which they find Cloud Storage on this machine. `network` is the job's own; empty: it has none.
    """
    job_id, part, terminal = order.resource.id, docker_part(order), own_terminal(order, folder)
    world = replace(
        container_world(order, part.container),
        storage=storage,
        terminal=terminal,
        runtimes=runtimes,
        debugger_host="0.0.0.0",
    )
    data_uri = order.data.uri if order.data else ""
    mounts = (*bucket_mounts(order.job.job_spec, Path(order.home), data_uri), *option_mounts(part.container))
    labels = job_labels(order.home, job_id)
    found = {}
    for view in replica_views(order, world):
        member = view.member
        pool = order.job.job_spec.worker_pool_specs[member.pool]
        assert pool.task is not None
        runtime = runtimes[member.pool]
        own_labels = labels | {REPLICA_LABEL: member.name, ATTEMPT_LABEL: "0"}
        config = container_config(
            image=runtime.image,
            program=program_of(pool.task, view.argv),
            env=view.env,
            host=host_name(job_id, member),
            network=network,
            labels=own_labels,
            mounts=(*_own_mounts(order, folder, member, runtime), *mounts),
            resources=resources(pool, order, info, _leased(order, member, devices)),
            options=part.container,
        )
        if order.debugger is not None and member == PRIMARY:
            config = _with_port(config, order.debugger.port)
        found[member.name] = ContainerOrder(
            engine=part.engine,
            name=container_name(job_id, member.name),
            network=network,
            replicas=len(world.hosts),
            labels=own_labels,
            config=with_terminal(config, terminal) if terminal is not None else config,
            log=str(folder.logs / member.name),
            grace_seconds=order.grace_seconds,
            terminal=terminal,
        )
    return found


def container_world(order: JobOrder, options: ReplicaOptions) -> World:
    """What containers see: the same as on Vertex AI, and what their options say."""
    hosts = service_hosts(order.job.job_spec, order.resource.id)
    return World(
        hosts=hosts,
        folder=lambda uri: seen_folder(uri, order.setting.aip_dirs),
        work=WORK,
        site=SITE,
        metric_files=dict.fromkeys(hosts, HP_METRIC_FILE),
        credentials=CREDENTIALS_TARGET if options.credentials_file else "",
        # The home of another user than the image's own is another, or there is none.
        package_variables={"PYTHONUSERBASE": USER_BASE} if options.user else {},
    )


def _own_mounts(
    order: JobOrder, folder: JobFolder, member: ReplicaId, runtime: Runtime
) -> tuple[dict[str, Any], ...]:
    """The working directory of a Python package, as an image has its own; its code; a trial's reports.

    The primary of a trial reports to a folder of this machine, whichever user it runs as.
    """
    pool, mounts = order.job.job_spec.worker_pool_specs[member.pool], []
    if isinstance(pool.task, PythonPackageSpec):
        mounts.append(bind(folder.replica(member.name).work, WORK))
    if runtime.site:
        mounts.append(bind(runtime.site, SITE, read_only=True))
    if order.trial_id and member == PRIMARY:
        reports = folder.metric_file.parent
        reports.mkdir(exist_ok=True)
        reports.chmod(OPEN_TO_ALL)
        mounts.append(bind(reports, REPORTS))
    return tuple(mounts)


def first_order(folder: JobFolder) -> ContainerOrder | None:
    """The order of the first replica that can be read; None where no replica was ordered."""
    for file in sorted(folder.path.glob("replicas/*/spec.json")):
        with suppress(DamagedFileError):
            return require_struct(file, ContainerOrder)
    return None


def host_resources(info: dict[str, Any]) -> HostResources:
    """The processors and the memory of the engine's machine."""
    return HostResources(cpus=info["NCPU"], memory_bytes=info["MemTotal"])


def pool_limits(machine: MachineSpec | None, options: ReplicaOptions, host: HostResources) -> Limits:
    """The limits of a pool's containers: `--cpus` and `--memory` take the place of the machine type's."""
    machine_type = machine.machine_type if machine is not None else ""
    return limits(machine_type, host, cpus=options.cpus, memory_bytes=options.memory_bytes)


def resources(
    pool: WorkerPoolSpec, order: JobOrder, info: dict[str, Any], leased: tuple[str, ...] | None
) -> Resources:
    """A replica's resources: those of its machine type, as far as this machine has them, and its own GPUs."""
    machine = pool.machine_spec
    host = host_resources(info)
    options = docker_part(order).container
    allowed = pool_limits(machine, options, host)
    shared = (allowed.memory_bytes or host.memory_bytes) // SHARED_MEMORY_PART
    granted = grant(machine, options, info, leased)
    return Resources(
        cpus=allowed.cpus,
        memory_bytes=allowed.memory_bytes,
        shm_bytes=options.shm_size or shared,
        device_requests=granted.device_requests,
    )


def _leased(
    order: JobOrder, member: ReplicaId, devices: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...] | None:
    """The replica's own GPUs, by UUID; None where only the engine knows which there are."""
    return None if order.claim.accelerators is None else devices.get(member.name, ())


def _with_port(config: dict[str, Any], number: int) -> dict[str, Any]:
    """The container of a debugger, whose port is open to this machine alone."""
    port = f"{number}/tcp"
    ports = {port: [{"HostIp": "127.0.0.1", "HostPort": str(number)}]}
    return config | {"ExposedPorts": {port: {}}, "HostConfig": config["HostConfig"] | {"PortBindings": ports}}
