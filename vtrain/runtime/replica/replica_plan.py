"""The world of a job's replicas, and the plan of what they see in it.

`--dry-run`, `vtrain environment` and the start of a job all go over the plan.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from vtrain.https_proxy import NO_PROXY_VARIABLES, direct_hosts
from vtrain.messages.custom_job import ContainerSpec, PythonPackageSpec
from vtrain.runtime.debugging import debugger_variables
from vtrain.runtime.inheritance import NO_METADATA
from vtrain.runtime.job_order import JobOrder, LentTerminal
from vtrain.runtime.launching import Runtime
from vtrain.runtime.replica.vertex_view import (
    MASTER_PORT,
    METRIC_FILE_VARIABLE,
    PRIMARY,
    PYTHON,
    UNKNOWN_PROGRAM,
    JobContext,
    Program,
    ReplicaId,
    replica_argv,
    replica_environment,
)


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
    """The file to which each replica reports; empty for hypertune's own default, outside of a trial."""
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


VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"


class ReplicaView(msgspec.Struct, frozen=True, kw_only=True):
    """A replica as it is started."""

    member: ReplicaId
    task: ContainerSpec | PythonPackageSpec
    argv: tuple[str, ...]
    """The command line; for a container with the ENTRYPOINT of its image, as far as that is known."""
    surroundings: dict[str, str]
    """The variables that it has of this machine."""
    variables: dict[str, str]
    """The variables that the service and the user set, which take the place of the machine's."""

    @property
    def env(self) -> dict[str, str]:
        """All variables."""
        return self.surroundings | self.variables


def replica_views(order: JobOrder, world: World) -> tuple[ReplicaView, ...]:
    """The replicas of a job, the primary first."""
    spec, name, data = order.job.job_spec, order.resource, order.data
    context = JobContext(
        job_id=name.id,
        region=name.location,
        hosts=world.hosts,
        master_port=world.master_port,
        output=world.folder(spec.output_uri),
        trial_id=order.trial_id,
        data=data and replace(data, uri=world.folder(data.uri)),
    )
    return tuple(_view(order, world, context, member) for member in world.hosts)


def _view(order: JobOrder, world: World, context: JobContext, member: ReplicaId) -> ReplicaView:
    spec = order.job.job_spec
    task = spec.worker_pool_specs[member.pool].task
    assert task is not None
    runtime = world.runtimes[member.pool] if world.runtimes else Runtime()
    if order.trial_id:
        context = replace(context, metric_file=world.metric_files[member])
    variables = replica_environment(spec, member, context)
    if runtime.site and not world.site:
        variables["PYTHONPATH"] = _path(runtime.site, variables.get("PYTHONPATH", ""))
    if member in world.devices:
        variables[VISIBLE_DEVICES] = ",".join(world.devices[member])
    surroundings = _surroundings(world, runtime, task)
    if member in world.metric_files and not order.trial_id:
        surroundings[METRIC_FILE_VARIABLE] = world.metric_files[member]
    python = runtime.python or PYTHON
    if order.debugger is None or member != PRIMARY or isinstance(task, ContainerSpec):
        argv = replica_argv(task, python, world.programs.get(member.pool, UNKNOWN_PROGRAM))
    elif world.debugger_host:
        argv = order.debugger.argv(task, python, world.debugger_host)
        installed = Path(runtime.site)
        if runtime.python and not runtime.site:
            libraries = next(Path(runtime.python).parents[1].glob("lib/python*"), Path("lib"))
            installed = libraries / "site-packages"
        surroundings |= debugger_variables(
            task, order.source_folder, installed, seen=world.site or str(installed), cwd=world.work
        )
    else:
        argv = order.debugger.planned_argv(task, python)
    return ReplicaView(member=member, task=task, argv=argv, surroundings=surroundings, variables=variables)


def _surroundings(world: World, runtime: Runtime, task: ContainerSpec | PythonPackageSpec) -> dict[str, str]:
    found = {}
    if isinstance(task, PythonPackageSpec):
        found = {"PYTHONUNBUFFERED": "1"} | world.package_variables  # unbuffered, so that lines come at once
    found |= world.variables | world.storage
    if world.storage:  # no proxy is asked for it, nor for other replicas
        direct = world.variables.get("no_proxy") or world.variables.get("NO_PROXY", "")
        peers = [host.rpartition(":")[0] for host in world.hosts.values()]
        hosts = direct_hosts(direct, world.storage["no_proxy"], *peers)
        found |= dict.fromkeys(NO_PROXY_VARIABLES, hosts)
    elif world.credentials:
        found |= {"GOOGLE_APPLICATION_CREDENTIALS": world.credentials}
    else:
        found |= NO_METADATA
    if runtime.path_entries:
        found["PATH"] = _path(*runtime.path_entries, found.get("PATH", os.defpath))
    return found | (world.terminal.variables if world.terminal is not None else {})


def _path(*entries: str) -> str:
    return os.pathsep.join(filter(None, entries))
