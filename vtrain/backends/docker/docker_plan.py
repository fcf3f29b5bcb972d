"""The plan of a job on docker, and the refusals; nothing is pulled or started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from vtrain.backends import BackendSettings, Plan, Replica, ReplicaOptions, Steps
from vtrain.backends.docker.container import container_world, pool_limits
from vtrain.backends.docker.device_requests import grant
from vtrain.backends.docker.docker_part import with_docker_part
from vtrain.backends.local_plan import (
    PLANNED_JOB_ID,
    completed,
    image_uri,
    local_claim,
    planned_order,
    pool_lines,
    unique,
)
from vtrain.containers.discovery import EngineAddress, find_local_engine
from vtrain.containers.engine import Engine
from vtrain.containers.image_names import check_image_name, is_built_here
from vtrain.containers.images import Image, find_image
from vtrain.errors import ConfigError, EngineError, ImageError
from vtrain.messages.custom_job import CustomJob
from vtrain.runtime.capacity.leases import Claim, pool_devices
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.notices import CONTAINER_POOL_FIELDS, not_reproduced
from vtrain.runtime.replica.replica_plan import replica_views
from vtrain.runtime.replica.vertex_view import UNKNOWN_PROGRAM, host_name

if TYPE_CHECKING:
    from vtrain.packaging.sdist_plan import SdistPlan


class DockerPlanner:
    """Replicas as containers of a Docker engine whose machine is this one."""

    name = "docker"
    files_per_replica = 5  # its log with the index, its output, and requests about it

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._found: EngineAddress | None = None

    def plan(self, job: CustomJob) -> Plan:
        """Exactly what submit would do. Raises EngineError without an engine, ConfigError without image."""
        job = completed(job)
        images = _images(job)
        with closing(Engine(self._engine())) as engine:
            info = engine.info()
            there = {image: find_image(engine, image) for image in images}
        return Plan(
            job=job,
            backend=self.name,
            replicas=tuple(self._replicas(job, there)),
            notices=unique(self._unmet(job, info)),
            notes=unique(self._limits(job, info)),
            not_reproduced=not_reproduced(job, CONTAINER_POOL_FIELDS),
            steps=unique(self._steps(there)),
        )

    def view(self, job: CustomJob, trial_id: str = "") -> tuple[Replica, ...]:
        """The job's replicas. The ENTRYPOINT of an image that is not here is not known."""
        there: dict[str, Image | None] = dict.fromkeys(_images(job))
        with suppress(EngineError, ImageError), closing(Engine(self._engine())) as engine:
            there = {image: find_image(engine, image) for image in there}
        return tuple(self._replicas(job, there, trial_id))

    def environment_steps(self, job: CustomJob, trainer: SdistPlan | None) -> Steps:  # noqa: ARG002
        """Nothing: containers make the environments."""
        return Steps()

    def complete(self, order: JobOrder) -> JobOrder:
        """The order with the engine and the options that its containers are run with."""
        options = self._settings.options
        claim = _claim(order.job, options)
        return with_docker_part(replace(order, claim=claim), self._engine(), options)

    def _engine(self) -> EngineAddress:
        if self._found is None:
            self._found = find_local_engine()
        return self._found

    def _steps(self, there: dict[str, Image | None]) -> Iterator[str]:
        policy = self._settings.options.pull
        for image, found in there.items():
            if is_built_here(image):
                continue
            if found is None and policy == "never":
                raise ImageError(f"The image {image} is not here, and --pull=never forbids to pull it.")
            if found is None or policy == "always":
                yield f"Would pull {image}."

    def _unmet(self, job: CustomJob, info: dict[str, Any]) -> Iterator[str]:
        """The accelerators and limits that the replicas do not get. Raises where that is not to be."""
        options = self._settings.options
        claim = _claim(job, options)
        yield from pool_lines(
            job, lambda n, pool: grant(pool.machine_spec, options, info, pool_devices(claim, n)).notice
        )
        able = {"memory": info.get("MemoryLimit", True), "processors": info.get("CpuCfsQuota", True)}
        if missing := [what for what, can in able.items() if not can]:
            yield f"This Docker engine does not limit {' and '.join(missing)} of a container."

    def _limits(self, job: CustomJob, info: dict[str, Any]) -> Iterator[str]:
        """Sentences on the processors and the memory that this machine lacks for the machine types."""
        options = self._settings.options
        return pool_lines(job, lambda _, pool: pool_limits(pool.machine_spec, options, info).sentence)

    def _replicas(
        self, job: CustomJob, there: dict[str, Image | None], trial_id: str = ""
    ) -> Iterator[Replica]:
        order, pools = planned_order(job, self._settings, trial_id), enumerate(job.job_spec.worker_pool_specs)
        found = {n: there[image_uri(pool)] for n, pool in pools if pool.task is not None}
        # One that is not here keeps its ENTRYPOINT to itself.
        programs = {n: (i.entrypoint, i.command) if i else UNKNOWN_PROGRAM for n, i in found.items()}
        world = replace(container_world(order, self._settings.options), programs=programs)
        for view in replica_views(order, world):
            env = {"HOSTNAME": host_name(PLANNED_JOB_ID, view.member)} | view.env
            yield Replica(name=view.member.name, argv=view.argv, env=env)


def _claim(job: CustomJob, options: ReplicaOptions) -> Claim:
    return local_claim(job.job_spec, memory_bytes=options.memory_bytes, all_gpus=options.gpus)


def _images(job: CustomJob) -> tuple[str, ...]:
    """The images that the pools name. Raises ConfigError for a pool without one, or with a bad name."""
    images = []
    for number, pool in enumerate(job.job_spec.worker_pool_specs):
        if pool.task is None:
            continue
        image = image_uri(pool)
        if not image:
            raise ConfigError(
                f"workerPoolSpecs[{number}]: a container needs an image, and none is named.",
                hint="Give --executor-image-uri=IMAGE, or take --backend=process.",
            )
        images.append(check_image_name(image, f"workerPoolSpecs[{number}]"))
    return unique(images)
