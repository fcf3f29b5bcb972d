"""The containers of a job, from its order: their names, environment, mounts and resources."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from vtrain.backends.docker.container import (
    OPEN_TO_ALL,
    PYTHON,
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
    told_folder,
)
from vtrain.backends.docker.container_terminal import own_terminal, with_terminal
from vtrain.backends.docker.device_requests import grant
from vtrain.backends.docker.order_part import docker_part
from vtrain.backends.replica_options import CREDENTIALS_TARGET, ReplicaOptions
from vtrain.containers.labels import ATTEMPT_LABEL, REPLICA_LABEL
from vtrain.messages.custom_job import CustomJobSpec, MachineSpec, PythonPackageSpec, WorkerPoolSpec
from vtrain.messages.names import ResourceName
from vtrain.runtime.debugging import CodePlaces, Debugger, debugger_variables
from vtrain.runtime.folder import DamagedFileError, JobFolder, require_struct
from vtrain.runtime.inheritance import NO_METADATA
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.launcher import Runtime
from vtrain.runtime.machines import HostResources, Limits, limits
from vtrain.runtime.replica.vertex_view import (
    PRIMARY,
    JobContext,
    ReplicaId,
    host_name,
    replica_environment,
    service_hosts,
)

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
    name = order.resource
    part = docker_part(order)
    context = _own_context(order, name)
    data_uri = order.data.uri if order.data else ""
    mounts = (*bucket_mounts(order.job.job_spec, Path(order.home), data_uri), *option_mounts(part.container))
    labels = job_labels(order.home, name.id)
    terminal = own_terminal(order, folder)
    found = {}
    for member in context.hosts:
        pool = order.job.job_spec.worker_pool_specs[member.pool]
        assert pool.task is not None
        runtime = runtimes[member.pool]
        own_labels = labels | {REPLICA_LABEL: member.name, ATTEMPT_LABEL: "0"}
        config = container_config(
            image=runtime.image,
            program=program_of(pool.task),
            env={**storage, **environment(order.job.job_spec, part.container, member, context)},
            host=host_name(name.id, member),
            network=network,
            labels=own_labels,
            mounts=(*_own_mounts(order, folder, member, runtime), *mounts),
            resources=resources(pool, order, info, _leased(order, member, devices)),
            options=part.container,
        )
        if order.debugger is not None and member == PRIMARY:
            config = _debugged(config, order.debugger, pool, Path(runtime.site), order.source_folder)
        found[member.name] = ContainerOrder(
            engine=part.engine,
            name=container_name(name.id, member.name),
            network=network,
            replicas=len(context.hosts),
            labels=own_labels,
            config=with_terminal(config, terminal) if terminal is not None else config,
            log=str(folder.logs / member.name),
            grace_seconds=order.grace_seconds,
            terminal=terminal,
        )
    return found


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


def _own_context(order: JobOrder, name: ResourceName) -> JobContext:
    """The facts that the replicas of one job share: also its trial, and the data of its pipeline."""
    context = job_context(order.job.job_spec, name.id, name.location, order.setting.aip_dirs)
    data = order.data
    if data is not None:
        data = msgspec.structs.replace(data, uri=told_folder(data.uri, order.setting.aip_dirs))
    trial_id = order.trial_id
    return msgspec.structs.replace(context, trial_id=trial_id, data=data)


def job_context(spec: CustomJobSpec, job_id: str, region: str, aip_dirs: str = "") -> JobContext:
    """The facts that all replicas share: on Docker exactly those of Vertex AI."""
    return JobContext(
        job_id=job_id,
        region=region,
        hosts=service_hosts(spec, job_id),
        output=told_folder(spec.output_uri, aip_dirs),
    )


def environment(
    spec: CustomJobSpec, options: ReplicaOptions, member: ReplicaId, context: JobContext
) -> dict[str, str]:
    """A replica's variables: the service's and the user's; output unbuffered, so that lines come at once."""
    pool = spec.worker_pool_specs[member.pool]
    own = {"PYTHONUNBUFFERED": "1"} if isinstance(pool.task, PythonPackageSpec) else {}
    if own and options.user:  # whose home is another, or none
        own["PYTHONUSERBASE"] = USER_BASE
    if options.credentials_file:
        own["GOOGLE_APPLICATION_CREDENTIALS"] = CREDENTIALS_TARGET
    else:
        own |= NO_METADATA
    return own | replica_environment(spec, member, context)


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


def _debugged(
    config: dict[str, Any], debugger: Debugger, pool: WorkerPoolSpec, site: Path, source: str
) -> dict[str, Any]:
    """The container under a debugger, whose port is open to this machine alone."""
    task = pool.python_package_spec
    assert task is not None
    variables = debugger_variables(task, CodePlaces(source=source, installed=site, seen=SITE, cwd=WORK))
    port = f"{debugger.port}/tcp"
    ports = {port: [{"HostIp": "127.0.0.1", "HostPort": str(debugger.port)}]}
    return config | {
        "Entrypoint": list(debugger.argv(task, PYTHON, "0.0.0.0")),
        "Env": [*config["Env"], *(f"{name}={value}" for name, value in variables.items())],
        "ExposedPorts": {port: {}},
        "HostConfig": config["HostConfig"] | {"PortBindings": ports},
    }
