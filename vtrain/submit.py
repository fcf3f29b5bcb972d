"""The one path: source → name → plan → package → stage → backend.

`prepare` reads and decides; `--dry-run` ends there. `launch` does what was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from vtrain.backends import JobBackend, Plan
from vtrain.errors import StorageError
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.rules import check_job
from vtrain.packaging.prebuilt import DEFAULT, contents
from vtrain.packaging.sdist import SdistPlan, build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource
from vtrain.settings import make_home
from vtrain.staging import LocalBuckets, file_uri, join_uri, stage_all

Tell = Callable[[str], None]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where packages are made and staged. Without a bucket they stay in the home's `packages/`.

    In the bucket each package has a folder of its content, unless `flat`.
    """

    home: Path
    staging_bucket: str = ""
    flat: bool = False

    @property
    def packages(self) -> Path:
        return self.home / "packages"

    @property
    def buckets(self) -> LocalBuckets:
        return LocalBuckets(self.home)

    def uri(self, content_hash: str, file_name: str) -> str:
        """Where a package of this content will lie."""
        if self.flat:
            return join_uri(self.staging_bucket, file_name)
        if self.staging_bucket:
            return join_uri(self.staging_bucket, content_hash, file_name)
        return file_uri(self.packages / content_hash / file_name)


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Everything decided, nothing done."""

    plan: Plan
    package: SdistPlan | None


class Unpackaged(Protocol):
    """A job whose trainer may still have to be packaged."""

    @property
    def source(self) -> TrainerSource | None: ...

    @property
    def executor_image_uri(self) -> str: ...

    def finish(self, python_module: str, package_uris: Sequence[str]) -> CustomJob: ...


def plan_package(source: TrainerSource, image_uri: str, place: Place, *, strict: bool) -> SdistPlan:
    """What packaging would do, its refusals included. `image_uri` tells what the image brings along."""
    image = contents(image_uri) or DEFAULT
    provided = frozenset(distribution.name for distribution in image.distributions)
    return plan_sdist(source, provided=provided, strict=strict, packages_dir=place.packages)


def prepare(
    draft: Unpackaged, backend: JobBackend, place: Place, *, strict: bool, executor_required: bool
) -> Prepared:
    """The plan of a job. Raises ConfigError or PackagingError before anything is written."""
    package = None
    module, uris = "", []
    if draft.source is not None:
        package = plan_package(draft.source, draft.executor_image_uri, place, strict=strict)
        module = package.python_module
        uris = [place.uri(package.content_hash, name) for name in package.file_names]
    job = draft.finish(module, uris)
    check_job(job, executor_required=executor_required)
    plan = backend.plan(job)
    if draft.source is not None:
        plan = msgspec.structs.replace(plan, source_folder=str(draft.source.folder))
    return Prepared(plan=plan, package=package)


def launch(prepared: Prepared, backend: JobBackend, place: Place, tell: Tell) -> CustomJob:
    """Package and stage what is not there yet, then submit."""
    if prepared.package is not None:
        package_and_stage(prepared.package, place, tell)
    return backend.submit(prepared.plan)


def package_and_stage(package: SdistPlan, place: Place, tell: Tell) -> tuple[str, ...]:
    """The URIs of the package's files, made and staged now unless they were there."""
    make_home(place.home)
    try:
        built = build_sdist(package, place.packages, progress=tell)
    except OSError as error:
        raise StorageError(f"Cannot write to {place.packages}: {error.strerror}.") from error
    for note in built.notes:
        tell(note)
    files = built.install_order
    if not place.staging_bucket:
        tell(_packed(package, built.built))
        return tuple(file_uri(file) for file in files)
    uris = {file: place.uri(package.content_hash, file.name) for file in files}
    staged = stage_all(place.buckets, uris)
    tell(_packed(package, built.built) + _staged([item.uri for item in staged if item.written]))
    return tuple(item.uri for item in staged)


def _packed(package: SdistPlan, built: bool) -> str:
    if not built:
        return f"Package {package.file_name}: unchanged, nothing was packed."
    left_out = f", left out {', '.join(package.left_out[:5])}" if package.left_out else ""
    more = f" and {len(package.left_out) - 5} more" if len(package.left_out) > 5 else ""
    return f"Package {package.file_name}: {describe(package)}{left_out}{more}."


def _staged(written: Sequence[str]) -> str:
    return "".join(f"\nStaged {uri}" for uri in written) or " Nothing was staged: it is there."


def describe(package: SdistPlan) -> str:
    """`5 files, 12.3 kB`."""
    size = float(package.byte_count)
    unit = "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    files = "1 file" if package.file_count == 1 else f"{package.file_count} files"
    return f"{files}, {size:.3g} {unit}"
