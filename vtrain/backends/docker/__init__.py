"""The backend `docker`: replicas are containers of a Docker Engine whose machine is this one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from vtrain.backends.interface import (
    ENVIRONMENT_FLAGS,
    INTERACTIVE_FLAG,
    PYTHON_DOWNLOADS_FLAG,
    RuntimeBackend,
    Suitability,
    TrainerForm,
)
from vtrain.errors import ConfigError, EngineError

if TYPE_CHECKING:
    from vtrain.backends import BackendSettings, RunningReplica
    from vtrain.backends.health import Check
    from vtrain.backends.interface import CommandLine
    from vtrain.backends.local_plan import Planner
    from vtrain.backends.model_interface import ModelServing
    from vtrain.runtime.folder import ReplicaFolder
    from vtrain.runtime.gc.candidate import Candidate, Search, Usage
    from vtrain.runtime.job_order import JobOrder
    from vtrain.runtime.launching import Launcher, Log, Runtime


class Docker(RuntimeBackend):
    """Runs images, and Python packages in the image that they name."""

    name = "docker"
    image_form = TrainerForm.LOCAL_IMAGE
    used_flags = RuntimeBackend.used_flags | {INTERACTIVE_FLAG}

    def planner(self, settings: BackendSettings) -> Planner:
        """The planner of jobs that run in containers."""
        from vtrain.backends.docker.docker_plan import DockerPlanner

        return DockerPlanner(settings)

    def launcher(self) -> Launcher:
        """The launcher, which starts and stops containers."""
        from vtrain.backends.docker.docker_launcher import DockerLauncher

        return DockerLauncher()

    def prepare(self, order: JobOrder, log: Log) -> tuple[Runtime, ...]:
        """Images are pulled, and built with the trainer's packages."""
        from vtrain.backends.docker.runtime_image import make_runtimes

        return make_runtimes(order, log)

    def running(self, replica: ReplicaFolder) -> RunningReplica:
        """A running container."""
        from vtrain.backends.docker.running_container import RunningContainer

        return RunningContainer(replica)

    def model_serving(self, settings: BackendSettings) -> ModelServing:
        """Models are served by the container that they name."""
        from vtrain.backends.docker.model_container import ContainerServing

        return ContainerServing(settings)

    def seen_folder(self, uri: str, settings: BackendSettings) -> str:
        """A path below /gcs, unless buckets are served."""
        from vtrain.backends.docker.container import seen_folder
        from vtrain.backends.job_storage import LOCAL

        return seen_folder(uri, settings.aip_dirs or LOCAL)

    def checks(self, line: CommandLine) -> Iterable[Check]:  # noqa: ARG002 - the same for every line
        """The checks of what containers need on this machine."""
        from vtrain.backends.docker.docker_health import docker_checks

        return docker_checks()

    def ignored_flags(self, flags: Iterable[str], *, builds_image: bool = False) -> tuple[str, ...]:  # noqa: ARG002
        """Containers use every flag but those of an interpreter: theirs is the image's."""
        flags = tuple(flags)
        for flag in ENVIRONMENT_FLAGS.intersection(flags):
            raise ConfigError(
                f"{flag} is for the backend process: a container has the Python of its image.",
                hint="Take --backend=process, or leave the flag out.",
            )
        return tuple(self.no_effect(flag) for flag in flags if flag == PYTHON_DOWNLOADS_FLAG)

    def garbage(self, search: Search) -> Iterable[Candidate]:
        """Images, and containers and networks of jobs that are gone. Raises EngineError without an engine."""
        from vtrain.backends.docker.garbage import find_garbage

        return find_garbage(search)

    def usage(self, home: Path) -> Iterable[Usage]:
        """The images. Raises EngineError without an engine."""
        from vtrain.backends.docker.garbage import usage

        return (usage(home),)

    def suits(self, containers: tuple[str, ...], executors: tuple[str, ...]) -> Suitability:
        """Whether the job names an image, and an engine answers. Raises EngineError for a container's."""
        if not (containers or executors):
            return Suitability(suits=False)
        from vtrain.containers.discovery import find_local_engine

        try:
            find_local_engine()
        except EngineError as error:
            if containers:
                raise
            return Suitability(suits=False, text=f"{executors[0]} is not used: {error.message}")
        other = "" if containers else "; without Docker: --backend=process"
        return Suitability(suits=True, text=f"the job names an image{other}")
