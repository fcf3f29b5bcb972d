"""The project's own job, `[tool.vtrain.job]`: what a command line runs that names nothing to run.

It counts as a whole or not at all. A line that names a module, a script, a container or a file has nothing of
it; in any other line each flag counts more than its key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from vtrain.core.compose import JobRequest, make_source
from vtrain.core.pools import (
    EXTRA_KEYS,
    MACHINE_KEYS,
    NAMING_KEYS,
    Pools,
    check_changes,
    container_pools,
    machine_pools,
    trainer_pools,
)
from vtrain.errors import ConfigError, PackagingError, UsageError
from vtrain.flags.grammar import account
from vtrain.flags.job_options import SpecFlags, TrainerFlags
from vtrain.flags.request import check_has_folder, job_request, parse_pools
from vtrain.messages.rules import ACCELERATORS, ENV_NAME, MAX_DISPLAY_NAME, check_labels, enum_hint
from vtrain.messages.service_documents import laid_over
from vtrain.packaging.source import TrainerSource, check_module_name, relative_path
from vtrain.pyproject import ProjectJob, Pyproject, nearest_pyproject
from vtrain.settings import find_region, user_path

Remainder = tuple[str, ...] | None
_SUBJECT = re.compile(r"\A(?:--[a-z-]+|labels): ")


class JobLine(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of a command about one job. `project` is where it comes from, if not from them.

    `job` is the project's, where the line runs it, and `pools` are what --worker-pool-spec changes of it.
    `unused` is a project whose job is not run, since the flags name another.
    """

    spec: SpecFlags
    trainer: TrainerFlags
    project: Pyproject | None = None
    job: ProjectJob | None = None
    pools: Pools = ()
    unused: Pyproject | None = None

    @property
    def region(self) -> str:
        """The job's region on a service; empty where the environment names one, which counts more."""
        return self.job.region if self.job and not os.environ.get("CLOUDSDK_AI_REGION") else ""

    @property
    def origin(self) -> str:
        """A sentence about the project's job, which is run or not; empty where there is none."""
        if self.unused is not None:
            return f"Not used: {self.unused.file} [tool.vtrain.job], as the command names what to run."
        return f"Job: {self.project.file} [tool.vtrain.job]" if self.project is not None else ""

    def request(self, remainder: Remainder) -> JobRequest:
        """The request of the line. Raises UsageError and ConfigError as `job_request` does."""
        request = job_request(self.spec, self.trainer, remainder)
        if self.project is None or self.job is None:
            return request
        name = self.project.name or self.project.file.parent.name
        if not self.job.config:  # else the pools are the file's, or those of the line
            request = msgspec.structs.replace(
                request,
                pools=container_pools(self.job, self.pools),
                trainer_pools=trainer_pools(self.job, self.pools),
                output_image_uri=self.pools[0].get("output-image-uri", "") if self.pools else "",
            )
        own_args = self.job.args if not self.spec.args and remainder is None else ()
        env = {name: value for name, value in self.job.env.items() if name not in request.env_names}
        return msgspec.structs.replace(
            request,
            args=own_args or request.args,
            command=request.command if self.spec.command else self.job.command,
            env=env | request.env,
            source=self._with_extras(request.source, self.job),
            fields=laid_over(_fields(self.job, self.spec), request.fields),
            fallback_name=name[:MAX_DISPLAY_NAME],
        )

    def _with_extras(self, source: TrainerSource | None, job: ProjectJob) -> TrainerSource | None:
        """The trainer with what goes with it, as the first pool, the flags or the project's job say."""
        first = self.pools[0] if self.pools and not job.config else {}
        given = {key.replace("-", "_"): first.get(key, ()) for key in EXTRA_KEYS}
        if source is None:
            check_has_folder(given.values())
            return None
        extras = {name: one or getattr(source, name) or getattr(job, name) for name, one in given.items()}
        return msgspec.structs.replace(source, **extras)


def job_line(spec: SpecFlags, trainer: TrainerFlags, *, is_named: bool = False) -> JobLine:
    """The flags as given or, where they name nothing to run, with the project's job below them.

    `is_named` says that something else names what to run, such as the file of a tuning job.
    Raises ConfigError, with the line, for a job in pyproject.toml that cannot be run.
    """
    project = _project()
    job = project.settings.job if project is not None else None
    if project is None or job is None:
        return JobLine(spec=spec, trainer=trainer)
    pools = parse_pools(spec.worker_pool_spec)
    if is_named or _names_what_runs(spec, trainer, pools):
        return JobLine(spec=spec, trainer=trainer, unused=project)
    _check(project, job)
    if spec.python_package_uris:
        raise UsageError("--python-package-uris needs --worker-pool-spec with a python-module to run.")
    if not job.config:
        check_changes(pools, machine_pools(job, pools))
        image = pools[0].get("executor-image-uri") if pools else ""
        trainer = msgspec.structs.replace(trainer, executor_image_uri=image or trainer.executor_image_uri)
        spec = msgspec.structs.replace(spec, worker_pool_spec=[])
    else:
        spec = msgspec.structs.replace(spec, config=str(_below(project, job.config)))
    trainer = _trainer_flags(trainer, project, job)
    return JobLine(
        spec=spec,
        trainer=trainer,
        project=project,
        job=msgspec.structs.replace(job, image=trainer.executor_image_uri),
        pools=pools,
    )


def _names_what_runs(spec: SpecFlags, trainer: TrainerFlags, pools: Pools) -> bool:
    """Whether the flags name what to run, and do not only say how or where."""
    path = trainer.local_package_path
    return (
        spec.config is not None
        or bool(trainer.python_module or trainer.script)
        or (path is not None and user_path(path).is_file())
        or any(key in pool for pool in pools for key in NAMING_KEYS)
    )


def _project() -> Pyproject | None:
    try:
        return nearest_pyproject(Path.cwd())
    except FileNotFoundError:  # the folder was removed: whatever needs it says so
        return None


def _fields(job: ProjectJob, spec: SpecFlags) -> dict[str, Any]:
    """The fields of a CustomJob that the project's job sets as they are. An empty flag counts more."""
    is_set = bool(job.output_dir) and spec.base_output_dir is None
    below = {
        "serviceAccount": job.service_account,
        "baseOutputDirectory": {"outputUriPrefix": job.output_dir} if is_set else None,
    }
    given = {
        "displayName": job.name,
        "labels": job.labels,
        "jobSpec": {name: value for name, value in below.items() if value},
    }
    return {name: value for name, value in given.items() if value}


def _trainer_flags(trainer: TrainerFlags, project: Pyproject, job: ProjectJob) -> TrainerFlags:
    given: dict[str, Any] = {"executor_image_uri": trainer.executor_image_uri or job.image}
    if job.path or job.module or job.script:
        given |= {"python_module": job.module, "script": job.script}
        if trainer.local_package_path is None:
            given["local_package_path"] = str(_below(project, job.path))
    if not trainer.staging_bucket and not os.environ.get("VTRAIN_STAGING_BUCKET"):
        given["staging_bucket"] = job.bucket
    return msgspec.structs.replace(trainer, **given)


def _below(project: Pyproject, path: str) -> Path:
    """A path of the file, which begins at its folder."""
    return project.file.parent / user_path(path)


def _check(project: Pyproject, job: ProjectJob) -> None:
    """Raise ConfigError for the first key whose value cannot be meant, or that contradicts another."""
    _check_what_runs(project, job)
    if job.path or job.module or job.script:
        with _blamed(project, "path"):
            folder = str(_below(project, job.path))
            source = make_source(folder=folder, python_module=job.module, script=job.script)
        _check_places(project, job, source.folder)
    if job.config and not _below(project, job.config).exists():
        raise _fault(project, "config", f"{_below(project, job.config)} does not exist")
    if len(job.name) > MAX_DISPLAY_NAME:
        raise _fault(project, "name", f"at most {MAX_DISPLAY_NAME} characters, found {len(job.name)}")
    if job.accelerator_type and job.accelerator_type not in ACCELERATORS:
        hint = enum_hint(job.accelerator_type, ACCELERATORS)
        raise _fault(project, "accelerator-type", f"{job.accelerator_type!r} is not known", hint)
    if job.accelerator_count and not job.accelerator_type:
        raise _fault(project, "accelerator-count", "it needs accelerator-type beside it")
    for name in job.env:
        if not ENV_NAME.fullmatch(name):
            raise _fault(project, "env", f"{name!r} is not the name of a variable")
    with _blamed(project, "labels"):
        check_labels(job.labels)
    if job.service_account:
        with _blamed(project, "service-account"):
            account(job.service_account, "--service-account")
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
    alone = bool(job.path) and _below(project, job.path).is_file()
    if not (job.module or job.script or job.config or job.image or alone):
        hint = 'Write module = "MODULE", script = "FILE" or config = "FILE".'
        raise project.fault(("job",), "it names nothing to run", hint)
    given = msgspec.to_builtins(job)  # without the keys that are not given
    has_trainer = bool(job.module or job.script or job.path)
    for key in () if has_trainer else EXTRA_KEYS:
        if key in given:
            raise _fault(project, key, "it goes with a trainer, and none is named", f"Remove {key}.")
    for key in MACHINE_KEYS if has_trainer else (*MACHINE_KEYS, "image"):
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
