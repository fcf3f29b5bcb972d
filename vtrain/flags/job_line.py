"""The project's own job below the flags: what a command line runs that names nothing to run.

It counts as a whole or not at all. A line that names a module, a script, a container or a file has nothing of
it; in any other line each flag counts more than its key.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from vtrain.core.compose import JobRequest
from vtrain.core.pools import EXTRA_KEYS, NAMING_KEYS, Pools, check_changes, machine_pools
from vtrain.core.project_job import below, check_job, find_project_job, with_project_job
from vtrain.errors import UsageError
from vtrain.flags.job_options import SpecFlags, TrainerFlags
from vtrain.flags.request import check_has_folder, job_request, parse_pools
from vtrain.pyproject import ProjectJob, Pyproject
from vtrain.settings import user_path

Remainder = tuple[str, ...] | None


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
        if request.source is None and self.pools and not self.job.config:
            check_has_folder(map(self.pools[0].get, EXTRA_KEYS))
        spec, job = self.spec, self.job
        own = msgspec.structs.replace(  # a flag counts more than its key, an empty one too
            job,
            args=() if spec.args or remainder is not None else job.args,
            command=() if spec.command else job.command,
            output_dir=job.output_dir if spec.base_output_dir is None else "",
        )
        return with_project_job(request, self.project, own, self.pools)


def job_line(spec: SpecFlags, trainer: TrainerFlags, *, is_named: bool = False) -> JobLine:
    """The flags as given or, where they name nothing to run, with the project's job below them.

    `is_named` says that something else names what to run, such as the file of a tuning job.
    Raises ConfigError, with the line, for a job in pyproject.toml that cannot be run.
    """
    found = find_project_job()
    if found is None:
        return JobLine(spec=spec, trainer=trainer)
    project, job = found
    pools = parse_pools(spec.worker_pool_spec)
    if is_named or _names_what_runs(spec, trainer, pools):
        return JobLine(spec=spec, trainer=trainer, unused=project)
    check_job(project, job)
    if spec.python_package_uris:
        raise UsageError("--python-package-uris needs --worker-pool-spec with a python-module to run.")
    if not job.config:
        check_changes(pools, machine_pools(job, pools))
        image = pools[0].get("executor-image-uri") if pools else ""
        trainer = msgspec.structs.replace(trainer, executor_image_uri=image or trainer.executor_image_uri)
        spec = msgspec.structs.replace(spec, worker_pool_spec=[])
    else:
        spec = msgspec.structs.replace(spec, config=str(below(project, job.config)))
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


def _trainer_flags(trainer: TrainerFlags, project: Pyproject, job: ProjectJob) -> TrainerFlags:
    given: dict[str, Any] = {"executor_image_uri": trainer.executor_image_uri or job.image}
    if job.path or job.module or job.script:
        given |= {"python_module": job.module, "script": job.script}
        if trainer.local_package_path is None:
            given["local_package_path"] = str(below(project, job.path))
    if not trainer.staging_bucket and not os.environ.get("VTRAIN_STAGING_BUCKET"):
        given["staging_bucket"] = job.bucket
    return msgspec.structs.replace(trainer, **given)
