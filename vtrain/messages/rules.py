"""What the API demands of a job beyond the types of its fields.

Sources: `custom_job.proto`, `env_var.proto`, `machine_resources.proto` and the limits of the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vtrain.errors import ConfigError
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJob,
    DiskSpec,
    EnvVar,
    MachineSpec,
    PythonPackageSpec,
    WorkerPoolSpec,
)
from vtrain.messages.formats import check_formats

MAX_POOLS = 4
MAX_ENV = 100
MAX_PACKAGES = 100
MAX_DISPLAY_NAME = 128
MAX_LABELS = 64
DISK_GB = range(100, 64001)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r"[\w-]{0,63}")


def check_job(job: CustomJob, *, executor_required: bool) -> None:
    """Raise ConfigError, with the field's path, for the first rule that the job breaks.

    `executor_required` is false on local backends, where a Python package runs without an image.
    """
    if not job.display_name:
        raise ConfigError(
            "displayName: a job needs a name to be shown under.", hint="Give --display-name=NAME."
        )
    if len(job.display_name) > MAX_DISPLAY_NAME:
        raise ConfigError(
            f"displayName: at most {MAX_DISPLAY_NAME} characters, found {len(job.display_name)}."
        )
    check_labels(job.labels)
    check_formats(job.job_spec)
    pools = job.job_spec.worker_pool_specs
    if not pools:
        raise ConfigError(
            "workerPoolSpecs: a job needs at least one pool.", hint="Give --worker-pool-spec or --config."
        )
    if len(pools) > MAX_POOLS:
        raise ConfigError(f"workerPoolSpecs: at most {MAX_POOLS} pools, found {len(pools)}.")
    check_tasks(pools)
    for index, pool in enumerate(pools):
        if pool != WorkerPoolSpec():
            _check_pool(pool, f"workerPoolSpecs[{index}]", executor_required)
    _check_primary(pools)


def check_labels(labels: dict[str, str]) -> None:
    """Raise ConfigError for labels that the service refuses: 64 of them, 63 characters, lower case."""
    if len(labels) > MAX_LABELS:
        raise ConfigError(f"labels: at most {MAX_LABELS}, found {len(labels)}.")
    for key, value in labels.items():
        good_key = key and key[0].isalpha() and _LABEL.fullmatch(key) and key == key.lower()
        if not good_key or not _LABEL.fullmatch(value) or value != value.lower():
            raise ConfigError(
                f"labels: {key}={value} is not a label.",
                hint="Keys begin with a letter; both hold at most 63 of a-z, 0-9, '_' and '-'.",
            )


def check_tasks(pools: tuple[WorkerPoolSpec, ...]) -> None:
    """Raise ConfigError unless each pool has one task; any but the first may be empty instead."""
    for index, pool in enumerate(pools):
        path = f"workerPoolSpecs[{index}]"
        if pool == WorkerPoolSpec():
            if index == 0:
                raise ConfigError(f"{path}: the first pool holds the primary replica and may not be empty.")
        elif (pool.container_spec is None) == (pool.python_package_spec is None):
            found = "neither containerSpec nor" if pool.task is None else "both containerSpec and"
            raise ConfigError(
                f"{path}: has {found} pythonPackageSpec; exactly one is needed.",
                hint="Name an image or a Python module, or write {} for a pool that is left out.",
            )


def _check_primary(pools: tuple[WorkerPoolSpec, ...]) -> None:
    if pools[0].replica_count > 1 and any(pool.task for pool in pools[1:]):
        raise ConfigError(
            "workerPoolSpecs[0].replicaCount: beside other pools the first has 1 replica, "
            f"found {pools[0].replica_count}.",
            hint="The first pool is the primary replica alone; put the others into the second pool.",
        )


def _check_pool(pool: WorkerPoolSpec, path: str, executor_required: bool) -> None:
    if pool.replica_count < 0:
        raise ConfigError(f"{path}.replicaCount: expected 1 or more, found {pool.replica_count}.")
    if pool.container_spec is not None:
        _check_container(pool.container_spec, f"{path}.containerSpec")
    if pool.python_package_spec is not None:
        _check_python(pool.python_package_spec, f"{path}.pythonPackageSpec", executor_required)
    _check_machine(pool.machine_spec, f"{path}.machineSpec")
    _check_disk(pool.disk_spec, f"{path}.diskSpec")


def _check_container(spec: ContainerSpec, path: str) -> None:
    if not spec.image_uri:
        raise ConfigError(f"{path}.imageUri: is required.")
    _check_env(spec.env, path)


def _check_python(spec: PythonPackageSpec, path: str, executor_required: bool) -> None:
    if not spec.python_module:
        raise ConfigError(
            f"{path}.pythonModule: is required.", hint="Name the module to run, such as trainer.task."
        )
    if executor_required and not spec.executor_image_uri:
        raise ConfigError(f"{path}.executorImageUri: is required.")
    if len(spec.package_uris) > MAX_PACKAGES:
        raise ConfigError(f"{path}.packageUris: at most {MAX_PACKAGES}, found {len(spec.package_uris)}.")
    _check_env(spec.env, path)


def _check_env(env: tuple[EnvVar, ...], path: str) -> None:
    if len(env) > MAX_ENV:
        raise ConfigError(f"{path}.env: at most {MAX_ENV} variables, found {len(env)}.")
    names = [variable.name for variable in env]
    for index, name in enumerate(names):
        if not _ENV_NAME.fullmatch(name):
            raise ConfigError(f"{path}.env[{index}].name: {name!r} is not the name of a variable.")
        if name in names[:index]:
            raise ConfigError(f"{path}.env[{index}].name: {name} is there twice; names must be unique.")


def _check_machine(machine: MachineSpec | None, path: str) -> None:
    if machine is None:
        return
    none = ("", "ACCELERATOR_TYPE_UNSPECIFIED")
    if (machine.accelerator_type in none) != (machine.accelerator_count == 0):
        raise ConfigError(
            f"{path}: acceleratorType and acceleratorCount go together; one of them is missing."
        )


def _check_disk(disk: DiskSpec | None, path: str) -> None:
    if disk is not None and disk.boot_disk_size_gb and disk.boot_disk_size_gb not in DISK_GB:
        raise ConfigError(f"{path}.bootDiskSizeGb: expected 100 to 64000, found {disk.boot_disk_size_gb}.")


def non_empty_pools(job: CustomJob) -> Iterator[tuple[int, WorkerPoolSpec]]:
    """The pools that run something, with their positions."""
    return ((i, pool) for i, pool in enumerate(job.job_spec.worker_pool_specs) if pool.task is not None)
