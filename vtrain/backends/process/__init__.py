"""The backend `process`: replicas are processes on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vtrain.backends.interface import INTERACTIVE_FLAG, RuntimeBackend

if TYPE_CHECKING:
    from vtrain.backends import BackendSettings, RunningReplica
    from vtrain.backends.health import Check
    from vtrain.backends.interface import CommandLine
    from vtrain.backends.local_plan import Planner
    from vtrain.backends.model_interface import ModelServing
    from vtrain.runtime.folder import ReplicaFolder
    from vtrain.runtime.job_order import JobOrder
    from vtrain.runtime.launching import Launcher, Log, Runtime


class Process(RuntimeBackend):
    """Runs Python packages, each in a cached environment, without containers."""

    name = "process"
    used_flags = RuntimeBackend.used_flags | {INTERACTIVE_FLAG}

    def planner(self, settings: BackendSettings) -> Planner:
        """The planner of jobs that run as processes."""
        from vtrain.backends.process.process_plan import ProcessPlanner

        return ProcessPlanner(settings)

    def launcher(self) -> Launcher:
        """The launcher, which starts and stops processes."""
        from vtrain.backends.process.process_launcher import ProcessLauncher

        return ProcessLauncher()

    def prepare(self, order: JobOrder, log: Log) -> tuple[Runtime, ...]:
        """Environments are made by uv."""
        from vtrain.backends.process.process_runtimes import make_runtimes

        return make_runtimes(order, log)

    def running(self, replica: ReplicaFolder) -> RunningReplica:
        """A running process tree."""
        from vtrain.backends.process.running_process import RunningProcess

        return RunningProcess(replica)

    def model_serving(self, settings: BackendSettings) -> ModelServing:
        """Models of the pre-built containers are served by a process that stands in for those."""
        from vtrain.backends.process.model_process import ProcessServing

        return ProcessServing(settings)

    def seen_folder(self, uri: str, settings: BackendSettings) -> str:
        """A path of this machine."""
        from vtrain.backends.process.process_world import seen_folder

        return seen_folder(uri, settings.home, settings.aip_dirs)

    def checks(self, line: CommandLine) -> Iterable[Check]:  # noqa: ARG002 - the same for every line
        """The checks of what processes need on this machine."""
        from vtrain.backends.process.process_health import process_checks

        return process_checks()
