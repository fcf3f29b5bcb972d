"""Options of a job's replicas on this machine beyond its spec, as the command line gives them."""

from __future__ import annotations

from typing import Literal

import msgspec

PULL_POLICIES = ("missing", "always", "never")
CREDENTIALS_TARGET = "/tmp/keys/cred_key.json"
"""The place of a credentials file in a container, as gcloud's local-run has it."""


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """One `--mount`, in Docker's words."""

    type: Literal["bind", "volume", "tmpfs"] = "bind"
    source: str = ""
    """An absolute path for a bind, a name for a volume."""
    target: str
    read_only: bool = False
    tmpfs_size: int = 0
    """Bytes; 0: no limit."""


class Ulimit(msgspec.Struct, frozen=True, kw_only=True):
    """One `--ulimit`; -1 is unlimited."""

    name: str
    soft: int
    hard: int


class ReplicaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a job's replicas.

    Processes have only `memory_bytes`, `require_accelerators` and `credentials_file`.
    """

    pull: str = "missing"
    """When the image is pulled: one of PULL_POLICIES."""
    platform: str = ""
    """The platform of images, `os/architecture`; empty: the engine's own."""
    shm_size: int = 0
    """Bytes of shared memory; 0: half of the memory."""
    memory_bytes: int = 0
    """The limit of memory in bytes, which the queue counts; 0: that of the machine type."""
    cpus: float = 0.0
    """The limit of processors; 0: that of the machine type."""
    mounts: tuple[Mount, ...] = ()
    user: str = ""
    """The user that containers run as; empty: the image's own."""
    cap_add: tuple[str, ...] = ()
    """Capabilities of Linux beyond those that containers have."""
    add_hosts: tuple[str, ...] = ()
    """Further lines of /etc/hosts, `NAME:ADDRESS`."""
    ulimits: tuple[Ulimit, ...] = ()
    gpus: bool = False
    """Whether replicas without an accelerator get all GPUs."""
    require_accelerators: bool = False
    """Whether a job is refused whose accelerators are not here."""
    credentials_file: str = ""
    """The file with the credentials of replicas; empty: they have none."""
