"""Plans of the backend `process`: replicas, environments, and reasons to reject a job."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import BackendSettings, Plan, Replica, Steps
from vtrain.backends.local_plan import (
    completed,
    environment_spec,
    image_uri,
    local_claim,
    package_files,
    planned_order,
    pool_lines,
    unique,
)
from vtrain.backends.process.process_world import bucket_notices, process_world
from vtrain.errors import ConfigError, UnavailableError
from vtrain.messages.custom_job import CustomJob, WorkerPoolSpec
from vtrain.runtime.capacity.leases import Claim, pool_devices
from vtrain.runtime.home import Home
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.machines import Devices, accelerator_notice, leased_devices
from vtrain.runtime.notices import PROCESS_POOL_FIELDS, not_reproduced
from vtrain.runtime.replica.replica_plan import replica_views
from vtrain.runtime.replica.vertex_view import MASTER_PORT, TRAINING_PORT

if TYPE_CHECKING:
    from vtrain.packaging.module_imports import Import, TrainerImports
    from vtrain.packaging.sdist_plan import SdistPlan
    from vtrain.runtime.environments.environment import EnvironmentSpec
    from vtrain.runtime.environments.interpreters import PythonChoice


class ProcessPlanner:
    """Replicas as processes on this machine."""

    name = "process"
    files_per_replica = 2  # its pipes

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings

    def plan(self, job: CustomJob) -> Plan:
        """Exactly what submit would do. Raises UnavailableError for a job that needs containers."""
        job = completed(job)
        _refuse_containers(job)
        return Plan(
            job=job,
            backend=self.name,
            replicas=self.view(job),
            notices=unique([*self._accelerators(job), *bucket_notices(job.job_spec)]),
            not_reproduced=not_reproduced(job, PROCESS_POOL_FIELDS),
        )

    def view(self, job: CustomJob, trial_id: str = "") -> tuple[Replica, ...]:
        """The job's replicas with Vertex's own ports; the free ones are found when the job starts.

        Raises UnavailableError for a job that needs containers.
        """
        _refuse_containers(job)
        order = planned_order(job, self._settings, trial_id)
        folder = Home(Path(order.home)).job(order.name)
        views = replica_views(order, process_world(order, folder, MASTER_PORT, count(TRAINING_PORT)))
        # Without the variables of the machine, among them all that the command's own environment has.
        return tuple(Replica(name=view.member.name, argv=view.argv, env=view.variables) for view in views)

    def environment_steps(self, job: CustomJob, trainer: SdistPlan | None) -> Steps:
        """The steps that make the environments. Raises EnvironmentFailed for a damaged package."""
        settings, pools = self._settings, [*filter(package_files, job.job_spec.worker_pool_specs)]
        if settings.active_python:
            steps = _active_steps(settings.active_python, map(image_uri, pools), trainer)
            if settings.environment:
                return steps
            advice = "--environment=new makes an environment of its requirements."
            return msgspec.structs.replace(steps, notes=tuple(f"{note} {advice}" for note in steps.notes))
        order = planned_order(job, settings)
        found = [_environment_steps(environment_spec(pool, order), settings, trainer) for pool in pools]
        would = unique(line for steps in found for line in steps.would)
        return Steps(
            would=would,
            cached=("Environment",) if found and not would else (),
            notices=unique(line for steps in found for line in steps.notices),
            missing=unique(line for steps in found for line in steps.missing),
        )

    def complete(self, order: JobOrder) -> JobOrder:
        """The order with its claim on this machine's resources."""
        order = order.with_setting(has_environment=not order.setting.active_python)
        return msgspec.structs.replace(order, claim=self._claim(order.job))

    def _claim(self, job: CustomJob) -> Claim:
        # `--gpu` concerns containers.
        return local_claim(job.job_spec, memory_bytes=self._settings.options.memory_bytes)

    def _accelerators(self, job: CustomJob) -> Iterator[str]:
        """Notices about the pools' accelerators. Raises ConfigError where missing ones are required."""
        claim, required = self._claim(job), self._settings.options.require_accelerators

        def notice(number: int, pool: WorkerPoolSpec) -> str:
            leased = pool_devices(claim, number)
            none = Devices(why="as nvidia-smi lists no GPU here")
            devices = none if leased is None else leased_devices(leased)
            return accelerator_notice(pool.machine_spec, devices, required=required)

        return pool_lines(job, notice)


def _refuse_containers(job: CustomJob) -> None:
    for pool in job.job_spec.worker_pool_specs:
        if pool.container_spec is not None:
            raise UnavailableError(
                f"The image {pool.container_spec.image_uri} is run by Docker, not by the backend process.",
                hint="Take --backend=docker, or give the trainer as a Python package "
                "(local-package-path=… with python-module=…).",
            )


def _active_steps(python: str, images: Iterable[str], trainer: SdistPlan | None) -> Steps:
    """What a trainer meets in a Python that is used as it is. Raises ConfigError where that does not run."""
    from vtrain.packaging.prebuilt import contents
    from vtrain.packaging.preflight import trainer_imports
    from vtrain.runtime.environments.active_python import view_of

    imports = None if trainer is None else trainer.imports or trainer_imports(trainer)
    wanted = {image.python_version for image in map(contents, images) if image and image.python_version}
    version = ".".join(view_of(python, ()).version.split(".")[:2]) if wanted else ""
    return Steps(
        notes=(f"The trainer runs in {python} as it is.",),
        notices=tuple(
            f"{python} is Python {version}; the image has Python {other}." for other in wanted - {version}
        ),
        missing=tuple(_lacking(imports, python)) if imports is not None else (),
    )


def _lacking(trainer: TrainerImports, python: str) -> Iterator[str]:
    """A sentence for each import that is at fault itself, and one for all that are not installed."""
    from vtrain.packaging.own_modules import own_module
    from vtrain.packaging.preflight import missing_imports, place_of
    from vtrain.runtime.environments.active_python import lacking

    absent: list[Import] = []
    for item in lacking(python, trainer):
        if fault := own_module(item, trainer, Path.cwd()):
            yield f"{place_of(item, trainer)}: {fault}"
        else:
            absent.append(item)
    if absent:
        names = ", ".join(f"`{item.module}`" for item in absent)
        verb, them = ("is", "it") if len(absent) == 1 else ("are", "them")
        needed = (each.brings or "NAME" for each in missing_imports(trainer, frozenset()) if not each.fault)
        yield (
            f"{place_of(absent[0], trainer)}: {names} {verb} imported and not installed in {python}. Install "
            f"{them} there, or give --requirements={','.join(needed)}: then vtrain makes an environment of "
            "these alone."
        )


def _environment_steps(spec: EnvironmentSpec, settings: BackendSettings, trainer: SdistPlan | None) -> Steps:
    """What would be installed for a pool, and how that differs from its image."""
    from vtrain.packaging.prebuilt import contents
    from vtrain.runtime.environments.environment import plan_environment
    from vtrain.runtime.environments.interpreters import asked_python, choose_python, site_packages

    home = settings.home
    image = contents(spec.image_uri)
    wanted = image.python_version if image is not None else ""
    choice = None
    if all(Path(package).is_file() for package in spec.packages):
        plan = plan_environment(spec, home)
        would = f"Would install the trainer and its requirements in {plan.path}."
        if plan.cached:
            would, version = "", site_packages(plan.path).parent.name.removeprefix("python")
        elif plan.dependencies_cached:
            would = f"Would install the trainer in {plan.path}; its requirements are cached."
        choice = plan.dependencies and plan.dependencies.python
    else:
        would = "Would install the trainer and its requirements."
        parts = (trainer, *trainer.local) if trainer else ()
        said = [part.project.requires_python for part in parts if part.project]
        requires = tuple(filter(None, (*said, *(part.requires_python for part in parts))))
        choice = (
            asked_python(settings.python, requires) if settings.python else choose_python(wanted, requires)
        )
    if choice:
        version = choice.interpreter.short_version
    notices = []
    if spec.image_uri and image is None:
        notices.append(
            f"vtrain does not know what the image {spec.image_uri} contains: only the trainer's requirements "
            "are installed here. --backend=docker runs the image itself."
        )
    if wanted not in ("", version):
        notices.append(f"Python {version} is used here; the image has Python {wanted}.")
    return Steps(
        would=(would,) if would else (),
        notices=tuple(notices),
        missing=_missing_python(choice, settings) if choice and choice.unmet else (),
    )


def _missing_python(choice: PythonChoice, settings: BackendSettings) -> tuple[str, ...]:
    """A sentence about a Python that is required and not here. Raises ConfigError for the one of --python."""
    from vtrain.runtime.environments.interpreters import downloads_allowed

    if not choice.is_required or settings.python_downloads or downloads_allowed(os.environ):
        return ()
    if settings.python:
        raise ConfigError(
            f"--python={settings.python}: uv finds no such Python on this machine.",
            hint="Install it (`uv python install VERSION`), or allow that with --python-downloads.",
        )
    return (
        f"The trainer requires Python {choice.unmet}, and uv finds none on this machine. Install it, or "
        f"allow that with --python-downloads.",
    )
