"""The plan of a source distribution: its files, name and requirements, known before it is built.

Planning only reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from vtrain.digests import content_digest, document_digest, file_digest
from vtrain.errors import PackagingError
from vtrain.packaging.archive import read_metadata
from vtrain.packaging.credential_files import check_archive
from vtrain.packaging.direct import SCRIPT_PACKAGE
from vtrain.packaging.ignore_files import Belonging
from vtrain.packaging.module_imports import TrainerImports
from vtrain.packaging.notebooks import PYTHON_SUFFIXES, left_out_of
from vtrain.packaging.project import (
    InlineMetadata,
    Project,
    inline_metadata,
    read_project,
    tool_versions,
)
from vtrain.packaging.requirements import REQUIREMENTS_FILE, Requirements, read_given, read_requirements
from vtrain.packaging.source import (
    Entry,
    TrainerSource,
    check_source,
    find_entry,
    module_files,
    printable,
    relative_path,
)
from vtrain.packaging.sources import Wanted, find_sources
from vtrain.packaging.tree import PackedFile, belonging_files, file_warnings, pack_file
from vtrain.project_names import canonical, distribution_name

# Changes whenever the same files would give another archive.
LAYOUT_VERSION = 3

# uv takes NAME-1234567890b12345.tar.gz for version 1234567890b12345 and refuses the metadata's other one.
_READS_AS_VERSION = re.compile(r"\d+(?:[abc]\d*)?")

_LONGEST_NAME = 100
"""Letters of a package's name: with digest and suffix it has to fit in the 255 bytes of a file's name."""


class ExtraPackage(msgspec.Struct, frozen=True, kw_only=True):
    """A local wheel or sdist that is installed beside the trainer."""

    path: Path
    digest: str


class SdistPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about an sdist that is known before it is built. Paths are relative to the folder.

    `local` projects, whose plans name no entry, are built and installed before it. `ignored` are sentences
    about settings that a package cannot carry. `imports` are None until the checks before a build have read
    them. The entry's comments ask for the `inline` ones among the requirements. `requires_python` are the
    versions that it accepts, and those that the project does where no back end builds that.
    """

    source: TrainerSource
    python_module: str
    name: str
    file_name: str
    content_hash: str
    entry: Entry
    files: tuple[PackedFile, ...]
    left_out: tuple[str, ...]
    ignore_file: str
    requirements: tuple[str, ...]
    inline: tuple[str, ...] = ()
    requires_python: str = ""
    extra_packages: tuple[ExtraPackage, ...]
    local: tuple[SdistPlan, ...] = ()
    extra_dirs: tuple[str, ...]
    warnings: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    project: Project | None
    tool_versions: tuple[str, ...] | None = ()
    credentials: tuple[str, ...] = ()
    imports: TrainerImports | None = None

    @property
    def file_count(self) -> int:
        return len(self.files)

    @property
    def byte_count(self) -> int:
        """The size of the files, unpacked."""
        return sum(file.size for file in self.files)

    @property
    def pep517(self) -> bool:
        """Whether the folder's own back end builds the sdist."""
        return self.project is not None and self.project.is_package and not self.source.script

    @property
    def carried(self) -> tuple[str, ...]:
        """The requirements that the folder's own metadata does not name."""
        own = set(self.project.dependencies or ()) if self.pep517 and self.project else set()
        return tuple(requirement for requirement in self.requirements if requirement not in own)

    @property
    def beside(self) -> frozenset[str]:
        """The canonical names of the distributions in the packages that are installed before it."""
        extras = (name for extra in self.extra_packages for name in _names_of(extra.path))
        return frozenset((*extras, *(project.name for project in self.local)))

    @property
    def companion(self) -> str:
        """The file name of the package that carries extra requirements and folders of a PEP 517 build."""
        needed = self.pep517 and (self.carried or self.extra_dirs)
        return f"{self.name}-extras-{self.content_hash[:16]}.tar.gz" if needed else ""

    @property
    def file_names(self) -> tuple[str, ...]:
        """The names of all package files, in the order for packageUris."""
        extras = (extra.path.name for extra in self.extra_packages)
        companion = (self.companion,) if self.companion else ()
        return (*extras, *(project.file_name for project in self.local), *companion, self.file_name)


def declares_nothing(source: TrainerSource, *, beside: tuple[str, ...] = ()) -> bool:
    """Whether nothing says what a trainer needs: no requirement or package, no project, no inline metadata.

    The requirements `beside` are not its own. Raises PackagingError for a project that cannot be read.
    """
    if (
        set(source.requirements) - set(beside)
        or source.extra_packages
        or (source.folder / REQUIREMENTS_FILE).exists()
    ):
        return False
    if not source.script_alone and read_project(source.folder) is not None:
        return False
    files = (source.script,) if source.script else module_files(source.python_module)
    return all(_inline_of(source.folder, path) is None for path in files)


def _inline_of(folder: Path, path: str) -> InlineMetadata | None:
    """The metadata in an entry's comments. Raises PackagingError."""
    return inline_metadata(folder / path, printable(path)) if path.endswith(PYTHON_SUFFIXES) else None


def read_trainer(
    source: TrainerSource, *, excluded: tuple[Path, ...] = (), requirements: Requirements | None = None
) -> SdistPlan:
    """The plan without the checks of syntax and imports, which take longest.

    `requirements` are used instead of those in the folder and the source, if the caller has read them.
    """
    check_source(source)
    folder = source.folder
    extra_dirs = tuple(_extra_dir(folder, given) for given in source.extra_dirs)
    if source.script_alone:
        belonging, project = Belonging(files=(source.script,)), None
    else:
        belonging = belonging_files(folder, extra_dirs=extra_dirs, excluded=excluded)
        project = read_project(folder)
    entry = find_entry(source, belonging, is_project=project is not None and project.is_package)
    if requirements is None:
        requirements = read_requirements(source.requirements, folder)
    return _plan(source, belonging, project, entry, requirements, extra_dirs)


def _plan(
    source: TrainerSource,
    belonging: Belonging,
    project: Project | None,
    entry: Entry,
    requirements: Requirements,
    extra_dirs: tuple[str, ...],
) -> SdistPlan:
    extras = tuple(_extra_package(source.folder, given) for given in source.extra_packages)
    _check_distinct(extras)
    inside = {extra.path.resolve() for extra in extras}
    files = tuple(
        pack_file(source.folder, path)
        for path in belonging.files
        if not inside or (source.folder / path).resolve() not in inside
    )
    own = (project.dependencies or ()) if project else ()
    inline = _inline_of(source.folder, entry.path) or InlineMetadata()
    inline_place = f"inline metadata of {printable(entry.path)}"
    asked = read_given(inline.dependencies, inline_place)
    requires_python = _accepted_pythons(inline.requires_python, f"requires-python in the {inline_place}")
    left_out = left_out_of(source.folder / entry.path, printable(entry.path))
    ignored = [f"{inline_place}: [tool] is ignored"] * bool(inline.tool)
    is_built = project is not None and project.is_package and not source.script
    checked = read_given(own, "the project's dependencies")
    if not is_built:  # the package has metadata by vtrain, which no back end checks
        own = checked.lines
        of_project = project.requires_python if project else ""
        requires_python = (*_accepted_pythons(of_project, "The project's requires-python"), *requires_python)
    lines = tuple(dict.fromkeys((*own, *asked.lines, *requirements.lines)))
    plan = SdistPlan(
        source=source,
        python_module=source.python_module or SCRIPT_PACKAGE,
        name=_name(source, project, lines),
        file_name="",
        content_hash="",
        entry=entry,
        files=files,
        left_out=belonging.left_out,
        ignore_file=belonging.ignore_file,
        requirements=lines,
        extra_packages=extras,
        extra_dirs=extra_dirs,
        warnings=(*belonging.warnings, *file_warnings(source.folder, files, entry.path)),
        ignored=(*requirements.warnings, *checked.warnings, *asked.warnings, *ignored, *left_out),
        inline=asked.lines,
        requires_python=",".join(requires_python),
        project=project,
        tool_versions=tool_versions(project.build_requires) if project and is_built else (),
        credentials=belonging.credentials,
    )
    return _named(plan)


def _accepted_pythons(specifiers: str, what: str) -> tuple[str, ...]:
    """The specifiers, or () without any. Raises PackagingError for what is none."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(specifiers)
    except InvalidSpecifier as error:
        raise PackagingError(f"{what[:1].upper()}{what[1:]} is wrong: {error}.") from None
    return (specifiers,) if specifiers else ()


def with_sources(
    plan: SdistPlan,
    *,
    indexes: frozenset[str] = frozenset(),
    in_image: bool = False,
    excluded: tuple[Path, ...] = (),
) -> SdistPlan:
    """The plan with what the project's own tool takes from folders and files of this machine.

    Where it is installed, maybe `in_image`, the `indexes` are known. Raises PackagingError where the tool
    takes a dependency from elsewhere, and the package would take another one in its place.
    """
    if plan.source.script_alone:
        return plan
    wanted = Wanted(
        requirements=plan.requirements,
        is_complete=plan.project is None or plan.project.dependencies is not None,
        brought=plan.beside,
        indexes=indexes,
        in_image=in_image,
    )
    found = find_sources(plan.source.folder, wanted)
    local = tuple(_local_plan(name, folder, excluded) for name, folder in found.projects.items())
    extras = (*plan.extra_packages, *(_extra_package(plan.source.folder, str(one)) for one in found.archives))
    _check_distinct(extras)
    return _named(
        msgspec.structs.replace(
            plan,
            local=local,
            extra_packages=extras,
            ignored=(*plan.ignored, *found.ignored),
            warnings=(*plan.warnings, *(line for project in local for line in project.warnings)),
            credentials=(*plan.credentials, *(path for project in local for path in project.credentials)),
        )
    )


def _local_plan(name: str, folder: Path, excluded: tuple[Path, ...]) -> SdistPlan:
    """The plan of a project that has no entry."""
    source = TrainerSource(folder=folder)
    belonging = belonging_files(folder, excluded=excluded)
    project = msgspec.structs.replace(read_project(folder) or Project(), name=name, is_package=True)
    return _plan(source, belonging, project, Entry(path=""), Requirements(), ())


def _names_of(package: Path) -> Iterator[str]:
    """The canonical name of a package's distribution, as its metadata and its file say it."""
    yield canonical(package.name.partition("-")[0])
    with suppress(PackagingError):  # the installer names the fault
        yield canonical(read_metadata(package).name)


def with_dependencies(plan: SdistPlan, dependencies: tuple[str, ...]) -> SdistPlan:
    """The plan of a trainer whose project has these dependencies, which were not known before."""
    project = msgspec.structs.replace(plan.project or Project(), dependencies=dependencies)
    own = read_given(dependencies, "the project's dependencies").lines
    lines = tuple(dict.fromkeys((*own, *plan.requirements)))
    name = _name(plan.source, project, lines)
    return _named(msgspec.structs.replace(plan, project=project, requirements=lines, name=name))


def _named(plan: SdistPlan) -> SdistPlan:
    """The plan with its name, by the sha256 of everything that decides the bytes of the package.

    Paths, times and owners do not.
    """
    document = [
        ["vtrain-sdist", LAYOUT_VERSION, plan.name, plan.entry.path if plan.source.script else ""],
        [[file.path, file.executable, file.digest] for file in plan.files],
        plan.requirements,
        [[extra.path.name, extra.digest] for extra in plan.extra_packages],
        plan.extra_dirs,
        plan.tool_versions,
        plan.pep517 or plan.project,
        plan.requires_python,
        *(project.content_hash for project in plan.local),
    ]
    content_hash = document_digest(document)
    while _READS_AS_VERSION.fullmatch(content_hash[:16]):
        content_hash = content_digest(content_hash.encode())
    file_name = f"{plan.name}-{content_hash[:16]}.tar.gz"
    return msgspec.structs.replace(plan, content_hash=content_hash, file_name=file_name)


def _name(source: TrainerSource, project: Project | None, requirements: tuple[str, ...]) -> str:
    """The distribution's name. It differs from all requirements: pip would take those for installed."""
    own = project.name if project and project.is_package and not source.script else ""
    given = Path(source.script).stem if source.script else source.python_module.split(".")[0]
    words = canonical(re.sub(r"[^A-Za-z0-9._-]+", "-", own or given))
    name = words[:_LONGEST_NAME].strip("-") or "trainer"
    if own:
        return name
    taken = {distribution_name(requirement) for requirement in requirements}
    return f"{name}-trainer" if name in taken else name


def check_no_credentials(paths: tuple[str, ...], strict: bool) -> None:
    """With `strict`, raise PackagingError for credentials among the trainer's files."""
    if paths and strict:
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        raise PackagingError(
            f"There are credentials in the folder: {paths[0]}{more}.",
            hint="Without --strict this is a warning, and they are left out.",
        )


def _extra_dir(folder: Path, given: str) -> str:
    path = relative_path(folder, given, "the extra folder")
    if not (folder / path).is_dir():
        raise PackagingError(f"There is no extra folder {given} in {folder}.")
    return path


def _extra_package(folder: Path, given: str) -> ExtraPackage:
    path = folder / given
    if not path.is_file():
        raise PackagingError(f"There is no extra package {given} in {folder}.")
    if not path.name.endswith((".whl", ".tar.gz", ".zip")):
        raise PackagingError(
            f"The extra package {given} is neither a wheel (.whl) nor an sdist (.tar.gz, .zip)."
        )
    check_archive(path)
    try:
        return ExtraPackage(path=path, digest=file_digest(path))
    except OSError as error:
        raise PackagingError(f"Cannot read {given}: {error.strerror}.") from None


def _check_distinct(extras: tuple[ExtraPackage, ...]) -> None:
    names = [extra.path.name for extra in extras]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise PackagingError(f"Two extra packages are called {twice}.")
