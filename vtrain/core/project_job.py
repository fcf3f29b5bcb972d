"""The project's own job, `[tool.vtrain.job]`: found, checked, and laid below a request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from vtrain.core.compose import JobRequest, make_source
from vtrain.core.pools import EXTRA_KEYS, MACHINE_KEYS, Pools, container_pools, trainer_pools
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
from vtrain.messages.service_documents import laid_over
from vtrain.packaging.source import check_module_name, relative_path
from vtrain.pyproject import ProjectJob, Pyproject, nearest_pyproject
from vtrain.settings import find_region, user_path

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
    check_job(project, job)
    source = None
    if job.path or job.module or job.script:
        folder = str(below(project, job.path))
        source = make_source(folder=folder, python_module=job.module, script=job.script)
    config = str(below(project, job.config)) if job.config else None
    request = JobRequest(config=config, source=source, executor_image_uri=job.image)
    return with_project_job(request, project, job)


def with_project_job(
    request: JobRequest, project: Pyproject | None, job: ProjectJob, pools: Pools = ()
) -> JobRequest:
    """The request with the project's job below it. `pools` change the machines and the images of the job.

    What is to be packaged, and the file of `config`, are those of the request. Without a `project` the job is
    the request's own trainer.
    """
    if not job.config:  # else the pools are the file's, or those of the request
        request = msgspec.structs.replace(
            request,
            pools=container_pools(job, pools),
            trainer_pools=trainer_pools(job, pools),
            output_image_uri=pools[0].get("output-image-uri", "") if pools else "",
        )
    env = {name: value for name, value in job.env.items() if name not in request.env_names}
    source, first = request.source, pools[0] if pools and not job.config else {}
    if source is not None:
        names = [(key, key.replace("-", "_")) for key in EXTRA_KEYS]
        extras = {name: first.get(key) or getattr(source, name) or getattr(job, name) for key, name in names}
        source = msgspec.structs.replace(source, **extras)
    return msgspec.structs.replace(
        request,
        args=request.args or job.args,
        command=request.command or job.command,
        env=env | request.env,
        source=source,
        fields=laid_over(job_fields(job), request.fields),
        machine=laid_over(job_machine(job, pools), request.machine),
        fallback_name=(project.name or project.file.parent.name)[:MAX_DISPLAY_NAME] if project else "",
    )


def job_machine(job: ProjectJob, pools: Pools = ()) -> dict[str, Any]:
    """The part of the first WorkerPoolSpec that the project's job sets; `pools` count more than its GPUs."""
    gpus = job.gpus if len(pools) < 2 and not any("accelerator-type" in pool for pool in pools) else ""
    given = {
        "machineSpec": accelerator_named(gpus, "gpus") if gpus else None,
        "diskSpec": {"bootDiskSizeGb": job.boot_disk_size} if job.boot_disk_size else None,
    }
    return {name: value for name, value in given.items() if value}


def job_fields(job: ProjectJob) -> dict[str, Any]:
    """The fields of a CustomJob that the project's job sets as they are."""
    strategy = "SPOT" if job.spot else "FLEX_START" if job.flex_start else ""
    job_spec = {
        "scheduling": {"strategy": strategy} if strategy else None,
        "serviceAccount": job.service_account,
        "baseOutputDirectory": {"outputUriPrefix": job.output_dir} if job.output_dir else None,
    }
    given = {
        "displayName": job.name,
        "labels": job.labels,
        "jobSpec": {name: value for name, value in job_spec.items() if value},
    }
    return {name: value for name, value in given.items() if value}


def below(project: Pyproject, path: str) -> Path:
    """A path of the file, which begins at its folder."""
    return project.file.parent / user_path(path)


def check_job(project: Pyproject, job: ProjectJob) -> None:
    """Raise ConfigError for the first key whose value cannot be meant, or that contradicts another."""
    _check_what_runs(project, job)
    if job.path or job.module or job.script:
        with _blamed(project, "path"):
            folder = str(below(project, job.path))
            source = make_source(folder=folder, python_module=job.module, script=job.script)
        _check_places(project, job, source.folder)
    if job.config and not below(project, job.config).exists():
        raise _fault(project, "config", f"{below(project, job.config)} does not exist")
    if len(job.name) > MAX_DISPLAY_NAME:
        raise _fault(project, "name", f"at most {MAX_DISPLAY_NAME} characters, found {len(job.name)}")
    if job.accelerator_type and job.accelerator_type not in ACCELERATORS:
        hint = enum_hint(job.accelerator_type, ACCELERATORS)
        raise _fault(project, "accelerator-type", f"{job.accelerator_type!r} is not known", hint)
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
