"""The one path: source → name → plan → package → stage → backend.

`prepare` reads and decides; `--dry-run` ends there. `launch` does what was decided.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import EnvironmentBackend, JobBackend, Plan, ServiceBackend
from vtrain.errors import ConfigError, PackagingError, StorageError
from vtrain.messages.resources import spec_of
from vtrain.packaging.distributions import with_brought_along
from vtrain.packaging.pep517 import check_install
from vtrain.packaging.prebuilt import ANY, DEFAULT, contents
from vtrain.packaging.sdist import build_sdist, keep_snapshot, plan_sdist
from vtrain.packaging.sdist_plan import SdistPlan
from vtrain.packaging.source import TrainerSource
from vtrain.settings import make_home
from vtrain.sizes import size_in_words
from vtrain.staging import Buckets, Show, file_uri, join_uri
from vtrain.uv_program import known_indexes

if TYPE_CHECKING:
    from vtrain.backends.image_order import ImageOrder
    from vtrain.core.compose import Draft
    from vtrain.messages.resources import Job
    from vtrain.packaging.image_plan import ImagePlan

Tell = Callable[[str], None]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The places in which packages are made and staged. Without a bucket they stay in the home's `packages/`.

    In the bucket each package has a folder named by its content, unless `flat`. `show` gets the progress of
    staging, for a terminal, and `warn` what only the build of a package tells. Without `checks_imports` the
    backend checks what trainers can import. With `other_python` they may run on another Python than vtrain
    does. On a service, the job's variables tell pip the indexes of packages; else the configuration of this
    machine does.
    """

    home: Path
    buckets: Buckets
    staging_bucket: str = ""
    flat: bool = False
    show: Show = lambda _: None  # nothing, where there is no terminal
    warn: Tell = lambda _: None
    checks_imports: bool = True
    other_python: bool = False
    is_service: bool = False

    @property
    def packages(self) -> Path:
        from vtrain.runtime.home import Home

        return Home(self.home).packages

    def uri(self, content_hash: str, file_name: str) -> str:
        """The URI of a package with this content. Raises ConfigError where the job could not read it."""
        below = (file_name,) if self.flat else (content_hash, file_name)
        bucket = self.staging_bucket
        uri = join_uri(bucket, *below) if bucket else file_uri(self.packages.joinpath(*below))
        self.buckets.accept(uri)
        return uri


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Everything decided, nothing done.

    `output_uri` is the job's base output directory, `upload_uri` the folder in a bucket that the package goes
    to, if it does, and `secrets` a sentence about secrets that would be sent.
    """

    plan: Plan
    package: SdistPlan | ImagePlan | None
    image: ImageOrder | None = None
    image_uri: str = ""
    output_uri: str = ""
    upload_uri: str = ""
    secrets: str = ""


class MadeImage(msgspec.Struct, frozen=True, kw_only=True):
    """The trainer's image under the name that it goes by; `digest` is empty unless it was pushed."""

    name: str
    id: str
    digest: str
    built: bool


def plan_package(
    source: TrainerSource,
    image_uri: str,
    place: Place,
    *,
    strict: bool,
    indexes: frozenset[str] | None = None,
) -> SdistPlan:
    """The plan of the package. The image of that URI decides which imports are provided.

    The machine that trains knows the `indexes`; where they are None, those of pip's configuration here.
    Raises ConfigError and PackagingError, as packaging would.
    """
    if indexes is None:
        indexes = known_indexes(os.environ)
    return plan_sdist(
        source,
        provided=_provided(image_uri) if place.checks_imports else None,
        strict=strict,
        packages_dir=place.packages,
        other_python=place.other_python or _is_newer(image_uri),
        indexes=indexes,
    )


def _is_newer(image_uri: str) -> bool:
    """Whether a pre-built image has a newer Python than the one that reads the trainer here."""
    image = contents(image_uri)
    version = image.python_version if image is not None else ""
    return bool(version) and tuple(map(int, version.split("."))) > sys.version_info[:2]


def plan_trainer_image(source: TrainerSource, base: str, order: ImageOrder, *, strict: bool) -> ImagePlan:
    """The plan of the trainer's image. Raises ConfigError and PackagingError, as building would."""
    from vtrain.packaging.image_plan import plan_image

    return plan_image(
        source,
        base,
        dockerfile=order.dockerfile,
        platform=order.platform,
        provided=_provided(base),
        strict=strict,
    )


def _provided(image_uri: str) -> frozenset[str]:
    """The distributions of an image; of one that vtrain does not know, all that Google's images have.

    Without an image, some that an environment gets if they are imported: then they bring nothing along.
    """
    image = contents(image_uri) or (ANY if image_uri else DEFAULT)
    names = frozenset(distribution.name for distribution in image.distributions)
    return with_brought_along(names) if image_uri else names


def prepare(
    draft: Draft,
    backend: JobBackend,
    place: Place,
    *,
    strict: bool,
    image: ImageOrder | None = None,
) -> Prepared:
    """The plan of a job; with `image` its trainer becomes one, else a Python package.

    With `strict`, imports that nothing provides and fields that the backend does not reproduce are refused.
    Raises ConfigError or PackagingError before anything is written.
    """
    job, package, image_uri = plan_job(draft, place, strict=strict, image=image)
    plan = msgspec.structs.replace(backend.plan(job), unknown_fields=draft.unknown_fields)
    if strict and plan.not_reproduced:
        raise ConfigError(
            f"The backend {plan.backend} does not reproduce {', '.join(plan.not_reproduced)}.",
            hint="Without --strict this is one line of warning, and the job runs.",
        )
    if strict and plan.doubts:
        raise ConfigError("\n".join(plan.doubts), hint="Without --strict this is a warning.")
    plan = msgspec.structs.replace(plan, notices=(*plan.notices, *plan.doubts))
    plan = _with_environment(plan, backend, package, strict)
    if draft.source is not None:
        folder, in_pool_spec = str(draft.source.folder), draft.source.in_pool_spec
        plan = msgspec.structs.replace(plan, source_folder=folder, in_pool_spec=in_pool_spec)
    spec = spec_of(job)
    output_uri = spec.output_uri if spec is not None else ""
    return Prepared(
        plan=plan,
        package=package,
        image=image,
        image_uri=image_uri,
        output_uri=output_uri,
        upload_uri=place.uri(package.content_hash, "")
        if isinstance(package, SdistPlan) and place.staging_bucket
        else "",
    )


def _with_environment(
    plan: Plan, backend: JobBackend, package: SdistPlan | ImagePlan | None, strict: bool
) -> Plan:
    """The plan with what the trainer's environment takes, and what it will lack.

    With `strict` a missing import is refused.
    """
    if not isinstance(backend, EnvironmentBackend):
        return plan
    steps = backend.environment_steps(plan.job, package if isinstance(package, SdistPlan) else None)
    if strict and steps.missing:
        raise PackagingError("\n".join(steps.missing), hint="Without --strict this is a warning.")
    return msgspec.structs.replace(
        plan,
        notices=(*steps.missing, *steps.notices, *plan.notices),
        steps=(*plan.steps, *steps.would),
        cached=(*plan.cached, *steps.cached),
        notes=(*plan.notes, *steps.notes),
    )


def plan_job(
    draft: Draft, place: Place, *, strict: bool, image: ImageOrder | None = None
) -> tuple[Job, SdistPlan | ImagePlan | None, str]:
    """The job with its trainer packaged, what packaging would make, and the image's name (empty: none)."""
    source = draft.source
    if source is None:
        return draft.finish("", []), None, ""
    if image is None:
        indexes = draft.indexes if place.is_service else None
        package = plan_package(source, draft.executor_image_uri, place, strict=strict, indexes=indexes)
        uris = [place.uri(package.content_hash, name) for name in package.file_names]
        return draft.finish(package.python_module, uris), package, ""
    made = plan_trainer_image(source, draft.executor_image_uri, image, strict=strict)
    from vtrain.containers.image_names import check_tag_name

    image_uri = check_tag_name(draft.output_image_uri or image.name_of(made), "output-image-uri")
    # What stays here goes by its content; another name may be given to something else meanwhile.
    job = draft.finish_with_image(image_uri if image.push else made.name, made.module_command)
    return job, made, image_uri


def launch(prepared: Prepared, backend: JobBackend, place: Place, tell: Tell) -> Job:
    """Package and stage, or build, what is not there yet, then submit."""
    package, plan = prepared.package, prepared.plan
    if package is not None and isinstance(backend, ServiceBackend):
        backend.sign_in()  # bad credentials should not show after minutes of packaging
    if isinstance(package, SdistPlan):
        is_sent = isinstance(backend, ServiceBackend)
        package_and_stage(package, place, tell, prepared.output_uri, cached=plan.cached, is_sent=is_sent)
        if not isinstance(backend, ServiceBackend):
            try:
                snapshot = str(keep_snapshot(package, place.packages))
            except OSError as error:
                raise StorageError(f"Cannot write to {place.packages}: {error.strerror}.") from error
            plan = msgspec.structs.replace(plan, snapshot=snapshot)
    elif package is not None and prepared.image is not None:
        make_trainer_image(package, prepared.image, prepared.image_uri, tell)
    return backend.submit(plan)


def make_trainer_image(package: ImagePlan, order: ImageOrder, image_uri: str, tell: Tell) -> MadeImage:
    """Build the image unless it is there, give it its name, and push it where that was ordered."""
    from vtrain.containers.discovery import find_engine
    from vtrain.packaging.image_build import check_platform, make_image, push

    engine = order.engine or find_engine()
    tags = () if image_uri == package.name else (image_uri,)
    made = make_image(package, engine, pull=order.pull, tell=tell, tags=tags)
    if order.push and order.platform:
        check_platform(image_uri, order.platform, engine)
    digest = push(image_uri, engine, tell) if order.push else ""
    return MadeImage(name=image_uri, id=made.id, digest=digest, built=made.built)


def package_and_stage(
    package: SdistPlan,
    place: Place,
    tell: Tell,
    output: str = "",
    *,
    cached: Sequence[str] = (),
    is_sent: bool = True,
) -> tuple[str, ...]:
    """The URIs of the package's files, made and staged now unless they were there.

    The buckets of the packages and of the job's `output` are checked first: a fault stops the job before
    anything is sent, and so does a package that cannot be installed, where it `is_sent` to another machine.
    `cached` names what else exists already, for the same line.
    """
    if place.staging_bucket:
        place.buckets.examine(place.staging_bucket, output)
    make_home(place.home)
    try:
        built = build_sdist(package, place.packages, progress=tell)
        if is_sent:
            check_install(built.install_order, place.warn)
    except OSError as error:
        raise StorageError(f"Cannot write to {place.packages}: {error.strerror}.") from error
    for note in built.notes:
        place.warn(note)
    files = built.install_order
    if not place.staging_bucket:
        tell(_packed(package, built.built, (), cached))
        return tuple(file_uri(file) for file in files)
    uris = {file: place.uri(package.content_hash, file.name) for file in files}
    staged = place.buckets.stage_all(uris, place.show)
    written = [item.uri for item in staged if item.written]
    tell(_packed(package, built.built, written, cached if written else ("Staged files", *cached)))
    return tuple(item.uri for item in staged)


def _packed(package: SdistPlan, built: bool, staged: Sequence[str], cached: Sequence[str]) -> str:
    """A line on what was made, a line for each file that was staged, a line on what was there already."""
    left_out = f", left out {', '.join(package.left_out[:5])}" if package.left_out else ""
    more = f" and {len(package.left_out) - 5} more" if len(package.left_out) > 5 else ""
    lines = [f"Package {package.file_name}: {describe(package)}{left_out}{more}."] if built else []
    lines += [f"Staged {uri}" for uri in staged]
    there = cached if built else ("Package", *cached)
    return "\n".join([*lines, " ".join(f"{name}: cached." for name in there)] if there else lines)


def would_make(package: SdistPlan | ImagePlan) -> str:
    """The line of a dry run about the package."""
    if isinstance(package, SdistPlan):
        return f"Would package {package.file_name}: {describe(package)}."
    return f"Would build {package.title}: {describe(package)}."


def describe(package: SdistPlan | ImagePlan) -> str:
    """`5 files, 12.3 kB`."""
    files = "1 file" if package.file_count == 1 else f"{package.file_count} files"
    return f"{files}, {size_in_words(package.byte_count)}"
