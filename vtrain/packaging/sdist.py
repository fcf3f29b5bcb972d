"""Plan and build the source distribution of a trainer, and keep a copy of its files."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from vtrain.atomic import holding, publishing_file, publishing_folder, remove_folder
from vtrain.digests import file_digest
from vtrain.errors import PackagingError, StorageError
from vtrain.packaging.archive import SNAPSHOT, read_metadata
from vtrain.packaging.direct import copy_unchanged, script_members, write_archive, write_direct
from vtrain.packaging.notebooks import runners, started
from vtrain.packaging.pep517 import build_project, left_out_notes, with_computed_dependencies
from vtrain.packaging.preflight import with_preflight
from vtrain.packaging.sdist_plan import SdistPlan, read_trainer, with_sources
from vtrain.packaging.source import TrainerSource
from vtrain.privacy import close_to_others, make_private
from vtrain.project_names import canonical

_SNAPSHOT_TOP = "files"


class BuiltPackages(msgspec.Struct, frozen=True, kw_only=True):
    """The files in the packages folder. `built` is False when they existed already."""

    sdist: Path
    extra_packages: tuple[Path, ...] = ()
    built: bool = True
    notes: tuple[str, ...] = ()

    @property
    def install_order(self) -> tuple[Path, ...]:
        """The order for packageUris: the trainer last, so that a private dependency is there before it."""
        return (*self.extra_packages, self.sdist)


def build_sdist(
    plan: SdistPlan, packages_dir: Path, *, progress: Callable[[str], None] = lambda _: None
) -> BuiltPackages:
    """Write the plan's packages into `packages_dir/<content_hash>/`, unless they exist.

    Two processes may do this at once. Raises PackagingError when the back end fails, StorageError when the
    folder cannot be written.
    """
    final = packages_dir / plan.content_hash
    with suppress(OSError):
        os.utime(final)  # garbage collection keeps what was used lately
    if is_there(plan, final):
        return _built(plan, final, built=False)
    try:
        make_private(packages_dir)
        _publish(plan, final, progress)
    except OSError as error:
        if isinstance(error, FileExistsError) and is_there(plan, final):  # another process was faster
            return _built(plan, final, built=False)
        raise StorageError(
            f"Cannot write the package to {packages_dir}: {error.strerror or error}."
        ) from error
    return _built(plan, final, built=True)


def is_there(plan: SdistPlan, final: Path) -> bool:
    """Whether every package of the plan is in `final`, where all of them were published in one step."""
    return all((final / name).is_file() for name in plan.file_names)


def _publish(plan: SdistPlan, final: Path, progress: Callable[[str], None]) -> None:
    """Build the packages in a scratch folder, and publish them in one step."""
    with ExitStack() as alone, publishing_folder(final) as work:
        _write(plan, work, final.parent, progress)
        for file in work.iterdir():
            close_to_others(file)
        # From here on alone: of two processes that built the same, the second finds the first one's packages.
        alone.enter_context(holding(final.parent))
        if is_there(plan, final):
            raise FileExistsError
        remove_folder(final)


def _built(plan: SdistPlan, final: Path, *, built: bool) -> BuiltPackages:
    names = plan.file_names[:-1]
    notes: tuple[str, ...] = ()
    if plan.pep517 and plan.entry.path:
        notes = left_out_notes(plan, final / plan.file_name)
    return BuiltPackages(
        sdist=final / plan.file_name,
        extra_packages=tuple(final / name for name in names),
        built=built,
        notes=notes,
    )


def _write(plan: SdistPlan, work: Path, packages_dir: Path, progress: Callable[[str], None]) -> None:
    for extra in plan.extra_packages:
        copy_unchanged(extra.path, work / extra.path.name, extra.digest)
    for project in plan.local:
        try:
            built = build_sdist(project, packages_dir, progress=progress).sdist
        except PackagingError as error:
            raise PackagingError(f"{project.source.folder}: {error.message}", hint=error.hint) from error
        copy_unchanged(built, work / built.name, file_digest(built))
    _check_versions(plan, work)
    if plan.companion:  # it carries the requirements and folders which the project's own metadata lacks
        inside = tuple(f"{extra}/" for extra in plan.extra_dirs)
        write_direct(
            work / plan.companion,
            name=f"{plan.name}-extras",
            version=_version(plan),
            requirements=plan.carried,
            requires_python=plan.requires_python,
            members=[file.member(plan.source.folder) for file in plan.files if file.path.startswith(inside)],
        )
    if plan.pep517:
        progress(f"Building {plan.file_name} with the folder's own back end …")
        build_project(plan, work / plan.file_name)
        return
    members = [file.member(plan.source.folder) for file in plan.files]
    if plan.source.script:
        roots = ("", *(["src"] if (plan.source.folder / "src").is_dir() else [])) if plan.project else ()
        members = script_members(
            [*members, *runners(plan.entry.path)],
            script=started(plan.entry.path),
            interpreter=plan.entry.interpreter,
            import_roots=roots,
        )
    write_direct(
        work / plan.file_name,
        name=plan.name,
        version=_version(plan),
        requirements=plan.requirements,
        members=members,
        requires_python=plan.requires_python,
    )


def _check_versions(plan: SdistPlan, work: Path) -> None:
    """Refuse a package beside the trainer whose version is not the required one: pip takes another."""
    from packaging.requirements import InvalidRequirement, Requirement

    lines = [*plan.requirements, *(line for project in plan.local for line in project.requirements)]
    versions = {}
    for file in plan.file_names:
        with suppress(PackagingError):  # the installer names the fault
            if (work / file).is_file() and (own := read_metadata(work / file)).version:
                versions[canonical(own.name)] = (file, own.version)
    for line in lines:
        with suppress(InvalidRequirement):  # the back end refuses it
            requirement = Requirement(line)
            file, version = versions.get(canonical(requirement.name), ("", ""))
            is_meant = requirement.marker is None or requirement.marker.evaluate()
            if file and is_meant and not requirement.specifier.contains(version, prereleases=True):
                raise PackagingError(
                    f"{line} is required, and {file} is version {version}: pip would take it from the index.",
                    hint="Correct the requirement, or the version of the package.",
                )


def _version(plan: SdistPlan) -> str:
    return f"0+h{plan.content_hash[:16]}"


def keep_snapshot(plan: SdistPlan, packages_dir: Path) -> Path:
    """The archive with the trainer's files, written now unless it is there; the package is built.

    Raises PackagingError where a file has changed since it was packed, and OSError.
    """
    folder = packages_dir / plan.content_hash
    if not plan.pep517:
        return folder / plan.file_name
    archive = folder / SNAPSHOT
    if archive.is_file():
        return archive
    with publishing_file(archive) as partial:
        top = plan.source.folder
        write_archive(partial, (file.member(top, f"{_SNAPSHOT_TOP}/{file.path}") for file in plan.files))
    return archive


def plan_sdist(
    source: TrainerSource,
    *,
    provided: frozenset[str] | None = frozenset(),
    strict: bool = False,
    packages_dir: Path | None = None,
    other_python: bool = False,
    indexes: frozenset[str] = frozenset(),
) -> SdistPlan:
    """Read the folder and decide everything; write nothing.

    `provided` are the canonical names of the distributions that the image or environment brings; None where
    that is for somebody else to know: nothing is said of imports, and nothing will be installed. The trainer
    may run on `other_python` than vtrain does, and the machine that trains knows the `indexes`.
    `packages_dir`, where `build_sdist` writes, is never part of a package. Warnings do not depend on earlier
    builds. Raises ConfigError and PackagingError.
    """
    excluded = (packages_dir,) if packages_dir else ()
    plan = read_trainer(source, excluded=excluded)
    if plan.project and plan.project.dependencies is None:
        plan = with_computed_dependencies(plan)
    if provided is not None:
        plan = with_sources(plan, indexes=indexes, excluded=excluded)
    return with_preflight(plan, provided, strict, other_python=other_python)
