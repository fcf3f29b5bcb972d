"""The containers of a job, from its order: their names, environment, mounts and resources."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from vtrain.backends.docker.container import (
    DEFAULT_BRIDGE,
    OPEN_TO_ALL,
    REPORTS,
    SITE,
    USER_BASE,
    WORK,
    ContainerOrder,
    bind,
    bucket_mounts,
    container_name,
    docker_part,
    job_labels,
    option_mounts,
    program_of,
    seen_folder,
)
from vtrain.backends.docker.container_terminal import own_terminal
from vtrain.backends.docker.device_requests import grant
from vtrain.backends.replica_options import CREDENTIALS_TARGET, ReplicaOptions
from vtrain.containers.labels import ATTEMPT_LABEL, REPLICA_LABEL
from vtrain.messages.custom_job import MachineSpec, PythonPackageSpec
from vtrain.runtime.debugging import Debugger
from vtrain.runtime.folder import DamagedFileError, JobFolder, require_struct
from vtrain.runtime.job_order import JobOrder, LentTerminal
from vtrain.runtime.launcher import Runtime
from vtrain.runtime.machines import HostResources, Limits, limits
from vtrain.runtime.replica.replica_plan import ReplicaView, replica_views
from vtrain.runtime.replica.vertex_view import HP_METRIC_FILE, PRIMARY, host_name, service_hosts
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
    spec, job_id = order.job.job_spec, order.resource.id
    part, terminal = docker_part(order), own_terminal(order, folder)
    world = replace(
        container_world(order, part.container),
        storage=storage,
        terminal=terminal,
        runtimes=runtimes,
        debugger_host="0.0.0.0",
    )
    data_uri = order.data.uri if order.data else ""
    mounts = [*bucket_mounts(spec, Path(order.home), data_uri), *option_mounts(part.container)]
    found = {}
    for view in replica_views(order, world):
        member, pool = view.member, spec.worker_pool_specs[view.member.pool]
        leased = None if order.claim.accelerators is None else devices.get(member.name, ())
        host = _host_config(pool.machine_spec, part.container, info, leased)
        host["Mounts"] = [*_own_mounts(order, folder, view, runtimes[member.pool].site), *mounts]
        labels = job_labels(order.home, job_id) | {REPLICA_LABEL: member.name, ATTEMPT_LABEL: "0"}
        config = {
            "Image": runtimes[member.pool].image,
            **program_of(view.task, view.argv),
            "Env": [f"{name}={value}" for name, value in view.env.items()],
            "Hostname": host_name(job_id, member),
            "User": part.container.user,
            "Labels": labels,
            "HostConfig": host,
        }
        _connect(config, network, order.debugger if member == PRIMARY else None, terminal)
        found[member.name] = ContainerOrder(
            engine=part.engine,
            name=container_name(job_id, member.name),
            network=network,
            replicas=len(world.hosts),
            labels=labels,
            config=config,
            log=str(folder.logs / member.name),
            grace_seconds=order.grace_seconds,
            terminal=terminal,
        )
    return found


def _connect(
    config: dict[str, Any], network: str, debugger: Debugger | None, terminal: LentTerminal | None
) -> None:
    """Add the container's network, the port of its debugger, and its terminal."""
    host = config["HostConfig"]
    host["NetworkMode"] = network or DEFAULT_BRIDGE
    if network:
        config["NetworkingConfig"] = {"EndpointsConfig": {network: {"Aliases": [config["Hostname"]]}}}
    if debugger is not None:  # open to this machine alone
        port = f"{debugger.port}/tcp"
        config["ExposedPorts"] = {port: {}}
        host["PortBindings"] = {port: [{"HostIp": "127.0.0.1", "HostPort": str(debugger.port)}]}
    if terminal is not None:
        config |= {"Tty": True, "OpenStdin": True}
        host["ConsoleSize"] = [terminal.lines, terminal.columns]


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
    order: JobOrder, folder: JobFolder, view: ReplicaView, site: str
) -> tuple[dict[str, Any], ...]:
    """The working directory of a Python package, as an image has its own; its code; a trial's reports.

    The primary of a trial reports to a folder of this machine, whichever user it runs as.
    """
    mounts = []
    if isinstance(view.task, PythonPackageSpec):
        mounts.append(bind(folder.replica(view.member.name).work, WORK))
    if site:
        mounts.append(bind(site, SITE, read_only=True))
    if order.trial_id and view.member == PRIMARY:
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


def _host_config(
    machine: MachineSpec | None, options: ReplicaOptions, info: dict[str, Any], leased: tuple[str, ...] | None
) -> dict[str, Any]:
    """A container's resources, as far as the engine's machine has them, and its options.

    `leased` are its own GPUs, by UUID; None where only the engine knows which there are.
    """
    host = host_resources(info)
    allowed = pool_limits(machine, options, host)
    shared = (allowed.memory_bytes or host.memory_bytes) // SHARED_MEMORY_PART
    # The log driver is named, and without rotation, as the engine's default may be any: one without a log,
    # or one whose rotation takes lines away from a follower that is slower than the trainer.
    config: dict[str, Any] = {
        "Init": True,  # a trainer as process 1 would ignore SIGTERM, and leave orphans as zombies
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "json-file", "Config": {}},
        "ShmSize": options.shm_size or shared,
        "CapAdd": list(options.cap_add),
        "ExtraHosts": list(options.add_hosts),
        "Ulimits": [{"Name": u.name, "Soft": u.soft, "Hard": u.hard} for u in options.ulimits],
        "DeviceRequests": list(grant(machine, options, info, leased).device_requests),
    }
    if allowed.memory_bytes:
        # The same limit for both means no swap, which Vertex AI's machines do not have.
        config |= {"Memory": allowed.memory_bytes, "MemorySwap": allowed.memory_bytes}
    if allowed.cpus:
        config["NanoCpus"] = int(allowed.cpus * 1_000_000_000)
    return config
