"""The images, packages and programs that unfinished jobs use."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from vtrain.errors import ConfigError, DamagedError
from vtrain.messages.names import CUSTOM_JOBS, parse_name
from vtrain.messages.resources import JOBS
from vtrain.rooted import Root
from vtrain.runtime.database import has_store
from vtrain.runtime.folder import DamagedFileError, JobFolder, require_struct
from vtrain.runtime.gc.candidate import last_change
from vtrain.runtime.history import stored_job
from vtrain.runtime.home import Home
from vtrain.runtime.store import Record, Store
from vtrain.staging import LocalBuckets
from vtrain.times import epoch, from_epoch


class LivingJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of a home that have not ended, and those of which only the folder is there.

    `images` are those that they name or run, `packages` the folders of theirs, `outputs` the folders they
    write to, `programs` those in which their replicas find commands. `preparing_since` is when the first job
    was submitted that has no orders for its replicas yet: it may need anything that was used since then.
    """

    ids: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()
    packages: frozenset[Path] = frozenset()
    outputs: frozenset[Path] = frozenset()
    programs: frozenset[Path] = frozenset()
    preparing_since: float = float("inf")

    @property
    def is_preparing(self) -> bool:
        """Whether there is a job whose replicas are not ordered yet."""
        return self.preparing_since != float("inf")


class _Unended(msgspec.Struct, frozen=True):
    """A job that may use something. `has_replicas`: it runs some itself."""

    folder: Path
    document: dict[str, Any]
    submitted: float
    has_replicas: bool


def living_jobs(home: Path) -> LivingJobs:
    """The jobs of a home as they stand now. Look for what may go first: a job may come at any time."""
    lost = (folder for folder in folders_without_row(home) if (folder / "spec.json").exists())
    jobs = [*_stored(home), *map(_without_row, lost)]
    orders = [order for job in jobs for order in _orders(job.folder)]
    documents = [job.document for job in jobs]
    return LivingJobs(
        ids=frozenset(job.folder.name for job in jobs),
        images=frozenset(_named_images(documents)) | {_image(order) for order in orders},
        packages=frozenset(package_folders(documents, home)),
        outputs=frozenset(
            Path(os.path.realpath(root.path)) for document in documents if (root := output_of(document, home))
        ),
        programs=frozenset(path for order in orders for path in _programs(order)),
        preparing_since=min(
            (
                job.submitted
                for job in jobs
                if job.has_replicas and not (job.folder / "replicas.json").exists()
            ),
            default=float("inf"),
        ),
    )


def folders_without_row(home: Path) -> list[Path]:
    """The folders of jobs that the store does not have.

    Such a job may run all the same: the store was moved away because it was damaged. Or the command that
    makes the row is still at work, or was killed before that.
    """
    store = Store.open(home) if has_store(home) else None
    known = frozenset().union(*map(store.ids, JOBS)) if store else frozenset()
    found = Home(home).job_folders()
    return [folder for folder in found if folder.name not in known and folder.is_dir()]


def _stored(home: Path) -> Iterator[_Unended]:
    for record in Store.open(home).living() if has_store(home) else ():
        folder = Home(home).job(record.name).path
        is_custom = record.collection == CUSTOM_JOBS
        yield _Unended(folder, job_document(record, folder), epoch(record.create_time), is_custom)


def _without_row(folder: Path) -> _Unended:
    changed = last_change(folder / "spec.json")
    try:
        order = JobFolder(folder).order()
    except DamagedFileError:
        return _Unended(folder, {}, changed, has_replicas=True)
    return _Unended(folder, order.document, changed, not order.is_parent)


def images_used_since(home: Path, moment: float) -> frozenset[str]:
    """The images that jobs have named or run that were submitted since that time, ended or not."""
    if not has_store(home):
        return frozenset()
    records = Store.open(home).created_since(from_epoch(moment))
    documents = (job_document(record, Home(home).job(record.name).path) for record in records)
    orders = (order for record in records for order in _orders(Home(home).job(record.name).path))
    return frozenset(_named_images(documents)) | {_image(order) for order in orders}


def job_document(record: Record, folder: Path) -> dict[str, Any]:
    """A job as it is stored; as it was submitted, where its entry is damaged; empty where both are."""
    with suppress(DamagedError):
        return stored_job(record).answer or {}
    if JobFolder(folder).is_readable():
        return JobFolder(folder).order().document
    return {}


def package_folders(documents: Iterable[dict[str, Any]], home: Path) -> Iterator[Path]:
    """The folders of this machine that hold the jobs' packages."""
    buckets = LocalBuckets(home)
    for pool in _pools(documents):
        for uri in (pool.get("pythonPackageSpec") or {}).get("packageUris", ()):
            with suppress(ConfigError):  # of another machine
                yield buckets.local_path(uri).parent.resolve()


def output_of(document: dict[str, Any], home: Path) -> Root | None:
    """The folder of this machine that a job writes its output to."""
    output = _spec(document).get("baseOutputDirectory") or {}
    with suppress(ConfigError):  # of another machine
        return LocalBuckets(home).root(output.get("outputUriPrefix", ""))
    return None


def _id(record: Record) -> str:
    name = parse_name(record.name)
    return name.id if name else ""


def _pools(documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for document in documents:
        yield from _spec(document).get("workerPoolSpecs", ())


def _spec(document: dict[str, Any]) -> dict[str, Any]:
    """The specification of a job; of a tuning job that of its trials, of a training pipeline its task's."""
    inputs = document.get("trainingTaskInputs")
    inputs = inputs if isinstance(inputs, dict) else document
    found: dict[str, Any] = document.get("jobSpec") or inputs.get("trialJobSpec") or inputs
    return found


def _named_images(documents: Iterable[dict[str, Any]]) -> Iterator[str]:
    for pool in _pools(documents):
        yield (pool.get("containerSpec") or {}).get("imageUri", "")
        yield (pool.get("pythonPackageSpec") or {}).get("executorImageUri", "")


def _orders(folder: Path) -> Iterator[dict[str, Any]]:
    """How the job's replicas are run."""
    for spec in JobFolder(folder).path.glob("replicas/*/spec.json"):
        with suppress(DamagedFileError):
            yield require_struct(spec, dict[str, Any])


def _image(order: dict[str, Any]) -> str:
    config = order.get("config")
    return str(config.get("Image", "")) if isinstance(config, dict) else ""


def _programs(order: dict[str, Any]) -> Iterator[Path]:
    env = order.get("env")
    path = env.get("PATH", "") if isinstance(env, dict) else ""
    yield from (Path(entry) for entry in str(path).split(":") if entry)
