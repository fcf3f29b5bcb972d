"""The containers of a job: what they see, and how the Engine API describes them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec.structs import replace

from vtrain.backends import CREDENTIALS_TARGET, ReplicaOptions
from vtrain.backends.docker.device_requests import grant
from vtrain.backends.docker.docker_part import USER_BASE, docker_part
from vtrain.backends.job_storage import LOCAL, bundle_file
from vtrain.containers.discovery import EngineAddress
from vtrain.containers.engine import ATTEMPT_LABEL, HOME_LABEL, JOB_LABEL, REPLICA_LABEL
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJobSpec,
    MachineSpec,
    PythonPackageSpec,
)
from vtrain.privacy import home_label
from vtrain.rooted import Root
from vtrain.runtime.debugging import Debugger
from vtrain.runtime.folder import DamagedFileError, JobFolder, ReplicaFolder, require_struct
from vtrain.runtime.job_order import JobOrder, LentTerminal
from vtrain.runtime.launching import PrepareFailed, Runtime
from vtrain.runtime.machines import HostResources, Limits, limits
from vtrain.runtime.replica.replica_plan import ReplicaView, World, replica_views
from vtrain.runtime.replica.vertex_view import (
    HP_METRIC_FILE,
    OUTPUT_FOLDERS,
    PRIMARY,
    host_name,
    service_hosts,
)
from vtrain.staging import LocalBuckets, join_uri, split_uri

SITE = "/opt/vtrain/site"
"""The folder of a Python package's code in its container; the runtime image looks there."""
DEFAULT_BRIDGE = "bridge"
"""The network that Docker makes when it starts, unless configured otherwise; Podman has none of that name."""
WORK = "/usr/app"
"""The working directory of a Python package, where gcloud's local-run has it; on Vertex AI it is `/`."""
SHARED_MEMORY_PART = 2
"""Half of a replica's memory can be shared: with Docker's default of 64 MB, PyTorch's data loaders die."""
PLAIN_REPORTS = "/tmp/hypertune"
"""The folder to which the primary of any other job reports: hypertune's own default."""
REPORTS = str(PurePosixPath(HP_METRIC_FILE).parent)
"""The folder to which the primary of a trial reports."""


class ContainerOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The order for one container: enough to run the replica, and to go on watching it.

    `network` is the job's own; it is empty where the container uses the engine's default bridge. `terminal`
    is that of the program.
    """

    engine: EngineAddress
    name: str
    network: str
    labels: dict[str, str]
    config: dict[str, Any]
    log: str
    grace_seconds: float
    attempt: int = 0
    terminal: LentTerminal | None = None

    @property
    def memory_bytes(self) -> int:
        """The limit; 0 without one."""
        return int(self.config["HostConfig"].get("Memory", 0))


def container_order(attempt: ReplicaFolder) -> ContainerOrder:
    """The order of an attempt. Raises DamagedFileError where it cannot be read.

    A later attempt runs as the first one, with the same host name, in a container and a working directory of
    its own.
    """
    order = require_struct(attempt.path / "spec.json", ContainerOrder)
    if order.attempt == 0:
        return order
    labels = order.labels | {ATTEMPT_LABEL: str(order.attempt)}
    host = order.config["HostConfig"]
    has_own = "WorkingDir" in order.config  # of a container job it is a mount that the user asked for
    mounts = [
        bind(attempt.work, WORK) if has_own and mount["Target"] == WORK else mount
        for mount in host.get("Mounts", ())
    ]
    config = order.config | {"Labels": labels, "HostConfig": host | {"Mounts": mounts}}
    return replace(order, name=f"{order.name}-r{order.attempt}", labels=labels, config=config)


def job_labels(home: str, job_id: str) -> dict[str, str]:
    """The labels by which all that was made for a job is found again."""
    return {JOB_LABEL: job_id, HOME_LABEL: home_label(Path(home))}


def container_name(job_id: str, replica: str) -> str:
    """`vtrain-1234567890123456789-workerpool0-0`: the first attempt's; later ones end in `-r1`, `-r2`."""
    return f"vtrain-{job_id}-{replica}"


def network_name(job_id: str) -> str:
    """The network of a job that needs one of its own."""
    return f"vtrain-{job_id}"


def program_of(task: ContainerSpec | PythonPackageSpec, argv: tuple[str, ...]) -> dict[str, Any]:
    """The program: `argv` of a Python package. A container leaves to the engine what its image has."""
    if isinstance(task, PythonPackageSpec):
        return {"Entrypoint": list(argv), "Cmd": [], "WorkingDir": WORK}
    if task.command:
        return {"Entrypoint": list(task.command), "Cmd": list(task.args)}
    return {"Cmd": list(task.args)} if task.args else {}


def bind(source: Path | str, target: str, *, read_only: bool = False) -> dict[str, Any]:
    """A folder or file of this machine in the container. It has to exist: engines refuse what does not."""
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": read_only}


def option_mounts(options: ReplicaOptions) -> list[dict[str, Any]]:
    """The mounts that the command line asked for."""
    found = []
    for mount in options.mounts:
        body: dict[str, Any] = {"Type": mount.type, "Target": mount.target, "ReadOnly": mount.read_only}
        if mount.type != "tmpfs":
            body["Source"] = mount.source
        elif mount.tmpfs_size:
            body["TmpfsOptions"] = {"SizeBytes": mount.tmpfs_size}
        found.append(body)
    if options.credentials_file:
        found.append(bind(options.credentials_file, CREDENTIALS_TARGET, read_only=True))
    return found


MOUNT_POINT = "/gcs"
BUNDLE_TARGET = "/opt/vtrain/trusted.pem"
"""The file of `job_storage.bundle_file` in its containers."""
OPEN_TO_ALL = 0o777
"""Mode of the folders that a job writes to: an image may run as any user. Others on this machine do not
reach them, as vtrain's home is the caller's own."""


def seen_folder(uri: str, aip_dirs: str) -> str:
    """A folder of a bucket as replicas get it, without a trailing slash: `gs://…`, or a path."""
    if not uri:
        return ""
    scheme, rest = split_uri(uri)
    if scheme == "gs" and aip_dirs == LOCAL:
        return f"{MOUNT_POINT}/{rest}".rstrip("/")
    return (rest if scheme == "file" else uri).rstrip("/")


def bucket_mounts(spec: CustomJobSpec, home: Path, data_uri: str) -> list[dict[str, Any]]:
    """The mounts of local buckets, of the job's output and of its data. Makes the folders of the output."""
    buckets = LocalBuckets(home)
    mounts = []
    if spec.output_uri:
        scheme, rest = split_uri(spec.output_uri)
        for name in OUTPUT_FOLDERS.values():
            root = buckets.root(join_uri(spec.output_uri, name))
            if scheme == "gs":
                try:
                    root.open_to(OPEN_TO_ALL)
                except OSError as error:
                    raise PrepareFailed(
                        f"The job's output folder {root.path} cannot be made: {error.strerror}.",
                        "Another job may have put a link or a file there. Remove it, or name another "
                        "--base-output-dir.",
                    ) from error
            else:
                root.path.mkdir(parents=True, exist_ok=True)
        if scheme == "file":
            mounts.append(bind(rest, rest))
    if data_uri.startswith("file:"):
        data = buckets.local_path(data_uri)
        mounts.append(bind(data, str(data), read_only=True))
    for bucket in sorted(buckets.folder.iterdir()) if buckets.folder.is_dir() else ():
        if bucket.is_dir():
            Root(bucket).open_to(OPEN_TO_ALL)
            mounts.append(bind(bucket, f"{MOUNT_POINT}/{bucket.name}"))
    return mounts


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
    if storage:
        mounts.append(bind(bundle_file(folder), BUNDLE_TARGET, read_only=True))
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
            labels=labels,
            config=config,
            log=str(folder.logs / member.name),
            grace_seconds=order.grace_seconds,
            terminal=terminal,
        )
    return found


def own_terminal(order: JobOrder, folder: JobFolder) -> LentTerminal | None:
    """The terminal that the job's container gets; None: it gets pipes.

    An engine gives it for all streams or for none. To type, stdout is enough, as for `docker run -it`.
    """
    terminal = order.terminal
    if terminal is None or not terminal.stdout or not (terminal.stderr or terminal.interactive):
        return None
    return replace(terminal, fifo=str(folder.terminal_fifo))


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
        metric_files=dict.fromkeys(hosts, HP_METRIC_FILE) if order.trial_id else {},
        credentials=CREDENTIALS_TARGET if options.credentials_file else "",
        # Another user than the image's own has another home, or has none.
        package_variables={"PYTHONUSERBASE": USER_BASE} if options.user else {},
    )


def _own_mounts(
    order: JobOrder, folder: JobFolder, view: ReplicaView, site: str
) -> tuple[dict[str, Any], ...]:
    """The working directory of a Python package, as an image has its own; its code; its reports.

    The primary reports to a folder of this machine, whichever user it runs as.
    """
    mounts = []
    if isinstance(view.task, PythonPackageSpec):
        mounts.append(bind(folder.replica(view.member.name).work, WORK))
    if site:
        mounts.append(bind(site, SITE, read_only=True))
    if view.member == PRIMARY:
        reports = folder.metric_file.parent
        reports.mkdir(parents=True, exist_ok=True)
        reports.chmod(OPEN_TO_ALL)
        mounts.append(bind(reports, REPORTS if order.trial_id else PLAIN_REPORTS))
    return tuple(mounts)


def first_order(folder: JobFolder) -> ContainerOrder | None:
    """The order of the first replica that can be read; None where no replica was ordered."""
    for file in sorted(folder.path.glob("replicas/*/spec.json")):
        with suppress(DamagedFileError):
            return require_struct(file, ContainerOrder)
    return None


def pool_limits(machine: MachineSpec | None, options: ReplicaOptions, info: dict[str, Any]) -> Limits:
    """The limits of a pool's containers on an engine that describes itself and its machine by `info`.

    `--cpus` and `--memory` take the place of the machine type's.
    """
    host = HostResources(cpus=info["NCPU"], memory_bytes=info["MemTotal"])
    machine_type = machine.machine_type if machine is not None else ""
    return limits(machine_type, host, cpus=options.cpus, memory_bytes=options.memory_bytes)


def _host_config(
    machine: MachineSpec | None, options: ReplicaOptions, info: dict[str, Any], leased: tuple[str, ...] | None
) -> dict[str, Any]:
    """A container's resources, as far as the engine's machine has them, and its options.

    `leased` are its own GPUs, by UUID; None where only the engine knows which there are.
    """
    allowed = pool_limits(machine, options, info)
    shared = (allowed.memory_bytes or info["MemTotal"]) // SHARED_MEMORY_PART
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
