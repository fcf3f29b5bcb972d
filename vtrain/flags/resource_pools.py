"""`--resource-pool-spec` and the pools of a file: their rules, and the ResourcePools that come of them.

The rules are gcloud's (`gcloud ai persistent-resources create --help`); the messages name the pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vtrain.errors import ConfigError
from vtrain.flags.grammar import split_dict, whole_number
from vtrain.flags.pools import ACCELERATORS
from vtrain.messages.nearest import did_you_mean
from vtrain.messages.persistent_resource import ResourcePool

FLAG = "--resource-pool-spec"
_NUMBERS = (
    "replica-count",
    "min-replica-count",
    "max-replica-count",
    "accelerator-count",
    "disk-size",
    "local-ssd-count",
)
KEYS = frozenset((*_NUMBERS, "machine-type", "accelerator-type", "disk-type"))
_PAIRS = (("min-replica-count", "max-replica-count"), ("accelerator-type", "accelerator-count"))
GPUS = frozenset(name for name in ACCELERATORS if name.startswith("NVIDIA_"))


def parse_resource_pools(values: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """The pools of repeated flags, numbers as such. Raises UsageError where one does not parse."""
    return tuple(_with_numbers(split_dict(value, FLAG, KEYS)) for value in values)


def _with_numbers(pool: dict[str, str]) -> dict[str, Any]:
    numbers = {key: whole_number(pool[key], f"{FLAG}: {key}") for key in _NUMBERS if key in pool}
    return pool | numbers


def check_flag_pools(pools: Sequence[Mapping[str, Any]]) -> None:
    """Raise ConfigError for the first rule that a pool of the command line breaks."""
    for index, pool in enumerate(pools):
        where = f"{FLAG}: pool {index}"
        if not pool:
            raise ConfigError(f"{where} is empty.", hint="Give machine-type=n1-standard-4,replica-count=1.")
        if "machine-type" not in pool:
            raise ConfigError(f"{where} needs machine-type.", hint="Add machine-type=n1-standard-4.")
        for pair in _PAIRS:
            _check_pair(where, pool, pair)
        if "replica-count" not in pool and "min-replica-count" not in pool:
            raise ConfigError(
                f"{where} needs replica-count.", hint="Or min-replica-count and max-replica-count."
            )
        _check_gpu(f"{where}: accelerator-type", pool.get("accelerator-type", ""))


def _check_pair(where: str, pool: Mapping[str, Any], pair: tuple[str, str]) -> None:
    given = [key for key in pair if key in pool]
    if len(given) == 1:
        missing = pair[1 - pair.index(given[0])]
        raise ConfigError(f"{where} has {given[0]} without {missing}.")


def check_file_pools(pools: Sequence[ResourcePool]) -> None:
    """Raise ConfigError, with the field's path, for the first rule that a pool of the file breaks."""
    if not pools:
        raise ConfigError("resourcePools: a persistent resource needs at least one pool.")
    for index, pool in enumerate(pools):
        _check_file_pool(f"resourcePools[{index}]", pool)


def _check_file_pool(path: str, pool: ResourcePool) -> None:
    scaling, machine, disk = pool.autoscaling_spec, pool.machine_spec, pool.disk_spec
    if machine is None or not machine.machine_type:
        raise ConfigError(f"{path}.machineSpec.machineType: is required.")
    if not pool.replica_count and scaling is None:
        raise ConfigError(f"{path}.replicaCount: is required.", hint="Or autoscalingSpec with both counts.")
    if scaling is not None and not (scaling.min_replica_count and scaling.max_replica_count):
        raise ConfigError(f"{path}.autoscalingSpec: minReplicaCount and maxReplicaCount go together.")
    if machine.accelerator_count and not machine.accelerator_type:
        raise ConfigError(f"{path}.machineSpec: has acceleratorCount without acceleratorType.")
    if disk is not None and disk.boot_disk_size_gb and not disk.boot_disk_type:
        raise ConfigError(f"{path}.diskSpec: has bootDiskSizeGb without bootDiskType.")
    _check_gpu(f"{path}.machineSpec.acceleratorType", machine.accelerator_type)


def _check_gpu(path: str, name: str) -> None:
    """An empty name is none at all."""
    if not name or name in GPUS:
        return
    every = f"There are {', '.join(sorted(GPUS))}."
    hint = did_you_mean(name.upper().replace("-", "_"), GPUS, otherwise=every)
    raise ConfigError(f"{path}: a persistent resource takes no {name!r}.", hint=hint)


def resource_pool_document(pool: Mapping[str, Any]) -> dict[str, Any]:
    """The ResourcePool of a pool of the command line as JSON holds it; a count of 0 is left out."""
    machine: dict[str, Any] = {"machineType": pool["machine-type"]}
    if pool.get("accelerator-type"):
        machine["acceleratorType"] = pool["accelerator-type"]
        machine["acceleratorCount"] = pool["accelerator-count"]
    document: dict[str, Any] = {"machineSpec": machine}
    if pool.get("replica-count"):
        document["replicaCount"] = pool["replica-count"]
    if pool.get("min-replica-count") or pool.get("max-replica-count"):
        document["autoscalingSpec"] = {
            "minReplicaCount": pool["min-replica-count"],
            "maxReplicaCount": pool["max-replica-count"],
        }
    if pool.get("disk-type"):
        size = {"bootDiskSizeGb": pool["disk-size"]} if "disk-size" in pool else {}
        document["diskSpec"] = {"bootDiskType": pool["disk-type"], **size}
    return document


def unused_keys(pools: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """A sentence for each key that has no effect."""
    found = []
    for index, pool in enumerate(pools):
        if "disk-size" in pool and not pool.get("disk-type"):
            found.append(f"{FLAG}: pool {index} has disk-size without disk-type, and it is left out.")
        if "local-ssd-count" in pool:
            found.append(f"{FLAG}: pool {index} has local-ssd-count, which the API does not have.")
    return tuple(found)
