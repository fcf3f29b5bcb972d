"""The container of one replica, as the Engine API describes it, and its mounts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from vtrain.backends.replica_options import CREDENTIALS_TARGET, Mount, ReplicaOptions
from vtrain.containers.address import EngineAddress
from vtrain.containers.labels import ATTEMPT_LABEL, HOME_LABEL, JOB_LABEL
from vtrain.messages.custom_job import ContainerSpec, CustomJobSpec, PythonPackageSpec, WorkerPoolSpec
from vtrain.privacy import home_label
from vtrain.rooted import Root
from vtrain.runtime.folder import ReplicaFolder, require_struct
from vtrain.runtime.job_order import JobOrder, LentTerminal
from vtrain.runtime.job_storage import GS, LOCAL
from vtrain.runtime.launcher import PrepareFailed
from vtrain.runtime.replica.vertex_view import HP_METRIC_FILE, OUTPUT_FOLDERS, replica_ids
from vtrain.staging import LocalBuckets, join_uri, split_uri

SITE = "/opt/vtrain/site"
"""The folder of a Python package's code in its container; the runtime image looks there."""
USER_BASE = "/opt/vtrain/user"
"""In a runtime image, the link to the packages installed for the image's own user (PYTHONUSERBASE)."""
DEFAULT_BRIDGE = "bridge"
"""The network that Docker makes when it starts, unless it is told not to; Podman has none of that name."""
WORK = "/usr/app"
"""The working directory of a Python package, where gcloud's local-run has it; on Vertex AI it is `/`."""
REPORTS = str(PurePosixPath(HP_METRIC_FILE).parent)
"""The folder to which the primary of a trial reports."""


class DockerPart(msgspec.Struct, frozen=True, kw_only=True):
    """The `launcher` document of a job's order, as this backend writes it."""

    engine: EngineAddress
    container: ReplicaOptions = ReplicaOptions()


def with_docker_part(order: JobOrder, engine: EngineAddress, options: ReplicaOptions) -> JobOrder:
    """The order with what its launcher will need."""
    document = msgspec.json.encode(DockerPart(engine=engine, container=options))
    return msgspec.structs.replace(order, launcher=msgspec.Raw(document))


def docker_part(order: JobOrder) -> DockerPart:
    """The part that was kept; its credentials are the job's own copy. Raises msgspec.DecodeError."""
    part = msgspec.json.decode(order.launcher, type=DockerPart, strict=False)
    options = msgspec.structs.replace(part.container, credentials_file=order.setting.credentials_file)
    return msgspec.structs.replace(part, container=options)


class ContainerOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The order for one container: enough to run the replica, and to go on watching it.

    `network` is the job's own; it is empty where the container uses the engine's default bridge. `terminal`
    is that of the program.
    """

    engine: EngineAddress
    name: str
    network: str
    replicas: int
    labels: dict[str, str]
    config: dict[str, Any]
    log: str
    grace_seconds: float
    attempt: int = 0
    terminal: LentTerminal | None = None

    @property
    def memory_bytes(self) -> int:
        """The limit; 0 where there is none."""
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
    mounts = [
        bind(attempt.work, WORK) if mount["Target"] == WORK else mount for mount in host.get("Mounts", ())
    ]
    config = order.config | {"Labels": labels, "HostConfig": host | {"Mounts": mounts}}
    return msgspec.structs.replace(order, name=f"{order.name}-r{order.attempt}", labels=labels, config=config)


def job_labels(home: str, job_id: str) -> dict[str, str]:
    """The labels by which all that was made for a job is found again."""
    return {JOB_LABEL: job_id, HOME_LABEL: home_label(Path(home))}


def container_name(job_id: str, replica: str) -> str:
    """`vtrain-1234567890123456789-workerpool0-0`: the first attempt's; later ones end in `-r1`, `-r2`."""
    return f"vtrain-{job_id}-{replica}"


def network_name(job_id: str) -> str:
    """The network of a job that needs one of its own."""
    return f"vtrain-{job_id}"


def needs_network(spec: CustomJobSpec, aip_dirs: str) -> bool:
    """Whether replicas have to reach each other by name, or to reach a service for this job alone.

    A replica without peers finds its own host name in its /etc/hosts, also on the engine's default bridge.
    """
    return len(replica_ids(spec)) > 1 or aip_dirs == GS


def program_of(task: ContainerSpec | PythonPackageSpec, argv: tuple[str, ...]) -> dict[str, Any]:
    """The program: `argv` of a Python package. A container leaves to the engine what its image has."""
    if isinstance(task, PythonPackageSpec):
        return {"Entrypoint": list(argv), "Cmd": [], "WorkingDir": WORK}
    if task.command:
        return {"Entrypoint": list(task.command), "Cmd": list(task.args)}
    return {"Cmd": list(task.args)} if task.args else {}


def image_uri(pool: WorkerPoolSpec) -> str:
    """The image that a pool names: that of its container, or the executor image."""
    task = pool.task
    return task.executor_image_uri if isinstance(task, PythonPackageSpec) else task.image_uri if task else ""


def bind(source: Path | str, target: str, *, read_only: bool = False) -> dict[str, Any]:
    """A folder or file of this machine in the container. It has to exist: engines refuse what does not."""
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": read_only}


def option_mounts(options: ReplicaOptions) -> tuple[dict[str, Any], ...]:
    """The mounts that the command line asked for."""
    found = [_mount(mount) for mount in options.mounts]
    if options.credentials_file:
        found.append(bind(options.credentials_file, CREDENTIALS_TARGET, read_only=True))
    return tuple(found)


def _mount(mount: Mount) -> dict[str, Any]:
    body: dict[str, Any] = {"Type": mount.type, "Target": mount.target, "ReadOnly": mount.read_only}
    if mount.type != "tmpfs":
        body["Source"] = mount.source
    elif mount.tmpfs_size:
        body["TmpfsOptions"] = {"SizeBytes": mount.tmpfs_size}
    return body


MOUNT_POINT = "/gcs"
OPEN_TO_ALL = 0o777
"""Mode of the folders that a job writes to: an image may run as any user. Others on this machine do not
reach them, as vtrain's home is the caller's own."""


def seen_folder(uri: str, aip_dirs: str = "") -> str:
    """A folder of a bucket as replicas are told it, without a trailing slash: `gs://…`, or a path."""
    if not uri:
        return ""
    scheme, rest = split_uri(uri)
    if scheme == "gs" and aip_dirs == LOCAL:
        return f"{MOUNT_POINT}/{rest}".rstrip("/")
    return (rest if scheme == "file" else uri).rstrip("/")


def bucket_mounts(spec: CustomJobSpec, home: Path, data_uri: str = "") -> tuple[dict[str, Any], ...]:
    """The mounts of local buckets, of the job's output and of its data. Makes the folders of the output."""
    buckets = LocalBuckets(home)
    mounts = []
    if spec.output_uri:
        scheme, rest = split_uri(spec.output_uri)
        for name in OUTPUT_FOLDERS.values():
            root = buckets.root(join_uri(spec.output_uri, name))
            if scheme == "gs":
                with _possible(root):
                    root.open_to(OPEN_TO_ALL)
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
    return tuple(mounts)


@contextmanager
def _possible(root: Root) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PrepareFailed(
            f"The job's output folder {root.path} cannot be made: {error.strerror}.",
            "Another job may have put a link or a file there. Remove it, or name another --base-output-dir.",
        ) from error
