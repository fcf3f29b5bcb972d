"""Options of a job's containers beyond its spec, as the command line gives them."""

from __future__ import annotations

from typing import Literal

import msgspec

PULL_POLICIES = ("missing", "always", "never")
CREDENTIALS_TARGET = "/tmp/keys/cred_key.json"
"""The place of a credentials file in a container, as gcloud's local-run has it."""


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """One `--mount`, in Docker's words. `source` is absolute for a bind, a name for a volume."""

    type: Literal["bind", "volume", "tmpfs"] = "bind"
    source: str = ""
    target: str
    read_only: bool = False
    tmpfs_size: int = 0


class Ulimit(msgspec.Struct, frozen=True, kw_only=True):
    """One `--ulimit`; -1 is unlimited."""

    name: str
    soft: int
    hard: int


class ContainerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes are in bytes; `shm_size` 0 means half the memory limit, `memory_bytes` and `cpus` 0 those of the
    machine type. Empty texts leave the image's own."""

    pull: str = "missing"
    platform: str = ""
    shm_size: int = 0
    memory_bytes: int = 0
    cpus: float = 0.0
    mounts: tuple[Mount, ...] = ()
    user: str = ""
    cap_add: tuple[str, ...] = ()
    add_hosts: tuple[str, ...] = ()
    ulimits: tuple[Ulimit, ...] = ()
    gpus: bool = False
    require_accelerators: bool = False
    credentials_file: str = ""
