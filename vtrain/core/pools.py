"""Worker pools in the words of `--worker-pool-spec`: gcloud's rules for them, and the messages they make.

The rules are gcloud's (`gcloud ai custom-jobs create --help`); the messages name the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vtrain.errors import ConfigError, FieldError
from vtrain.messages.rules import ACCELERATORS, enum_hint

if TYPE_CHECKING:
    from vtrain.pyproject import ProjectJob

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
Pool = dict[str, Any]
"""One pool by these keys: `COUNTS` are numbers, `EXTRA_KEYS` tuples of texts, the others texts."""
Pools = tuple[Pool, ...]


def check_pools(pools: Sequence[Pool], *, executor_required: bool) -> None:
    """Raise ConfigError for the first of gcloud's rules that the pools break."""
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
            _check_packaged(index, pool, executor_required)
        elif pool:
            _check_unpackaged(index, pool, executor_required)


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


def _check_packaged(index: int, pool: Pool, executor_required: bool) -> None:
    if executor_required and "executor-image-uri" not in pool:
        raise _wrong(
            index,
            "needs executor-image-uri beside local-package-path",
            "Add executor-image-uri=IMAGE, the image that the package runs in.",
        )
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


def _check_unpackaged(index: int, pool: Pool, executor_required: bool) -> None:
    images = [key for key in ("executor-image-uri", "container-image-uri") if key in pool]
    if len(images) > 1 or (not images and (executor_required or "python-module" not in pool)):
        raise _wrong(
            index,
            "needs exactly one of executor-image-uri and container-image-uri",
            "Add container-image-uri=IMAGE; or, to run a Python package,\n"
            "executor-image-uri=IMAGE,python-module=PACKAGE.MODULE.",
        )
    if "container-image-uri" in pool and "python-module" in pool:
        raise _wrong(index, "has python-module, which a container image does not take")
    if "container-image-uri" not in pool and "python-module" not in pool:
        raise _wrong(index, "needs python-module beside executor-image-uri")
    extra = [key for key in ("script", *EXTRA_KEYS) if key in pool]
    if extra:
        raise _wrong(index, f"has {', '.join(extra)}, which go with local-package-path only")


def check_changes(given: Sequence[Pool], changed: Sequence[Pool]) -> None:
    """Raise ConfigError for pools that cannot be laid over a saved job, or that make a bad job of it."""
    for index, pool in enumerate(given[1:], start=1):
        _check_follower(index, pool)
    for index, pool in enumerate(changed):
        _check_accelerator(index, pool)


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


def pool_document(pool: Pool, package_uris: Sequence[str], *, packaged: bool) -> dict[str, Any]:
    """The WorkerPoolSpec of one pool as JSON holds it; an empty pool is an empty message."""
    if not pool:
        return {}
    document = {"machineSpec": {"machineType": ""}} | machine_document(pool)
    if not packaged and pool.get("container-image-uri"):
        return document | {"containerSpec": {"imageUri": pool["container-image-uri"]}}
    if not packaged and not any((package_uris, pool.get("executor-image-uri"), pool.get("python-module"))):
        return document
    python = {
        "executorImageUri": pool.get("executor-image-uri", ""),
        "pythonModule": pool.get("python-module", ""),
    }
    return document | {
        "pythonPackageSpec": python | ({"packageUris": list(package_uris)} if package_uris else {})
    }


def machine_document(pool: Pool) -> dict[str, Any]:
    """The part of a WorkerPoolSpec that tells the machines; an empty pool is an empty message."""
    if not pool:
        return {}
    machine: dict[str, Any] = {"machineType": pool["machine-type"]} if pool.get("machine-type") else {}
    if pool.get("accelerator-type"):
        machine["acceleratorType"] = pool["accelerator-type"]
        machine["acceleratorCount"] = pool.get("accelerator-count", 1)
    # gcloud checks no range: the backend's plan does
    return ({"machineSpec": machine} if machine else {}) | {"replicaCount": pool.get("replica-count", 1)}


def container_pools(job: ProjectJob, given: Pools = ()) -> Pools:
    """The pools of a job that is a container; none where a trainer or a file is named."""
    if job.path or job.module or job.script or job.config:
        return ()
    image = {"container-image-uri": job.image}
    return tuple({"machine-type": "", **pool, **image} if pool else {} for pool in machine_pools(job, given))


def trainer_pools(job: ProjectJob, given: Pools = ()) -> tuple[dict[str, Any], ...]:
    """The pools that run the trainer, where no file describes them."""
    return tuple(machine_document(pool) for pool in machine_pools(job, given))


def machine_pools(job: ProjectJob, given: Pools) -> Pools:
    """The machines of a job, in the words of --worker-pool-spec.

    One pool that is `given` counts more than the job's keys, and several in place of its pools. Vertex AI
    wants the primary alone in the first.
    """
    own: Pool = {"machine-type": job.machine_type} if job.machine_type else {}
    if job.accelerator_type:
        own |= {"accelerator-type": job.accelerator_type}
        own |= {"accelerator-count": job.accelerator_count or 1}
    changed = tuple(
        own | {key: pool[key] for key in MACHINE_KEYS if key in pool} if pool else {} for pool in given
    )
    if len(given) > 1:
        return changed
    machine = (changed and changed[0]) or own
    count = machine.get("replica-count", job.replica_count)
    sizes = (1, count - 1) if count > 1 else (count,)
    return tuple(machine | {"replica-count": size} for size in sizes)


def _wrong(index: int, what: str, hint: str = "") -> ConfigError:
    return ConfigError(f"{FLAG}: pool {index} {what}.", hint=hint)
