"""From a trainer's folder to a source distribution: first the plan, then the file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from vtrain.atomic import holding, publish_file, publishing_folder, remove_folder
from vtrain.errors import PackagingError, StorageError
from vtrain.packaging.direct import Member, script_members, write_direct
from vtrain.packaging.plan import ExtraPackage, PackedFile, SdistPlan, file_digest, plan_sdist
from vtrain.packaging.source import TrainerSource
from vtrain.privacy import close_to_others, make_private

__all__ = [
    "BuiltPackages",
    "ExtraPackage",
    "PackedFile",
    "SdistPlan",
    "TrainerSource",
    "build_sdist",
    "is_whole",
    "plan_sdist",
]


DIGESTS = ".digests.json"
"""Beside the packages: the sha256 of each, as it was published."""


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

    What is there is read, and made again where it is damaged. Two processes at once do no harm.
    Raises PackagingError when the back end fails, StorageError when the folder cannot be written.
    """
    final = packages_dir / plan.content_hash
    with suppress(OSError):
        os.utime(final)  # what was used lately is not removed as unused
    if is_whole(plan, final):
        return _built(plan, final, built=False)
    if os.path.lexists(final):
        progress(f"The cached package {plan.file_name} is damaged or old; it is made again")
    try:
        make_private(packages_dir)
        _publish(plan, final, progress)
    except FileExistsError:  # another process was faster
        return _built(plan, final, built=False)
    except OSError as error:
        raise StorageError(
            f"cannot write the package to {packages_dir}: {error.strerror or error}"
        ) from error
    return _built(plan, final, built=True)


def is_whole(plan: SdistPlan, final: Path, copies: Sequence[Path] = ()) -> bool:
    """Whether every package of the plan is there, with the content that it was published with in `final`.

    With `copies`, the paths in the order of the plan's `file_names`, those are looked at instead.
    """
    names = plan.file_names
    packages = copies or [final / name for name in names]
    try:
        digests = msgspec.json.decode((final / DIGESTS).read_bytes(), type=dict[str, str])
        return digests.keys() == set(names) and all(
            package.is_file() and file_digest(package) == digests[name]
            for name, package in zip(names, packages, strict=True)
        )
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False


def _publish(plan: SdistPlan, final: Path, progress: Callable[[str], None]) -> None:
    """Make the packages, and put them in their place."""
    with ExitStack() as alone, publishing_folder(final) as work:
        _write(plan, work, progress)
        for file in work.iterdir():
            close_to_others(file)
        digests = {name: file_digest(work / name) for name in plan.file_names}
        publish_file(work / DIGESTS, msgspec.json.encode(digests))
        alone.enter_context(holding(final.parent))
        if is_whole(plan, final):
            raise FileExistsError
        remove_folder(final)


def _built(plan: SdistPlan, final: Path, *, built: bool) -> BuiltPackages:
    names = [extra.path.name for extra in plan.extra_packages]
    names += [plan.companion] if plan.companion else []
    return BuiltPackages(
        sdist=final / plan.file_name,
        extra_packages=tuple(final / name for name in names),
        built=built,
        notes=_notes(plan, final / plan.file_name),
    )


def _notes(plan: SdistPlan, built: Path) -> tuple[str, ...]:
    if not plan.pep517:
        return ()
    from vtrain.packaging.pep517 import left_out_notes

    return left_out_notes(plan, built)


def _write(plan: SdistPlan, work: Path, progress: Callable[[str], None]) -> None:
    for extra in plan.extra_packages:
        shutil.copyfile(extra.path, work / extra.path.name)
        if file_digest(work / extra.path.name) != extra.digest:
            raise PackagingError(f"{extra.path} changed while it was copied.", hint="Run the command again.")
    if plan.companion:
        _write_companion(plan, work / plan.companion)
    if plan.pep517:
        from vtrain.packaging.pep517 import build_project

        progress(f"Building {plan.file_name} with the folder's own back end")
        build_project(plan, work / plan.file_name)
        return
    write_direct(
        work / plan.file_name,
        name=plan.name,
        version=_version(plan),
        requirements=plan.requirements,
        members=_direct_members(plan),
    )


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
