"""The build context of a generated Dockerfile: fixed folders, each with what one layer brings in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from vtrain.errors import PackagingError
from vtrain.packaging.direct import Member
from vtrain.packaging.image.dockerfile import (
    CODE_FOLDER,
    EXTRA_FOLDER,
    PACKAGES_FOLDER,
    REQUIREMENTS_FOLDERS,
    REQUIREMENTS_NAME,
    TOOLS_FOLDER,
)
from vtrain.packaging.plan import SdistPlan
from vtrain.packaging.project import DEFAULT_BACKEND, Project, has_setup_cfg_metadata, has_setup_script
from vtrain.packaging.requirements import REQUIREMENTS_FILE, Requirements, read_given, read_requirements
from vtrain.packaging.source import TrainerSource

_OPTIONS = frozenset(
    ("-i --index-url --extra-index-url --no-index -f --find-links --no-binary --only-binary --pre").split()
    + ("-c --constraint --prefer-binary --require-hashes --trusted-host --use-feature").split()
)
"""Options that pip reads in a requirements file."""
_PLAIN_BACKENDS = frozenset(
    [
        DEFAULT_BACKEND,
        "flit_core.buildapi",
        "hatchling.build",
        "pdm.backend",
        "poetry.core.masonry.api",
        "setuptools.build_meta",
    ]
)
"""Back ends whose build requirements are all in pyproject.toml."""
_PATH_OPTIONS = frozenset(("-f", "--find-links", "-c", "--constraint"))
_ATTACHED_VALUE = re.compile(r"-[A-Za-z](?=[^-\s])")


class ImageRequirements(msgspec.Struct, frozen=True, kw_only=True):
    """What the image installs, group by group, each from a layer of its own.

    `tools` are the build requirements of the project, where they can be installed before its sources are
    there.
    """

    tools: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
    file: Requirements = Requirements()
    given: Requirements = Requirements()

    @property
    def merged(self) -> Requirements:
        """All requirements but the project's own, for the check of imports."""
        return Requirements(lines=tuple(dict.fromkeys((*self.file.lines, *self.given.lines))))

    def members(self) -> Iterator[Member]:
        """The files of the context that pip reads."""
        own = (Requirements(pip_lines=self.tools), Requirements(pip_lines=self.project))
        groups = zip((TOOLS_FOLDER, *REQUIREMENTS_FOLDERS), (*own, self.file, self.given), strict=True)
        for folder, group in groups:
            lines, constraints = group.pip_lines, group.constraints
            if not lines:
                continue
            yield _text_member(f"{folder}/{REQUIREMENTS_NAME}", "".join(f"{line}\n" for line in lines))
            for name, text in constraints:
                yield _text_member(f"{folder}/{name}", text)


def read_image_requirements(source: TrainerSource, project: Project | None) -> ImageRequirements:
    """The project's dependencies as far as its files tell them, requirements.txt, and the flag.

    Raises PackagingError for a line that pip could not read in the image.
    """
    own = read_given(tuple((project.dependencies or ()) if project else ()), source.folder)
    file, given = read_requirements((), source.folder), read_given(source.requirements, source.folder)
    _check_options(file, REQUIREMENTS_FILE)
    _check_options(given, "requirements")
    tools = _tools(project, source.folder) if project else ()
    return ImageRequirements(tools=tools, project=own.pip_lines, file=file, given=given)


def _tools(project: Project, folder: Path) -> tuple[str, ...]:
    """Build requirements of back ends that need nothing else; () for those that may ask for more."""
    if project.backend not in _PLAIN_BACKENDS or not installs_project(project, folder):
        return ()
    wheel = ("wheel",) if project.backend.startswith("setuptools.") else ()
    return read_given((*project.build_requires, *wheel), folder).pip_lines


def installs_project(project: Project, folder: Path) -> bool:
    """Whether pip is to install the project.

    Not so for a pyproject.toml without a build system beside modules at the root: many of those only list
    dependencies, and pip refuses to install them; Python finds the modules without.
    """
    has_setup = has_setup_script(folder) or has_setup_cfg_metadata(folder)
    return has_setup or project.backend != DEFAULT_BACKEND or (folder / "src").is_dir()


def _check_options(requirements: Requirements, where: str) -> None:
    written = {f"-c {name}" for name, _ in requirements.constraints}
    for line in requirements.pip_lines:
        if not line.startswith("-") or line in written:
            continue
        attached = _ATTACHED_VALUE.match(line)
        option = attached[0] if attached else re.split(r"[=\s]", line, maxsplit=1)[0]
        if option not in _OPTIONS:
            raise PackagingError(f"{where}: {option} is no option of a requirements file.")
        if option in _PATH_OPTIONS and "://" not in line:
            raise PackagingError(
                f"{where}: `{line}` is a path on this machine, which the image does not have.",
                hint="Name packages in extra-packages, and constraints in requirements.txt.",
            )


def context_members(trainer: SdistPlan, requirements: ImageRequirements) -> tuple[Member, ...]:
    """All files of the context, sorted by name."""
    members = [*requirements.members()]
    for extra in trainer.extra_packages:
        name = f"{PACKAGES_FOLDER}/{extra.path.name}"
        members.append(Member(name=name, content=extra.path, digest=extra.digest))
    inside = tuple(f"{folder}/" for folder in trainer.extra_dirs)
    for file in trainer.files:
        folder = EXTRA_FOLDER if inside and file.path.startswith(inside) else CODE_FOLDER
        content = trainer.source.folder / file.path
        members.append(
            Member(
                name=f"{folder}/{file.path}",
                content=content,
                executable=file.executable,
                digest=file.digest,
            )
        )
    return tuple(sorted(members, key=lambda member: member.name))


def _text_member(name: str, text: str) -> Member:
    return Member(name=name, content=text.encode())
