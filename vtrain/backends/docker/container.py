"""What the engine is asked to run for one replica: a container's configuration, in the Engine API's words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from vtrain.containers.address import EngineAddress
from vtrain.containers.labels import HOME_LABEL, JOB_LABEL
from vtrain.engine.container_options import CREDENTIALS_TARGET, ContainerOptions, Mount
from vtrain.messages.custom_job import ContainerSpec, PythonPackageSpec, WorkerPoolSpec
from vtrain.privacy import home_label

SITE = "/opt/vtrain/site"
"""Where the trainer's code lies in a container that runs a Python package; the runtime image looks there."""
USER_BASE = "/opt/vtrain/user"
"""In a runtime image, the way to what was installed for the image's own user (PYTHONUSERBASE)."""
PYTHON = "python3"
WORK = "/usr/app"
"""The working directory of a Python package, where gcloud's local-run has it; on Vertex AI it is `/`."""


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What a replica may use: processors (0: all), and bytes of memory and shared memory."""

    cpus: float = 0.0
    memory_bytes: int = 0
    shm_bytes: int = 0
    device_requests: tuple[dict[str, Any], ...] = ()


class ContainerOrder(msgspec.Struct, frozen=True, kw_only=True):
    """All that is needed to run a replica as a container, and to go on watching it."""

    engine: EngineAddress
    name: str
    network: str
    replicas: int
    labels: dict[str, str]
    config: dict[str, Any]
    log: str
    grace_seconds: float
    attempt: int = 0

    @property
    def memory_bytes(self) -> int:
        """The limit; 0 where there is none."""
        return int(self.config["HostConfig"].get("Memory", 0))


def job_labels(home: str, job_id: str) -> dict[str, str]:
    """The labels by which all that was made for a job is found again."""
    return {JOB_LABEL: job_id, HOME_LABEL: home_label(Path(home))}


def container_name(job_id: str, replica: str) -> str:
    """`vtrain-1234567890123456789-workerpool0-0`: the first attempt's; later ones end in `-r1`, `-r2`."""
    return f"vtrain-{job_id}-{replica}"


def network_name(job_id: str) -> str:
    """The job's network."""
    return f"vtrain-{job_id}"


def container_config(
    *,
    image: str,
    program: dict[str, Any],
    env: Mapping[str, str],
    host: str,
    network: str,
    labels: Mapping[str, str],
    mounts: tuple[dict[str, Any], ...],
    resources: Resources,
    options: ContainerOptions,
) -> dict[str, Any]:
    """The body of `POST /containers/create`."""
    return {
        "Image": image,
        **program,
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Hostname": host,
        "User": options.user,
        "Labels": dict(labels),
        "HostConfig": _host_config(network, mounts, resources, options),
        "NetworkingConfig": {"EndpointsConfig": {network: {"Aliases": [host]}}},
    }


def program_of(task: ContainerSpec | PythonPackageSpec) -> dict[str, Any]:
    """What runs. A command takes the place of the image's ENTRYPOINT and CMD, arguments that of its CMD.

    Source: Vertex AI, "Configure container settings for training".
    """
    if isinstance(task, PythonPackageSpec):
        argv = [PYTHON, "-m", task.python_module, *task.args]
        return {"Entrypoint": argv, "Cmd": [], "WorkingDir": WORK}
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


def option_mounts(options: ContainerOptions) -> tuple[dict[str, Any], ...]:
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


def _host_config(
    network: str, mounts: tuple[dict[str, Any], ...], resources: Resources, options: ContainerOptions
) -> dict[str, Any]:
    # The log driver is named, and without rotation, as the engine's default may be any: one without a log,
    # or one whose rotation takes lines away from a follower that is slower than the trainer.
    config: dict[str, Any] = {
        "NetworkMode": network,
        "Init": True,
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "json-file", "Config": {}},
        "Mounts": [*mounts],
        "ShmSize": resources.shm_bytes,
        "CapAdd": list(options.cap_add),
        "ExtraHosts": list(options.add_hosts),
        "Ulimits": [{"Name": u.name, "Soft": u.soft, "Hard": u.hard} for u in options.ulimits],
        "DeviceRequests": list(resources.device_requests),
    }
    if resources.memory_bytes:
        config |= {"Memory": resources.memory_bytes, "MemorySwap": resources.memory_bytes}
    if resources.cpus:
        config["NanoCpus"] = int(resources.cpus * 1_000_000_000)
    return config
