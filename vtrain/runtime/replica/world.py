"""The world of a job's replicas: all that differs between processes and containers for a trainer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from vtrain.runtime.job_order import LentTerminal
from vtrain.runtime.launching import Runtime
from vtrain.runtime.replica.vertex_view import MASTER_PORT, Program, ReplicaId


class World(msgspec.Struct, frozen=True, kw_only=True):
    """One job's world. A plan lacks the fields with defaults that only a launch knows."""

    hosts: dict[ReplicaId, str]
    """`host:port` of each replica, the primary first."""
    master_port: int = MASTER_PORT
    folder: Callable[[str], str]
    """The name of a bucket's folder for replicas, by its URI: a path or the URI, without a trailing slash."""
    work: str
    """The working directory of the primary's first attempt, as it calls it."""
    site: str = ""
    """What replicas call the folder `Runtime.site`; empty: as this machine does."""
    metric_files: dict[ReplicaId, str]
    """The file to which each replica of a trial reports."""
    credentials: str = ""
    """What replicas call the file with their credentials; empty: they have none."""
    variables: dict[str, str] = {}
    """Variables that replicas have of this machine."""
    package_variables: dict[str, str] = {}
    """Variables that only Python packages have of it."""
    storage: dict[str, str] = {}
    """Variables by which replicas find Cloud Storage on this machine."""
    terminal: LentTerminal | None = None
    """The terminal of the only replica."""
    runtimes: tuple[Runtime, ...] = ()
    """The environment or the image of each pool; empty: none is made yet."""
    programs: dict[int, Program] = {}
    """The programs of the images of pools, as far as they are known."""
    devices: dict[ReplicaId, tuple[str, ...]] = {}
    """The GPUs that CUDA_VISIBLE_DEVICES shows to a replica; without an entry it sees all that there are."""
    debugger_host: str = ""
    """The address at which a debugger listens in its replica; empty: the plan shows debugpy's own command."""
