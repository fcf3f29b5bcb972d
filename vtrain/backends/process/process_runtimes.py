"""The runtimes of worker pools: environments with the trainer's packages, or the active Python."""

from __future__ import annotations

import sys
from pathlib import Path

from vtrain.backends.local_plan import environment_spec, for_each_pool, package_files
from vtrain.messages.custom_job import WorkerPoolSpec
from vtrain.runtime.environments.environment import (
    make_environment,
    needs_build,
    needs_installer,
    plan_environment,
)
from vtrain.runtime.home import Home
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.launching import Log, Runtime, preparing

OWN_CODE = "environments"
"""A folder in a job's folder: its own copies of the trainer's code."""


def ready_runtimes(order: JobOrder, log: Log) -> tuple[Runtime, ...] | None:
    """The pools' runtimes; None where uv, or a package's back end, has to run. Raises PrepareFailed."""
    with preparing():
        if any(_needs_tools(pool, order) for pool in order.job.job_spec.worker_pool_specs):
            return None
    return make_runtimes(order, log)


def make_runtimes(order: JobOrder, log: Log) -> tuple[Runtime, ...]:
    """Make the environments that are not there, and the job's own copy of each. Raises PrepareFailed."""
    own = Home(Path(order.home)).job(order.name).path / OWN_CODE
    return for_each_pool(order, lambda _, pool: _runtime(pool, order, own, log))


def _needs_tools(pool: WorkerPoolSpec, order: JobOrder) -> bool:
    if not package_files(pool):
        return False
    spec, home = environment_spec(pool, order), Path(order.home)
    if order.setting.active_python:
        return any(needs_build(Path(package), home) for package in spec.packages)
    return needs_installer(plan_environment(spec, home))


def _runtime(pool: WorkerPoolSpec, order: JobOrder, own: Path, log: Log) -> Runtime:
    if not package_files(pool):
        return Runtime(python=sys.executable)
    home = Path(order.home)
    with preparing():
        spec = environment_spec(pool, order)
        if order.setting.active_python:
            from vtrain.runtime.environments.active_python import unpack_packages

            site = unpack_packages(tuple(map(Path, spec.packages)), home, own, log)
            binaries = str(Path(order.setting.active_python).parent)
            return Runtime(python=order.setting.active_python, path_entries=(binaries,), site=str(site))
        made = make_environment(plan_environment(spec, home), log).copied_to(own)
    required = str(Path(made.path_entries[-1], "python"))
    return Runtime(python=made.python, path_entries=made.path_entries, required=required)
