"""Worker pools in the words of `--worker-pool-spec`: gcloud's rules for them, and the messages they make.

The rules are gcloud's (`gcloud ai custom-jobs create --help`); the messages name the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vtrain.core.job_layers import FIRST_POOL, POOLS
from vtrain.errors import ConfigError, FieldError
from vtrain.messages.rules import ACCELERATORS, enum_hint

FLAG = "--worker-pool-spec"
SOFTWARE_KEYS = ("executor-image-uri", "container-image-uri", "python-module", "script")
EXTRA_KEYS = ("requirements", "extra-packages", "extra-dirs")
MACHINE_KEYS = ("machine-type", "replica-count", "accelerator-type", "accelerator-count")
NAMING_KEYS = ("container-image-uri", "python-module", "script", "local-package-path")
"""Keys that name what to run; the others say in what, and on which machines."""
COUNTS = ("replica-count", "accelerator-count")
KEYS = frozenset(
    (*MACHINE_KEYS, *SOFTWARE_KEYS, *EXTRA_KEYS, "local-package-path", "output-image-uri"),
)
_HARDWARE = {
    "machine-type": "machineType",
    "accelerator-type": "acceleratorType",
    "accelerator-count": "acceleratorCount",
}
Pool = dict[str, Any]
"""One pool by these keys: `COUNTS` are numbers, `EXTRA_KEYS` tuples of texts, the others texts."""
Pools = tuple[Pool, ...]


def check_pools(pools: Sequence[Pool]) -> None:
    """Raise ConfigError for the first of gcloud's rules that the pools break, whatever runs them."""
    if not pools[0]:
        raise _wrong(0, "may not be empty: it holds the primary replica")
    packaged = "local-package-path" in pools[0]
    for index, pool in enumerate(pools):
        if pool:
            _check_machine(index, pool)
        if index and "local-package-path" in pool and not packaged:
            raise _wrong(index, "has local-package-path, which belongs into the first pool")
        if packaged and index:
            _check_follower(index, pool)
        elif packaged:
            _check_packaged(index, pool)
        elif pool:
            _check_unpackaged(index, pool)


def check_executors(pools: Sequence[dict[str, Any]], *, packaged: bool) -> None:
    """Raise ConfigError for the first pool of a line that names no image, which a service needs."""
    for index, pool in enumerate(pools):
        if "pythonPackageSpec" not in pool or "executorImageUri" in pool["pythonPackageSpec"]:
            continue
        if not packaged:
            raise _no_image(index)
        what, hint = (
            "needs executor-image-uri beside local-package-path",
            "the image that the package runs in.",
        )
        raise _wrong(index, what, f"Add executor-image-uri=IMAGE, {hint}")


def _no_image(index: int) -> ConfigError:
    return _wrong(
        index,
        "needs exactly one of executor-image-uri and container-image-uri",
        "Add container-image-uri=IMAGE; or, to run a Python package,\n"
        "executor-image-uri=IMAGE,python-module=PACKAGE.MODULE.",
    )


def _check_machine(index: int, pool: Pool) -> None:
    if "machine-type" not in pool:
        raise _wrong(index, "needs machine-type", "Add machine-type=n1-standard-4.")
    _check_accelerator(index, pool)


def _check_accelerator(index: int, pool: Pool) -> None:
    if "accelerator-count" in pool and "accelerator-type" not in pool:
        raise _wrong(index, "has accelerator-count without accelerator-type")
    accelerator = pool.get("accelerator-type")
    if accelerator and accelerator not in ACCELERATORS:
        hint = enum_hint(accelerator, ACCELERATORS)
        raise _wrong(index, f"has an unknown accelerator-type, {accelerator!r}", hint)


def _check_follower(index: int, pool: Pool) -> None:
    named = [key for key in (*SOFTWARE_KEYS, *EXTRA_KEYS) if key in pool]
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
        raise _no_image(index)
    if "container-image-uri" in pool and "python-module" in pool:
        raise _wrong(index, "has python-module, which a container image does not take")
    if "container-image-uri" not in pool and "python-module" not in pool:
        raise _wrong(index, "needs python-module beside executor-image-uri")
    extra = [key for key in ("script", *EXTRA_KEYS) if key in pool]
    if extra:
        raise _wrong(index, f"has {', '.join(extra)}, which go with local-package-path only")


def check_changes(pools: Sequence[Pool], accelerator: str) -> None:
    """Raise ConfigError for pools that cannot be laid over a job with this accelerator, if it has one."""
    for index, pool in enumerate(pools):
        if index:
            _check_follower(index, pool)
        _check_accelerator(index, {"accelerator-type": accelerator} | pool if accelerator else pool)


def check_config_pools(pools: Sequence[dict[str, Any]]) -> None:
    """Raise ConfigError for a pool of a file that does not run one thing, an image or a Python package."""
    for index, pool in enumerate(pools):
        container = pool.get("containerSpec", {}).get("imageUri")
        python = pool.get("pythonPackageSpec", {})
        if bool(container) == bool(python.get("executorImageUri") or python.get("pythonModule")):
            raise FieldError(
                f"workerPoolSpecs[{index}]",
                "runs an image or a Python package, exactly one of them.",
                hint="An empty pool that keeps its place is said with --worker-pool-spec= alone.",
            )


def pools_document(pools: Sequence[Pool], package_uris: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The WorkerPoolSpecs of pools that name what to run. Each runs the package of the first, if it has one.

    An empty pool keeps its place. gcloud checks no range: the backend's plan does.
    """
    packaged = "local-package-path" in pools[0]
    software = pools[0] if packaged else {}
    return [
        machine_document({"machine-type": ""} | pool)
        | _task_document(software or pool, () if packaged else package_uris, packaged=packaged)
        if pool
        else {}
        for pool in pools
    ]


def _task_document(pool: Pool, package_uris: Sequence[str], *, packaged: bool) -> dict[str, Any]:
    if not packaged and pool.get("container-image-uri"):
        return {"containerSpec": {"imageUri": pool["container-image-uri"]}}
    if not packaged and not any((package_uris, pool.get("executor-image-uri"), pool.get("python-module"))):
        return {}
    keys = {"executor-image-uri": "executorImageUri", "python-module": "pythonModule"}
    python = {name: pool[key] for key, name in keys.items() if key in pool}
    return {"pythonPackageSpec": python | ({"packageUris": list(package_uris)} if package_uris else {})}


def machine_document(pool: Pool) -> dict[str, Any]:
    """The part of a WorkerPoolSpec that tells the machines, as far as a whole pool names them."""
    machine: dict[str, Any] = {"machineType": pool["machine-type"]} if "machine-type" in pool else {}
    if pool.get("accelerator-type"):
        machine["acceleratorType"] = pool["accelerator-type"]
        machine["acceleratorCount"] = pool.get("accelerator-count", 1)
    return ({"machineSpec": machine} if machine else {}) | {"replicaCount": pool.get("replica-count", 1)}


def changes_document(pools: Sequence[Pool], own: Pool, disk: dict[str, Any]) -> dict[str, Any]:
    """The part of a spec that pools change of a job's machines, whose `own` keys are given in their words.

    One pool changes the first; several take the place of the pools. Vertex AI wants the primary alone in the
    first.
    """
    if len(pools) == 1:
        hardware = {name: pools[0][key] for key, name in _HARDWARE.items() if key in pools[0]}
        count = {"replicaCount": pools[0]["replica-count"]} if "replica-count" in pools[0] else {}
        return {FIRST_POOL: ({"machineSpec": hardware} if hardware else {}) | count}
    return {POOLS: [machine_document(own | pool) | disk if pool else {} for pool in pools]}


def _wrong(index: int, what: str, hint: str = "") -> ConfigError:
    return ConfigError(f"{FLAG}: pool {index} {what}.", hint=hint)
