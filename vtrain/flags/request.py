"""From the values of flags to a JobRequest: gcloud's grammar, and the rules between flags.

Below the flags is the project's own job, which a line runs that names nothing to run. It counts as a whole or
not at all. A line that names a module, a script, a container or a file has nothing of it; in any other line
each flag counts more than its key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from vtrain.core.compose import JobRequest, make_source
from vtrain.core.job_layers import EVERY_POOL, FIRST_POOL, POOLS, Fold, Layer, at, named
from vtrain.core.pools import (
    COUNTS,
    EXTRA_KEYS,
    FLAG,
    KEYS,
    MACHINE_KEYS,
    NAMING_KEYS,
    Pool,
    Pools,
    changes_document,
    check_changes,
    check_pools,
    pools_document,
)
from vtrain.core.project_job import (
    below,
    check_job,
    find_project_job,
    job_layers,
    project_name,
    with_extras,
)
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.grammar import split_dict, split_env, split_list, whole_number
from vtrain.flags.job_options import SpecFlags, TrainerFlags
from vtrain.flags.options import ResourceFlags
from vtrain.flags.row import fields_of, layers_of
from vtrain.messages.hardware import accelerator_named
from vtrain.packaging.source import TrainerSource
from vtrain.pyproject import ProjectJob, Pyproject
from vtrain.settings import user_path

PACKAGE_FORMATS = ("auto", "sdist", "image")
_KMS = re.compile(r"(?:https?://[^/]+/v1/)?(projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/.+)")


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

    def request(self, remainder: tuple[str, ...] | None) -> JobRequest:
        """The request of the line, without the encryption key, whose project is found later (`with_key_of`).

        Raises UsageError where a flag does not parse, ConfigError where one is wrong.
        """
        spec, trainer = self.spec, self.trainer
        check_format(trainer)
        flags, pools = tuple(layers_of(spec)), parse_pools(spec.worker_pool_spec)
        if remainder is not None:
            if spec.args:
                raise UsageError("--args and '--' both give the trainer's arguments; take one of them.")
            flags += (Layer(named("--"), at(f"jobSpec.{EVERY_POOL}.args", remainder)),)
        if spec.spot and spec.flex_start:
            raise UsageError("--spot and --flex-start exclude each other.")
        source, _, env_names = trainer_source(trainer), *split_env(spec.env)
        if pools:
            # the first needs no machine-type where flags say it
            machine = Fold(flags).document.get("jobSpec", {}).get(FIRST_POOL, {})
            is_said = pools[0] and "machineSpec" in machine
            check_pools(({"machine-type": "", **pools[0]}, *pools[1:]) if is_said else pools)
            source = _pool_source(pools[0], source)
            uris = split_list(spec.python_package_uris, "--python-package-uris")
            flags = (Layer(named(FLAG), {"jobSpec": {POOLS: pools_document(pools, uris)}}), *flags)
        image = trainer.executor_image_uri
        if image and (source is not None or self.job is not None or (spec.config is not None and not pools)):
            flags += (Layer(named("--executor-image-uri"), at(f"jobSpec.{EVERY_POOL}.image", image)),)
        request = JobRequest(
            config=spec.config,
            allow_unknown_fields=spec.allow_unknown_fields,
            layers=flags,
            env_names=env_names,
            assignments=tuple(spec.assignments),
            source=source,
            output_image_uri=(pools or self.pools or ({},))[0].get("output-image-uri", ""),
        )
        return request if self.job is None else self._over_job(request, self.job)

    def _over_job(self, request: JobRequest, job: ProjectJob) -> JobRequest:
        """The request with the project's job below it, whose machines the line's pools change."""
        pools, table = (() if job.config else self.pools), msgspec.to_builtins(job)
        own = {key: table[key] for key in MACHINE_KEYS if key in table and key != "replica-count"}
        if job.gpus:
            gpus = accelerator_named(job.gpus, "gpus")
            own |= {
                "accelerator-type": gpus["acceleratorType"],
                "accelerator-count": gpus["acceleratorCount"],
            }
        disk = {"diskSpec": {"bootDiskSizeGb": job.boot_disk_size}} if job.boot_disk_size else {}
        if request.source is None and pools:
            check_has_folder(map(pools[0].get, EXTRA_KEYS))
        if self.spec.base_output_dir is not None:  # a flag counts more than its key, an empty one too
            job = msgspec.structs.replace(job, output_dir="")
        keys = job_layers(job, self.project.blames) if self.project is not None else ()
        changes = [Layer(named(FLAG), {"jobSpec": changes_document(pools, own, disk)})] if pools else []
        return msgspec.structs.replace(
            request,
            layers=(*keys, *changes, *request.layers),
            source=with_extras(request.source, job, pools[0] if pools else {}),
            fallback_name=project_name(self.project) if self.project is not None else "",
        )


def job_line(spec: SpecFlags, trainer: TrainerFlags, *, is_named: bool = False) -> JobLine:
    """The flags as given or, where they name nothing to run, with the project's job below them.

    `is_named` says that something else names what to run, such as the file of a tuning job.
    Raises ConfigError, with the line, for a job in pyproject.toml that cannot be run.
    """
    found, pools = find_project_job(), parse_pools(spec.worker_pool_spec)
    _check_said_once(spec, trainer, pools)
    project, job = found or (None, None)
    if project is None or job is None or is_named or names_what_runs(spec, trainer, pools):
        line = JobLine(spec=spec, trainer=trainer, unused=project)
        return _with_pools(line, pools) if _are_of_trainer(pools, line) else line
    check_job(project, job)
    if spec.python_package_uris:
        raise UsageError("--python-package-uris needs --worker-pool-spec with a python-module to run.")
    if not job.config:
        line = _with_pools(JobLine(spec=spec, trainer=trainer, job=job), pools)
        spec, trainer = line.spec, line.trainer
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


def _with_pools(line: JobLine, pools: Pools) -> JobLine:
    """The line whose pools change the machines and the image of its job: the project's, or its trainer."""
    trainer = line.trainer
    named = ProjectJob(
        path=trainer.local_package_path or "", module=trainer.python_module, script=trainer.script
    )
    job = line.job or named
    check_changes(pools, job.accelerator_type)
    image = pools[0].get("executor-image-uri") if pools else ""
    return msgspec.structs.replace(
        line,
        spec=msgspec.structs.replace(line.spec, worker_pool_spec=[]),
        trainer=msgspec.structs.replace(trainer, executor_image_uri=image or trainer.executor_image_uri),
        job=job,
        pools=pools,
    )


def _are_of_trainer(pools: Pools, line: JobLine) -> bool:
    """Whether the pools say where the trainer of the flags runs, and none says what else does."""
    trainer = line.trainer
    named = trainer.local_package_path is not None or trainer.python_module or trainer.script
    says_what = any(key in pool for pool in pools for key in NAMING_KEYS)
    return bool(pools and named) and line.spec.config is None and not says_what


def _check_said_once(spec: SpecFlags, trainer: TrainerFlags, pools: Pools) -> None:
    """Raise UsageError where a flag and --worker-pool-spec say different things about the first pool."""
    if not pools:
        return
    if spec.replicas is not None and len(pools) > 1:
        raise UsageError(
            f"--replicas is for one {FLAG}, and {len(pools)} are given.",
            hint="Write replica-count=N in each.",
        )
    machine = fields_of(spec).get("jobSpec", {}).get(FIRST_POOL, {})
    hardware = machine.get("machineSpec", {})
    given = (
        ("--executor-image-uri", "executor-image-uri", trainer.executor_image_uri or None),
        ("--machine-type", "machine-type", hardware.get("machineType")),
        ("--gpus", "accelerator-type", hardware.get("acceleratorType")),
        ("--gpus", "accelerator-count", hardware.get("acceleratorCount")),
        ("--replicas", "replica-count", machine.get("replicaCount")),
    )
    for flag, key, value in given:
        if value is not None and pools[0].get(key, value) != value:
            raise UsageError(
                f"{flag} says {value}, and {FLAG} says {key}={pools[0][key]}.", hint="Keep one of them."
            )


def names_what_runs(spec: SpecFlags, trainer: TrainerFlags, pools: Pools) -> bool:
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


def with_key_of(request: JobRequest, spec: SpecFlags, project: str) -> JobRequest:
    """The request with the encryption key that the flags name; `project` owns it unless they say another."""
    return request.over(*_key_layers(spec, project))


def _key_layers(flags: ResourceFlags, project: str) -> tuple[Layer, ...]:
    key = kms_key_name(flags, project)
    return (Layer(named("--kms-key"), at("encryptionSpec.kmsKeyName", key)),) if key else ()


def resource_layers(flags: ResourceFlags, project: str) -> tuple[Layer, ...]:
    """What flags say of a resource, with its encryption key, as `kms_key_name` reads it."""
    return (*layers_of(flags), *_key_layers(flags, project))


def kms_key_name(flags: ResourceFlags, project: str) -> str:
    """The full name of the key, empty without one; `project` owns it where nothing else is said.

    Raises UsageError for parts without a key, ConfigError for a key that is not fully named.
    """
    parts = (flags.kms_keyring, flags.kms_location, flags.kms_project)
    if flags.kms_key is None and parts != (None, None, None):
        raise UsageError("--kms-key must be given with --kms-keyring, --kms-location and --kms-project.")
    if not flags.kms_key and not any(parts):
        return ""
    full = _KMS.fullmatch(flags.kms_key or "")
    if full:
        return full[1]
    owner = flags.kms_project or project
    if not all((flags.kms_key, flags.kms_keyring, flags.kms_location, owner)):
        raise ConfigError(
            "--kms-key: the key is not fully named.",
            hint="Add --kms-keyring, --kms-location and --kms-project.",
        )
    ring = f"projects/{owner}/locations/{flags.kms_location}/keyRings/{flags.kms_keyring}"
    return f"{ring}/cryptoKeys/{flags.kms_key}"


def parse_pools(values: Sequence[str]) -> tuple[Pool, ...]:
    """The pools of repeated `--worker-pool-spec` flags. Raises UsageError where one does not parse.

    A list inside a pool is split on `;`, or by its own `^D^`.
    """
    return tuple(
        {key: _pool_value(key, text) for key, text in split_dict(value, FLAG, KEYS).items()}
        for value in values
    )


def _pool_value(key: str, text: str) -> Any:
    if key in COUNTS:
        return whole_number(text, f"{FLAG}: {key}")
    return split_list(text, f"{FLAG}: {key}", ";") if key in EXTRA_KEYS else text


def _pool_source(first: Pool, source: TrainerSource | None) -> TrainerSource | None:
    """The trainer of the first pool, or the one of the flags. Raises UsageError where both name one."""
    if "local-package-path" not in first:
        return source
    if source is not None:
        raise UsageError("--local-package-path is given twice: as a flag and in --worker-pool-spec.")
    return make_source(
        in_pool_spec=True,
        folder=first["local-package-path"],
        python_module=first.get("python-module", ""),
        script=first.get("script", ""),
        **{key.replace("-", "_"): first.get(key, ()) for key in EXTRA_KEYS},
    )


def trainer_source(trainer: TrainerFlags) -> TrainerSource | None:
    """The trainer that `--local-package-path` and its companions name; None without it."""
    lists = {
        "requirements": split_list(trainer.requirements, "--requirements"),
        "extra_packages": split_list(trainer.extra_packages, "--extra-packages"),
        "extra_dirs": split_list(trainer.extra_dirs, "--extra-dirs"),
    }
    if trainer.python_module and trainer.script:
        raise UsageError("--python-module and --script exclude each other.")
    if trainer.local_package_path is None:
        check_has_folder([trainer.python_module, trainer.script, *lists.values()])
        return None
    return make_source(
        in_pool_spec=False,
        folder=trainer.local_package_path,
        python_module=trainer.python_module,
        script=trainer.script,
        **lists,
    )


def check_has_folder(given: Iterable[object]) -> None:
    """Raise UsageError where something is given about a trainer, and its folder is not."""
    if any(given):
        raise UsageError("--python-module, --script and --requirements need --local-package-path=DIR.")


def check_format(trainer: TrainerFlags) -> None:
    """Raise UsageError for a package format that is unknown."""
    if trainer.package_format not in PACKAGE_FORMATS:
        raise UsageError(
            f"--package-format: expected auto, sdist or image, found {trainer.package_format!r}."
        )
