"""The images, packages and programs that unfinished jobs use."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from vtrain.errors import ConfigError, DamagedError
from vtrain.messages.names import CUSTOM_JOBS
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
    """Jobs of a home that have not ended, and those of which only the folder is there."""

    ids: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()
    """The images that they name or run."""
    packages: frozenset[Path] = frozenset()
    """The folders of their packages."""
    outputs: frozenset[Path] = frozenset()
    """The folders that they write to."""
    programs: frozenset[Path] = frozenset()
    """The folders in which their replicas find commands."""
    preparing_since: float = float("inf")
    """When the first job was submitted that has no orders for its replicas yet: it may need all that was used
    since then."""

    @property
    def is_preparing(self) -> bool:
        """Whether there is a job whose replicas are not ordered yet."""
        return self.preparing_since != float("inf")


def living_jobs(home: Path) -> LivingJobs:
    """The jobs of a home as they stand now. Look for what may go first: a job may come at any time."""
    jobs: list[tuple[Path, dict[str, Any]]] = []
    preparing_since = float("inf")
    for folder, document, submitted, has_replicas in (*_without_row(home), *_stored(home)):
        jobs.append((folder, document))
        if has_replicas and not (folder / "replicas.json").exists():
            preparing_since = min(preparing_since, submitted)
    documents = [document for _, document in jobs]
    orders = [order for folder, _ in jobs for order in _orders(folder)]
    outputs = filter(None, (output_of(document, home) for document in documents))
    return LivingJobs(
        ids=frozenset(folder.name for folder, _ in jobs),
        images=frozenset((*_named_images(documents), *(order.image for order in orders))),
        packages=frozenset(package_folders(documents, home)),
        outputs=frozenset(Path(os.path.realpath(root.path)) for root in outputs),
        programs=frozenset(path for order in orders for path in order.programs),
        preparing_since=preparing_since,
    )


_Unended = tuple[Path, dict[str, Any], float, bool]
"""The folder and the document of a job, when it was submitted, and whether it runs replicas itself."""


def _stored(home: Path) -> Iterator[_Unended]:
    for record in Store.open(home).living() if has_store(home) else ():
        folder = Home(home).job(record.name).path
        is_custom = record.collection == CUSTOM_JOBS
        yield folder, job_document(record, folder), epoch(record.create_time), is_custom


def _without_row(home: Path) -> Iterator[_Unended]:
    """The jobs that were submitted, and that the store does not have, or not yet: ask for them first."""
    for folder in folders_without_row(home):
        if (folder / "spec.json").exists():
            changed = last_change(folder / "spec.json")
            try:
                order = JobFolder(folder).order()
                yield folder, order.document, changed, not order.is_parent
            except DamagedFileError:
                yield folder, {}, changed, True


def folders_without_row(home: Path) -> list[Path]:
    """The folders of jobs that the store does not have.

    Such a job may run all the same: the store was moved away because it was damaged. Or the command that
    makes the row is still at work, or was killed before that.
    """
    store = Store.open(home) if has_store(home) else None
    known = frozenset().union(*map(store.ids, JOBS)) if store else frozenset()
    found = Home(home).job_folders()
    return [folder for folder in found if folder.name not in known and folder.is_dir()]


def images_used_since(home: Path, moment: float) -> frozenset[str]:
    """The images that jobs have named or run that were submitted since that time, ended or not."""
    if not has_store(home):
        return frozenset()
    records = Store.open(home).created_since(from_epoch(moment))
    jobs = [(record, Home(home).job(record.name).path) for record in records]
    orders = (order for _, folder in jobs for order in _orders(folder))
    return frozenset((*_named_images(job_document(*job) for job in jobs), *(order.image for order in orders)))


def job_document(record: Record, folder: Path) -> dict[str, Any]:
    """A job as it is stored; as it was submitted, where its entry is damaged; empty where both are."""
    with suppress(DamagedError):
        return stored_job(record).answer or {}
    with suppress(DamagedFileError):
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


class _Order(msgspec.Struct, frozen=True):
    """The parts of a replica's order that say what it runs in."""

    env: dict[str, str] = {}
    config: dict[str, Any] = {}

    @property
    def image(self) -> str:
        return str(self.config.get("Image", ""))

    @property
    def programs(self) -> list[Path]:
        return [Path(entry) for entry in self.env.get("PATH", "").split(":") if entry]


def _orders(folder: Path) -> Iterator[_Order]:
    for spec in folder.glob("replicas/*/spec.json"):
        with suppress(DamagedFileError):
            yield require_struct(spec, _Order)
