"""From a trainer's folder to a source distribution: first the plan, then the file."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from vtrain.errors import StorageError
from vtrain.packaging.direct import Member, script_members, write_direct
from vtrain.packaging.plan import ExtraPackage, PackedFile, SdistPlan, plan_sdist
from vtrain.packaging.source import TrainerSource
from vtrain.privacy import close_to_others, make_private

__all__ = [
    "BuiltPackages",
    "ExtraPackage",
    "PackedFile",
    "SdistPlan",
    "TrainerSource",
    "build_sdist",
    "plan_sdist",
]


class BuiltPackages(msgspec.Struct, frozen=True, kw_only=True):
    """What lies in the packages folder. `built` is False when it was there already."""

    sdist: Path
    extra_packages: tuple[Path, ...] = ()
    built: bool = True
    notes: tuple[str, ...] = ()

    @property
    def install_order(self) -> tuple[Path, ...]:
        """The order for packageUris: the trainer last, so that a private dependency is there before it."""
        return (*self.extra_packages, self.sdist)


def _silent(_line: str) -> None:
    """Say nothing."""


def build_sdist(
    plan: SdistPlan, packages_dir: Path, *, progress: Callable[[str], None] = _silent
) -> BuiltPackages:
    """Write the plan's packages into `packages_dir/<content_hash>/`, unless they are there.

    They are made in a temporary folder and renamed, so that two processes at once do no harm.
    Raises PackagingError when the back end fails, StorageError when the folder cannot be written.
    """
    final = packages_dir / plan.content_hash
    with suppress(OSError):
        os.utime(final)  # what was used lately is not removed as unused
    if (final / plan.file_name).is_file():
        return _built(plan, final, built=False)
    try:
        make_private(packages_dir)
        work = Path(tempfile.mkdtemp(prefix=".building-", dir=packages_dir))
        try:
            notes = _write(plan, work, progress)
            for file in work.iterdir():
                close_to_others(file)
            _publish(work, final, plan.file_name)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise StorageError(
            f"cannot write the package to {packages_dir}: {error.strerror or error}"
        ) from error
    return _built(plan, final, built=True, notes=notes)


def _publish(work: Path, final: Path, file_name: str) -> None:
    try:
        work.rename(final)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not (final / file_name).is_file():
            raise


def _built(plan: SdistPlan, final: Path, *, built: bool, notes: tuple[str, ...] = ()) -> BuiltPackages:
    names = [extra.path.name for extra in plan.extra_packages]
    names += [plan.companion] if plan.companion else []
    return BuiltPackages(
        sdist=final / plan.file_name,
        extra_packages=tuple(final / name for name in names),
        built=built,
        notes=notes,
    )


def _write(plan: SdistPlan, work: Path, progress: Callable[[str], None]) -> tuple[str, ...]:
    for extra in plan.extra_packages:
        shutil.copyfile(extra.path, work / extra.path.name)
    if plan.companion:
        _write_companion(plan, work / plan.companion)
    if plan.pep517:
        from vtrain.packaging.pep517 import build_project

        progress(f"Building {plan.file_name} with the folder's own back end")
        return build_project(plan, work / plan.file_name)
    write_direct(
        work / plan.file_name,
        name=plan.name,
        version=_version(plan),
        requirements=plan.requirements,
        members=_direct_members(plan),
    )
    return ()


def _version(plan: SdistPlan) -> str:
    return f"0+h{plan.content_hash[:16]}"


def _direct_members(plan: SdistPlan) -> list[Member]:
    members = _members(plan)
    if not plan.source.script:
        return members
    roots = tuple(
        root for root in ("", "src") if plan.project and (not root or (plan.source.folder / root).is_dir())
    )
    return script_members(members, script=plan.entry.path, import_roots=roots)


def _write_companion(plan: SdistPlan, out: Path) -> None:
    """Metadata of a package belongs to its back end, so what vtrain adds travels in one of its own."""
    inside = tuple(f"{extra}/" for extra in plan.extra_dirs)
    members = [member for member in _members(plan) if member.name.startswith(inside)] if inside else []
    write_direct(
        out,
        name=f"{plan.name}-extras",
        version=_version(plan),
        requirements=plan.carried,
        members=members,
    )


def _members(plan: SdistPlan) -> list[Member]:
    return [
        Member(
            name=file.path,
            content=plan.source.folder / file.path,
            executable=file.executable,
            digest=file.digest,
        )
        for file in plan.files
    ]
