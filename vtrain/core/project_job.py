"""The project's own job, `[tool.vtrain.job]`: found, checked, and laid below a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from vtrain.core.compose import JobRequest, make_source
from vtrain.core.job_layers import EVERY_POOL, FIRST_POOL, Layer, Origin, at
from vtrain.errors import ConfigError, PackagingError, UsageError
from vtrain.messages.hardware import accelerator_named
from vtrain.messages.rules import (
    ACCELERATORS,
    ACCOUNT_HINT,
    ENV_NAME,
    MAX_DISPLAY_NAME,
    check_labels,
    enum_hint,
    is_account,
)
from vtrain.packaging.source import TrainerSource, check_module_name, relative_path
from vtrain.pyproject import ProjectJob, Pyproject, nearest_pyproject
from vtrain.settings import find_region, user_path

EXTRA_KEYS = ("requirements", "extra-packages", "extra-dirs")
"""What the project's job and a worker pool say about a trainer beside its folder."""
MACHINE_KEYS = ("machine-type", "replica-count", "accelerator-type", "accelerator-count")
_SUBJECT = re.compile(r"\A(?:--[a-z-]+|labels): ")


def find_project_job() -> tuple[Pyproject, ProjectJob] | None:
    """The job of the nearest pyproject.toml, not checked yet; None where there is none."""
    try:
        project = nearest_pyproject(Path.cwd())
    except FileNotFoundError:  # the folder was removed: whatever needs it says so
        return None
    job = project.settings.job if project is not None else None
    return (project, job) if project is not None and job is not None else None


def project_request(project: Pyproject, job: ProjectJob) -> JobRequest:
    """The request of the project's job alone. Raises ConfigError, with the line, where it cannot be run."""
    check_project_job(project, job)
    return JobRequest(
        config=str(below(project, job.config)) if job.config else None,
        source=with_extras(_trainer(project, job), job),
        project_layers=job_layers(job, project.blames),
        fallback_name=project_name(project),
    )


def project_name(project: Pyproject) -> str:
    """The name of a job that says none: the project's, or its folder's."""
    return (project.name or project.file.parent.name)[:MAX_DISPLAY_NAME]


def with_extras(source: TrainerSource | None, job: ProjectJob) -> TrainerSource | None:
    """The trainer with what the project's job installs and takes along; its own count more."""
    if source is None:
        return None
    names = [key.replace("-", "_") for key in EXTRA_KEYS]
    extras = {name: getattr(source, name) or getattr(job, name) for name in names}
    return msgspec.structs.replace(source, **extras)


_PLACES = {
    "name": "displayName",
    "labels": "labels",
    "service-account": "jobSpec.serviceAccount",
    "output-dir": "jobSpec.baseOutputDirectory.outputUriPrefix",
    "args": f"jobSpec.{EVERY_POOL}.args",
    "command": f"jobSpec.{EVERY_POOL}.command",
    "env": f"jobSpec.{EVERY_POOL}.env",
    "image": f"jobSpec.{EVERY_POOL}.image",
    "machine-type": f"jobSpec.{FIRST_POOL}.machineSpec.machineType",
    "accelerator-type": f"jobSpec.{FIRST_POOL}.machineSpec.acceleratorType",
    "accelerator-count": f"jobSpec.{FIRST_POOL}.machineSpec.acceleratorCount",
    "gpus": f"jobSpec.{FIRST_POOL}.machineSpec",
    "boot-disk-size": f"jobSpec.{FIRST_POOL}.diskSpec.bootDiskSizeGb",
    "replica-count": f"jobSpec.{FIRST_POOL}.replicaCount",
    "spot": "jobSpec.scheduling.strategy",
    "flex-start": "jobSpec.scheduling.strategy",
}
"""The fields that keys of the project's job set; the others are about the trainer and its place."""
_VALUES: dict[str, Callable[[Any], Any]] = {
    "gpus": lambda text: accelerator_named(text, "gpus"),
    "spot": lambda _: "SPOT",
    "flex-start": lambda _: "FLEX_START",
}
"""What becomes of values that are no fields of the API as they are."""


def job_layers(job: ProjectJob, origin: Callable[[str], Origin]) -> tuple[Layer, ...]:
    """A layer for each key that sets a field; `origin` tells who said it."""
    given = msgspec.to_builtins(job)  # without the keys that are not given
    values = {key: _VALUES.get(key, lambda value: value)(given[key]) for key in _PLACES if given.get(key)}
    return tuple(Layer(origin(key), at(_PLACES[key], value)) for key, value in values.items())


def below(project: Pyproject, path: str) -> Path:
    """A path of the file, which begins at its folder."""
    return project.file.parent / user_path(path)


def check_project_job(project: Pyproject, job: ProjectJob) -> None:
    """Raise ConfigError for the first key whose value cannot be meant, or that contradicts another."""
    _check_what_runs(project, job)
    if (source := _trainer(project, job)) is not None:
        _check_places(project, job, source.folder)
    if job.config and not below(project, job.config).exists():
        raise _fault(project, "config", f"{below(project, job.config)} does not exist")
    if len(job.name) > MAX_DISPLAY_NAME:
        raise _fault(project, "name", f"at most {MAX_DISPLAY_NAME} characters, found {len(job.name)}")
    if job.accelerator_type and job.accelerator_type not in ACCELERATORS:
        hint = enum_hint(job.accelerator_type, ACCELERATORS)
        raise _fault(project, "accelerator-type", f"{job.accelerator_type!r} is not known", hint)
    if job.accelerator_count and job.gpus:
        raise _fault(project, "accelerator-count", "gpus says the number", 'Write gpus = "T4:2".')
    if job.accelerator_count and not job.accelerator_type:
        raise _fault(project, "accelerator-count", "it needs accelerator-type beside it")
    if job.gpus:
        with _blamed(project, "gpus"):
            accelerator_named(job.gpus, "--gpus")
        if job.accelerator_type:
            raise _fault(project, "gpus", "it excludes accelerator-type", "Keep one of them.")
    if job.spot and job.flex_start:
        raise _fault(project, "spot", "it excludes flex-start", "Keep one of them.")
    for name in job.env:
        if not ENV_NAME.fullmatch(name):
            raise _fault(project, "env", f"{name!r} is not the name of a variable")
    with _blamed(project, "labels"):
        check_labels(job.labels)
    if job.service_account and not is_account(job.service_account):
        raise _fault(project, "service-account", f"{job.service_account!r} is not an account", ACCOUNT_HINT)
    if job.region:
        with _blamed(project, "region"):
            find_region(job.region, local=True)


def _trainer(project: Pyproject, job: ProjectJob) -> TrainerSource | None:
    """The trainer of the project's job, where it has one."""
    if not (job.path or job.module or job.script):
        return None
    with _blamed(project, "path"):
        folder = str(below(project, job.path))
        return make_source(folder=folder, python_module=job.module, script=job.script)


def _check_places(project: Pyproject, job: ProjectJob, folder: Path) -> None:
    """Raise ConfigError for a script or an extra folder outside of its folder, and for a bad module."""
    places = [("script", "the script", job.script)] if job.script else []
    places += [("extra-dirs", "the extra folder", name) for name in job.extra_dirs]
    for key, what, name in places:
        with _blamed(project, key):
            relative_path(folder, name, what)
    if job.module:
        with _blamed(project, "module"):
            check_module_name(job.module)


def _check_what_runs(project: Pyproject, job: ProjectJob) -> None:
    if job.module and job.script:
        raise _fault(project, "script", "it excludes module", "Keep one of them.")
    alone = bool(job.path) and below(project, job.path).is_file()
    if not (job.module or job.script or job.config or job.image or alone):
        hint = 'Write module = "MODULE", script = "FILE" or config = "FILE".'
        raise project.fault(("job",), "it names nothing to run", hint)
    given = msgspec.to_builtins(job)  # without the keys that are not given
    has_trainer = bool(job.module or job.script or job.path)
    for key in () if has_trainer else EXTRA_KEYS:
        if key in given:
            raise _fault(project, key, "it goes with a trainer, and none is named", f"Remove {key}.")
    machine_keys = (*MACHINE_KEYS, "gpus", "boot-disk-size")
    for key in machine_keys if has_trainer else (*machine_keys, "image"):
        if key in given and job.config:
            raise _fault(project, key, "the file of config says it for each pool", f"Remove {key}.")


def _fault(project: Pyproject, key: str, problem: str, hint: str = "") -> ConfigError:
    return project.fault(("job", key), problem, hint)


@contextmanager
def _blamed(project: Pyproject, key: str) -> Iterator[None]:
    """Name the key in the place of the flag that an error names."""
    try:
        yield
    except (ConfigError, UsageError, PackagingError) as error:
        problem = _SUBJECT.sub("", error.message).removesuffix(".")
        raise _fault(project, key, problem, error.hint) from error
