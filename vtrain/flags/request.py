"""From the values of flags to a JobRequest: gcloud's grammar, and the rules between flags.

Below the flags is the project's own job, which a line runs that names nothing to run. It counts as a whole or
not at all. A line that names a module, a script, a container or a file has nothing of it; in any other line
each flag counts more than its key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from vtrain.core.compose import JobRequest, make_source, no_image
from vtrain.core.job_layers import EVERY_POOL, FIRST_POOL, POOLS, Document, Fold, Layer, at, named
from vtrain.core.project_job import (
    EXTRA_KEYS,
    MACHINE_KEYS,
    below,
    check_project_job,
    find_project_job,
    job_layers,
    project_name,
    with_extras,
)
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.grammar import (
    POOL_FIELDS,
    POOL_FLAG,
    POOL_KEYS,
    split_dict,
    split_env,
    split_list,
    whole_number,
)
from vtrain.flags.job_options import SpecFlags, TrainerFlags
from vtrain.flags.options import ResourceFlags
from vtrain.flags.row import fields_of, layers_of
from vtrain.messages.rules import ACCELERATORS, enum_hint
from vtrain.messages.service_documents import laid_over
from vtrain.packaging.source import TrainerSource
from vtrain.pyproject import ProjectJob, Pyproject
from vtrain.settings import user_path

PACKAGE_FORMATS = ("auto", "sdist", "image")
NAMING_KEYS = ("container-image-uri", "python-module", "script", "local-package-path")
"""Keys of a pool that name what to run; the others say in what, and on which machines."""
_SOFTWARE_KEYS = ("executor-image-uri", "container-image-uri", "python-module", "script")
_KMS = re.compile(r"(?:https?://[^/]+/v1/)?(projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/.+)")
Pool = dict[str, Any]
"""The text of a pool, cut at its keys: counts are numbers, and `EXTRA_KEYS` tuples."""


class JobLine(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of a command about one job. `project` is where it comes from, if not from them.

    `job` is the project's, where the line runs it. `changes` are the pools of a line that names what to run
    elsewhere: they change the machines. `unused` is a project whose job is not run, since the flags name
    another.
    """

    spec: SpecFlags
    trainer: TrainerFlags
    project: Pyproject | None = None
    job: ProjectJob | None = None
    changes: Sequence[Pool] = ()
    unused: Pyproject | None = None
    is_named: bool = False
    """Whether a file that is read elsewhere names what to run."""

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
        """The request of the line, without the encryption key, whose project is found later (`key_layers`).

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
            flags = (Layer(named(POOL_FLAG), {"jobSpec": {POOLS: pools_document(pools, uris)}}), *flags)
        image = trainer.executor_image_uri
        has_file = (spec.config is not None or self.is_named) and not pools
        if image and (source is not None or self.job is not None or has_file):
            flags += (Layer(named("--executor-image-uri"), at(f"jobSpec.{EVERY_POOL}.image", image)),)
        request = JobRequest(
            config=spec.config,
            allow_unknown_fields=spec.allow_unknown_fields,
            layers=flags,
            env_names=env_names,
            assignments=tuple(spec.assignments),
            source=source,
            output_image_uri=(pools or self.changes or ({},))[0].get("output-image-uri", ""),
        )
        return request if self.job is None else self._over_job(request, self.job)

    def _over_job(self, request: JobRequest, job: ProjectJob) -> JobRequest:
        """The request with the project's job below it, whose machines the line's pools change."""
        source, changes = request.source, self.changes
        if source is None and changes:
            check_has_folder(map(changes[0].get, EXTRA_KEYS))
        elif source is not None and changes:
            source = msgspec.structs.replace(source, **_extras(changes[0]))
        if self.spec.base_output_dir is not None:  # a flag counts more than its key, an empty one too
            job = msgspec.structs.replace(job, output_dir="")
        keys = job_layers(job, self.project.blames) if self.project is not None else ()
        machines = Fold(keys).document.get("jobSpec", {}).get(FIRST_POOL, {})
        over = [Layer(named(POOL_FLAG), {"jobSpec": changes_document(changes, machines)})] if changes else []
        return msgspec.structs.replace(
            request,
            project_layers=tuple(keys),
            layers=(*over, *request.layers),
            source=with_extras(source, job),
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
        line = JobLine(spec=spec, trainer=trainer, unused=project, is_named=is_named)
        says_what = spec.config is not None or any(key in pool for pool in pools for key in NAMING_KEYS)
        has_trainer = trainer.local_package_path is not None or trainer.python_module or trainer.script
        if pools and has_trainer and not says_what:  # they say where the trainer of the flags runs
            return _with_changes(line, pools, ProjectJob())
        return line
    check_project_job(project, job)
    if spec.python_package_uris:
        raise UsageError("--python-package-uris needs --worker-pool-spec with a python-module to run.")
    if job.config:
        spec = msgspec.structs.replace(spec, config=str(below(project, job.config)))
        line = JobLine(spec=spec, trainer=trainer, project=project)
    else:
        line = _with_changes(JobLine(spec=spec, trainer=trainer, project=project), pools, job)
    trainer = _trainer_flags(line.trainer, project, job)
    job = msgspec.structs.replace(job, image=trainer.executor_image_uri)
    return msgspec.structs.replace(line, trainer=trainer, job=job)


def _with_changes(line: JobLine, pools: Sequence[Pool], job: ProjectJob) -> JobLine:
    """The line of a job whose machines and image the pools change. Raises ConfigError where they cannot."""
    accelerator = {"accelerator-type": job.accelerator_type} if job.accelerator_type else {}
    for index, pool in enumerate(pools):
        if index:
            _check_follower(index, pool)
        _check_accelerator(index, accelerator | pool)
    image = pools[0].get("executor-image-uri") if pools else ""
    trainer = line.trainer
    return msgspec.structs.replace(
        line,
        spec=msgspec.structs.replace(line.spec, worker_pool_spec=[]),
        trainer=msgspec.structs.replace(trainer, executor_image_uri=image or trainer.executor_image_uri),
        job=job,
        changes=pools,
    )


def _check_said_once(spec: SpecFlags, trainer: TrainerFlags, pools: Sequence[Pool]) -> None:
    """Raise UsageError where a flag and --worker-pool-spec say different things about the first pool."""
    if not pools:
        return
    if spec.replicas is not None and len(pools) > 1:
        raise UsageError(
            f"--replicas is for one {POOL_FLAG}, and {len(pools)} are given.",
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
                f"{flag} says {value}, and {POOL_FLAG} says {key}={pools[0][key]}.", hint="Keep one of them."
            )


def names_what_runs(spec: SpecFlags, trainer: TrainerFlags, pools: Sequence[Pool]) -> bool:
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


def key_layers(flags: ResourceFlags, project: str) -> tuple[Layer, ...]:
    """The encryption key that the flags name; `project` owns it unless they say another."""
    key = kms_key_name(flags, project)
    return (Layer(named("--kms-key"), at("encryptionSpec.kmsKeyName", key)),) if key else ()


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
        **_extras(first),
    )


def _extras(pool: Pool) -> dict[str, tuple[str, ...]]:
    return {key.replace("-", "_"): pool[key] for key in EXTRA_KEYS if pool.get(key)}


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


# --worker-pool-spec: the text of a pool, gcloud's rules about its keys, and the layer that it becomes


def parse_pools(values: Sequence[str]) -> tuple[Pool, ...]:
    """The pools of repeated `--worker-pool-spec` flags. Raises UsageError where one does not parse.

    A list inside a pool is split on `;`, or by its own `^D^`.
    """
    pools: list[Pool] = [dict(split_dict(value, POOL_FLAG, POOL_KEYS)) for value in values]
    for pool in pools:
        for key, text in pool.items():
            if key.endswith("-count"):
                pool[key] = whole_number(text, f"{POOL_FLAG}: {key}")
            elif key in EXTRA_KEYS:
                pool[key] = split_list(text, f"{POOL_FLAG}: {key}", ";")
    return tuple(pools)


def pools_document(pools: Sequence[Pool], package_uris: Sequence[str] = ()) -> list[Document]:
    """The WorkerPoolSpecs of pools that name what to run. Each runs the package of the first, if it has one.

    An empty pool keeps its place. gcloud checks no range: the backend's plan does.
    """
    software = pools[0] if "local-package-path" in pools[0] else {}
    uris = {"packageUris": list(package_uris)} if package_uris and not software else {}
    return [
        _machines({"machine-type": ""} | pool) | _task(software or pool, uris) if pool else {}
        for pool in pools
    ]


def _task(pool: Pool, uris: Document) -> Document:
    """What a pool runs: its image, else its Python package; nothing where it names neither."""
    if pool.get("container-image-uri"):
        return _fields(pool, ["container-image-uri"])
    python = _fields(pool, ["executor-image-uri", "python-module"]).get("pythonPackageSpec", {}) | uris
    is_named = any(python.values()) or "local-package-path" in pool
    return {"pythonPackageSpec": python} if is_named else {}


def _machines(pool: Pool, below: Document | None = None) -> Document:
    """The machines that a whole pool names, over those `below` it; no accelerators without their type."""
    document = laid_over(below or {}, _fields(pool, MACHINE_KEYS))
    machine = document.pop("machineSpec", {})
    if machine.get("acceleratorType"):
        machine = {"acceleratorCount": 1} | machine
    else:
        machine = {name: value for name, value in machine.items() if not name.startswith("accelerator")}
    return ({"machineSpec": machine} if machine else {}) | {"replicaCount": 1} | document


def _fields(pool: Pool, keys: Collection[str]) -> Document:
    """The part of a WorkerPoolSpec that these keys set."""
    layers = (Layer(named(POOL_FLAG), at(POOL_FIELDS[key], pool[key])) for key in keys if key in pool)
    return Fold(layers).document


def changes_document(pools: Sequence[Pool], machines: Document) -> Document:
    """The part of a spec that pools change of a job with these `machines` in its first pool.

    One pool changes the first; several take the place of the pools. Vertex AI wants the primary alone in the
    first.
    """
    if len(pools) == 1:
        return {FIRST_POOL: _fields(pools[0], MACHINE_KEYS)}
    own = {name: value for name, value in machines.items() if name != "replicaCount"}
    return {POOLS: [_machines(pool, own) if pool else {} for pool in pools]}


def check_pools(pools: Sequence[Pool]) -> None:
    """Raise ConfigError for the first of gcloud's rules that the pools break, whatever runs them.

    Source: `gcloud ai custom-jobs create --help`.
    """
    if not pools[0]:
        raise _wrong(0, "may not be empty: it holds the primary replica")
    packaged = "local-package-path" in pools[0]
    for index, pool in enumerate(pools):
        if pool and "machine-type" not in pool:
            raise _wrong(index, "needs machine-type", "Add machine-type=n1-standard-4.")
        _check_accelerator(index, pool)
        if index and "local-package-path" in pool and not packaged:
            raise _wrong(index, "has local-package-path, which belongs into the first pool")
        if packaged and index:
            _check_follower(index, pool)
        elif packaged:
            _check_packaged(index, pool)
        elif pool:
            _check_unpackaged(index, pool)


def _check_accelerator(index: int, pool: Pool) -> None:
    if "accelerator-count" in pool and "accelerator-type" not in pool:
        raise _wrong(index, "has accelerator-count without accelerator-type")
    accelerator = pool.get("accelerator-type")
    if accelerator and accelerator not in ACCELERATORS:
        hint = enum_hint(accelerator, ACCELERATORS)
        raise _wrong(index, f"has an unknown accelerator-type, {accelerator!r}", hint)


def _check_follower(index: int, pool: Pool) -> None:
    named = [key for key in (*_SOFTWARE_KEYS, *EXTRA_KEYS) if key in pool]
    if named:
        raise _wrong(index, f"has {', '.join(named)}, but every pool runs the first pool's local package")


def _check_packaged(index: int, pool: Pool) -> None:
    if "container-image-uri" in pool:
        raise _wrong(
            index,
            "has container-image-uri, and an image of its own does not run a local package",
            "Name the image in which the package runs as executor-image-uri=IMAGE.",
        )
    if ("python-module" in pool) == ("script" in pool):
        raise _wrong(
            index,
            "needs exactly one of python-module and script beside local-package-path",
            "Add python-module=PACKAGE.MODULE or script=FILE.",
        )
    if pool.get("output-image-uri") == "":
        raise _wrong(index, "has an empty output-image-uri", "Name an image, or leave the key out.")


def _check_unpackaged(index: int, pool: Pool) -> None:
    images = [key for key in ("executor-image-uri", "container-image-uri") if key in pool]
    if len(images) > 1 or (not images and "python-module" not in pool):
        raise no_image(index)
    if "container-image-uri" in pool and "python-module" in pool:
        raise _wrong(index, "has python-module, which a container image does not take")
    if "container-image-uri" not in pool and "python-module" not in pool:
        raise _wrong(index, "needs python-module beside executor-image-uri")
    extra = [key for key in ("script", *EXTRA_KEYS) if key in pool]
    if extra:
        raise _wrong(index, f"has {', '.join(extra)}, which go with local-package-path only")


def _wrong(index: int, what: str, hint: str = "") -> ConfigError:
    return ConfigError(f"{POOL_FLAG}: pool {index} {what}.", hint=hint)
