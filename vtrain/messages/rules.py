"""Rules of the API for jobs and persistent resources, beyond the types of their fields.

A local backend refuses a job that breaks one, and Vertex AI answers for itself.
Sources: `custom_job.proto`, `env_var.proto`, `machine_resources.proto` and the limits of the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.errors import FieldError
from vtrain.messages.codec import fields, walk
from vtrain.messages.custom_job import (
    NO_ACCELERATOR,
    ContainerSpec,
    CustomJob,
    CustomJobSpec,
    EnvVar,
    MachineSpec,
    PythonPackageSpec,
    WorkerPoolSpec,
)
from vtrain.messages.nearest import did_you_mean
from vtrain.messages.structs import MOST_SECONDS

if TYPE_CHECKING:
    from vtrain.messages.persistent_resource import ResourcePool

MAX_POOLS = 4
MAX_ENV = 100
MAX_PACKAGES = 100
MAX_ARGS = 100_000
"""Characters of a container's arguments. Source: Google's page on creating training pipelines."""
MAX_DISPLAY_NAME = 128
MAX_LABELS = 64
DISK_GB = range(100, 64001)
ACCELERATORS = frozenset(fields(MachineSpec)["acceleratorType"].enum.values()).difference(NO_ACCELERATOR)
"""Accelerators that a pool can be given. Source: `accelerator_type.proto`."""
_RESOURCE_ACCELERATORS = frozenset(name for name in ACCELERATORS if name.startswith("NVIDIA_"))
"""Accelerators of a persistent resource. Source: gcloud's `--resource-pool-spec`."""
ACCOUNT_HINT = "Give its e-mail or its number."
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The name of a variable: a C identifier. Source: `env_var.proto`."""
_LONGEST_LABEL = 63
_RESERVED = ("ANY_RESERVATION", "SPECIFIC_RESERVATION")
_LONGEST_FLEXIBLE = 7 * 24 * 3600
_INFLEXIBLE = tuple(f"NVIDIA_TESLA_{name}" for name in ("K80", "P100", "V100", "P4", "T4"))
"""The GPUs that `FLEX_START` does not wait for."""
_DURATION = re.compile(r"-?[0-9]+(\.[0-9]{1,9})?s")
_ENUM_NAME = re.compile(r"[A-Z][A-Z0-9_]*|[0-9]+|")
_LIMITS = {"int32": 2**31, "int64": 2**63}


def check_job(job: CustomJob, *, executor_required: bool) -> None:
    """Raise ConfigError, with the field's path, for the first rule that the job breaks.

    `executor_required` is false on local backends, which run a Python package without an image.
    """
    check_display_name(job.display_name, "job")
    check_labels(job.labels)
    check_formats(job.job_spec)
    pools = job.job_spec.worker_pool_specs
    if not pools:
        raise FieldError(
            "workerPoolSpecs", "a job needs at least one pool.", hint="Give --worker-pool-spec or --config."
        )
    if len(pools) > MAX_POOLS:
        raise FieldError("workerPoolSpecs", f"at most {MAX_POOLS} pools, found {len(pools)}.")
    check_tasks(pools)
    for index, pool in enumerate(pools):
        if pool != WorkerPoolSpec():
            _check_pool(pool, f"workerPoolSpecs[{index}]", executor_required)
    if pools[0].replica_count > 1 and any(pool.task for pool in pools[1:]):
        raise FieldError(
            "workerPoolSpecs[0].replicaCount",
            f"beside other pools the first has 1 replica, found {pools[0].replica_count}.",
            hint="The first pool is the primary replica alone; put the others into the second pool.",
        )
    check_account_of_board(job.job_spec)
    _check_reservations(job.job_spec)
    if _is_flexible(job.job_spec):
        _check_flexible_start(job.job_spec)


def check_display_name(name: str, kind: str) -> None:
    """Raise ConfigError for a job or a pipeline without a name, or with too long a one."""
    if not name:
        hint = "Give --display-name=NAME."
        raise FieldError("displayName", f"a {kind} needs a name to be shown under.", hint=hint)
    if len(name) > MAX_DISPLAY_NAME:
        raise FieldError("displayName", f"at most {MAX_DISPLAY_NAME} characters, found {len(name)}.")


def check_account_of_board(spec: CustomJobSpec) -> None:
    """Raise ConfigError for a TensorBoard without an account of the job's own, which uploads to it."""
    if spec.tensorboard and not spec.service_account:
        raise FieldError(
            "serviceAccount",
            "must be specified when uploading to TensorBoard.",
            hint="Give --service-account=ACCOUNT, or leave tensorboard out.",
        )


def _check_reservations(spec: CustomJobSpec) -> None:
    """Raise ConfigError for a reservation that no machine of the job could be taken from."""
    for index, pool in enumerate(spec.worker_pool_specs):
        affinity = pool.machine_spec.reservation_affinity if pool.machine_spec is not None else None
        if affinity is None or affinity.reservation_affinity_type not in _RESERVED:
            continue
        path = f"workerPoolSpecs[{index}].machineSpec.reservationAffinity"
        named = bool(affinity.key and affinity.values)
        if affinity.reservation_affinity_type == "SPECIFIC_RESERVATION" and not named:
            raise FieldError(path, "SPECIFIC_RESERVATION needs key and values, which name the reservation.")
        if spec.persistent_resource_id or _is_flexible(spec):
            other = "a persistent resource" if spec.persistent_resource_id else "FLEX_START"
            raise FieldError(path, f"a reservation does not go with {other}.")


def _is_flexible(spec: CustomJobSpec) -> bool:
    return spec.scheduling is not None and spec.scheduling.strategy == "FLEX_START"


def _check_flexible_start(spec: CustomJobSpec) -> None:
    """Raise ConfigError for what Dynamic Workload Scheduler does not start. Source: its page."""
    assert spec.scheduling is not None
    if spec.persistent_resource_id:
        raise FieldError("scheduling.strategy", "FLEX_START does not go with a persistent resource.")
    if spec.scheduling.timeout and float(spec.scheduling.timeout[:-1]) > _LONGEST_FLEXIBLE:
        raise FieldError("scheduling.timeout", "with FLEX_START it is 604800s (7 days) at most.")
    pools = [(index, pool) for index, pool in enumerate(spec.worker_pool_specs) if pool.task is not None]
    for index, pool in pools:
        path = f"workerPoolSpecs[{index}].machineSpec"
        machine = pool.machine_spec or MachineSpec()
        accelerator, kind = machine.accelerator_type, machine.machine_type
        if accelerator in (*NO_ACCELERATOR, *_INFLEXIBLE) and not kind.startswith(("ct", "tpu")):
            found = accelerator or "none"
            raise FieldError(
                "scheduling.strategy" if accelerator in NO_ACCELERATOR else path,
                f"FLEX_START is for L4, A100 and newer GPUs, found {found}.",
                hint="L4 is --gpus=L4 on a command line, and acceleratorType NVIDIA_L4 in a file.",
            )
        if pool.machine_spec != pools[0][1].machine_spec:
            raise FieldError(path, "with FLEX_START all pools have the same machine.")


def is_account(text: str) -> bool:
    """Whether a text names a service account: an e-mail, as gcloud's `.+@.+\\..+` takes it, or a number."""
    at = text.find("@", 1)  # said so that a long text is read once
    is_email = at > 0 and text.find(".", at + 2, len(text) - 1) > 0 and "\n" not in text
    return is_email or re.fullmatch(r"[0-9]+", text) is not None


def check_labels(labels: dict[str, str]) -> None:
    """Raise ConfigError for labels that gcloud or the service refuses."""
    if len(labels) > MAX_LABELS:
        raise FieldError("labels", f"at most {MAX_LABELS}, found {len(labels)}.")
    for key, value in labels.items():
        if not (key and _is_small(key[0]) and _fits_label(key) and _fits_label(value)):
            raise FieldError(
                "labels",
                f"{key}={value} is not a label.",
                hint="Keys begin with a letter; both hold at most 63 of a-z, 0-9, '_' and '-'.",
            )


def _is_small(letter: str) -> bool:
    """Whether a letter is in lower case, or of a script without cases (gcloud's `labels_util`)."""
    return letter.isalpha() and not letter.isupper()


def _fits_label(text: str) -> bool:
    return len(text) <= _LONGEST_LABEL and all(
        letter in "_-" or letter.isdigit() or _is_small(letter) for letter in text
    )


def check_tasks(pools: tuple[WorkerPoolSpec, ...]) -> None:
    """Raise ConfigError unless each pool has one task; all but the first may be empty instead."""
    for index, pool in enumerate(pools):
        path = f"workerPoolSpecs[{index}]"
        if pool == WorkerPoolSpec():
            if index == 0:
                raise FieldError(path, "the first pool holds the primary replica and may not be empty.")
        elif (pool.container_spec is None) == (pool.python_package_spec is None):
            found = "neither containerSpec nor" if pool.task is None else "both containerSpec and"
            raise FieldError(
                path,
                f"has {found} pythonPackageSpec; exactly one is needed.",
                hint="Name an image or a Python module, or write {} for a pool that is left out.",
            )


def _check_pool(pool: WorkerPoolSpec, path: str, executor_required: bool) -> None:
    if pool.replica_count < 0:
        raise FieldError(f"{path}.replicaCount", f"expected 1 or more, found {pool.replica_count}.")
    if pool.container_spec is not None:
        _check_container(pool.container_spec, f"{path}.containerSpec")
    if pool.python_package_spec is not None:
        _check_python(pool.python_package_spec, f"{path}.pythonPackageSpec", executor_required)
    _check_machine(pool.machine_spec, f"{path}.machineSpec")
    size = pool.disk_spec.boot_disk_size_gb if pool.disk_spec is not None else 0
    if size and size not in DISK_GB:
        raise FieldError(f"{path}.diskSpec.bootDiskSizeGb", f"expected 100 to 64000, found {size}.")


def _check_container(spec: ContainerSpec, path: str) -> None:
    if not spec.image_uri:
        raise FieldError(f"{path}.imageUri", "is required.")
    length = sum(map(len, spec.args))
    if length > MAX_ARGS:
        raise FieldError(
            f"{path}.args",
            f"at most {MAX_ARGS:,} characters in all, found {length:,}.",
            hint="Put them into a file in a bucket, and pass its name.",
        )
    _check_env(spec.env, path)


def _check_python(spec: PythonPackageSpec, path: str, executor_required: bool) -> None:
    if not spec.python_module:
        raise FieldError(
            f"{path}.pythonModule", "is required.", hint="Name the module to run, such as trainer.task."
        )
    if executor_required and not spec.executor_image_uri:
        raise FieldError(f"{path}.executorImageUri", "is required.")
    if len(spec.package_uris) > MAX_PACKAGES:
        raise FieldError(f"{path}.packageUris", f"at most {MAX_PACKAGES}, found {len(spec.package_uris)}.")
    _check_env(spec.env, path)


def _check_env(env: tuple[EnvVar, ...], path: str) -> None:
    if len(env) > MAX_ENV:
        raise FieldError(f"{path}.env", f"at most {MAX_ENV} variables, found {len(env)}.")
    names = [variable.name for variable in env]
    for index, name in enumerate(names):
        if not ENV_NAME.fullmatch(name):
            raise FieldError(f"{path}.env[{index}].name", f"{name!r} is not the name of a variable.")
        if name in names[:index]:
            raise FieldError(f"{path}.env[{index}].name", f"{name} is there twice; names must be unique.")


def _check_machine(machine: MachineSpec | None, path: str) -> None:
    if machine is None:
        return
    if (machine.accelerator_type in NO_ACCELERATOR) != (machine.accelerator_count == 0):
        raise FieldError(path, "acceleratorType and acceleratorCount go together; one of them is missing.")


def non_empty_pools(job: CustomJob) -> Iterator[tuple[int, WorkerPoolSpec]]:
    """The pools with a task, with their positions."""
    return ((i, pool) for i, pool in enumerate(job.job_spec.worker_pool_specs) if pool.task is not None)


def check_formats(message: msgspec.Struct, path: str = "") -> None:
    """Raise ConfigError, with the field's path, for the first value that its field cannot hold."""
    for place, field, value in walk(message, path):
        if expected := _mismatch(field.kind, value):
            raise FieldError(place, f"expected {expected}, found {value!r}.")


def _mismatch(kind: str, value: Any) -> str:
    """A description of the values that the field can hold; empty where the value fits."""
    if kind == "duration" and not _DURATION.fullmatch(value):
        return 'a duration in seconds such as "3600s"'
    if kind == "duration" and abs(float(value[:-1])) > MOST_SECONDS:
        return "a duration of at most 10,000 years"
    if kind == "enum" and not _ENUM_NAME.fullmatch(value):
        return "a name in capitals, such as NVIDIA_TESLA_T4 or SPOT"
    if kind in _LIMITS and not -_LIMITS[kind] <= value < _LIMITS[kind]:
        return "a whole number of 32 bits" if kind == "int32" else "a whole number of 64 bits"
    return ""


def check_enum_names(message: msgspec.Struct, path: str) -> None:
    """Raise ConfigError, with the nearest name, for a name of an enum that the API does not have.

    Messages keep any name, since the service may know more than vtrain. gcloud checks the names in the file
    of a tuning job, and so does vtrain.
    """
    for place, value, names in unknown_names(message, path):
        raise FieldError(place, f"the API has no {value!r}.", hint=enum_hint(value, names))


def unknown_names(message: msgspec.Struct, path: str = "") -> Iterator[tuple[str, str, frozenset[str]]]:
    """The names of enums that the API does not have: where, which, and those that it has."""
    for place, field, value in walk(message, path):
        names = frozenset(field.enum.values())
        if field.kind == "enum" and not field.repeated and names and value not in names:
            yield place, value, names


def enum_hint(value: str, names: frozenset[str]) -> str:
    """A hint for an unknown name of an enum: the nearest name, else all names."""
    every = f"There are {', '.join(sorted(names))}."
    return did_you_mean(value.upper().replace("-", "_"), names, otherwise=every)


def check_resource_pools(pools: Sequence[ResourcePool]) -> None:
    """Raise ConfigError, with the field's path, for the first rule that a resource pool breaks."""
    if not pools:
        raise FieldError("resourcePools", "a persistent resource needs at least one pool.")
    for index, pool in enumerate(pools):
        _check_resource_pool(f"resourcePools[{index}]", pool)


def _check_resource_pool(path: str, pool: ResourcePool) -> None:
    scaling, machine, disk = pool.autoscaling_spec, pool.machine_spec, pool.disk_spec
    if machine is None or not machine.machine_type:
        raise FieldError(f"{path}.machineSpec.machineType", "is required.")
    if not pool.replica_count and scaling is None:
        raise FieldError(f"{path}.replicaCount", "is required.", hint="Or autoscalingSpec with both counts.")
    if scaling is not None and not (scaling.min_replica_count and scaling.max_replica_count):
        raise FieldError(f"{path}.autoscalingSpec", "minReplicaCount and maxReplicaCount go together.")
    count, (least, most) = pool.replica_count or 0, (0, 0)
    if scaling is not None:
        least, most = scaling.min_replica_count or 0, scaling.max_replica_count or 0
    counts = {
        "replicaCount": count,
        "autoscalingSpec.minReplicaCount": least,
        "autoscalingSpec.maxReplicaCount": most,
    }
    for name, given in counts.items():
        if given < 0:
            raise FieldError(f"{path}.{name}", f"expected a positive number, found {given}.")
    if scaling is not None:
        # Source of both rules: ResourcePool.AutoscalingSpec in persistent_resource.proto.
        if least >= most:
            problem = f"minReplicaCount ({least}) must be below maxReplicaCount ({most})."
            raise FieldError(f"{path}.autoscalingSpec", problem)
        if count and not least <= count <= most:
            problem = f"expected a number from {least} to {most}, found {count}."
            raise FieldError(f"{path}.replicaCount", problem)
    check_formats(pool, path)
    if machine.accelerator_count and not machine.accelerator_type:
        raise FieldError(f"{path}.machineSpec", "has acceleratorCount without acceleratorType.")
    if disk is not None and disk.boot_disk_size_gb and not disk.boot_disk_type:
        raise FieldError(f"{path}.diskSpec", "has bootDiskSizeGb without bootDiskType.")
    check_resource_accelerator(f"{path}.machineSpec.acceleratorType", machine.accelerator_type)


def check_resource_accelerator(path: str, name: str) -> None:
    """Raise ConfigError for an accelerator that no persistent resource has. An empty name is none."""
    if name and name not in _RESOURCE_ACCELERATORS:
        hint = enum_hint(name, _RESOURCE_ACCELERATORS)
        raise FieldError(path, f"a persistent resource takes no {name!r}.", hint=hint)
