"""A generated Dockerfile and its build context. Layers that change seldom come first, the code last.

No name or requirement of the user stands in it, but for the base image and the entry point: those travel as
files of the build context, whose folders have fixed names. So no text of the user needs quoting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

import msgspec

from vtrain.containers.build import PIP_ARGUMENT, PIP_COPY, PIP_MOUNT
from vtrain.digests import content_digest
from vtrain.errors import PackagingError
from vtrain.packaging.direct import Member
from vtrain.packaging.notebooks import runners
from vtrain.packaging.project import DEFAULT_BACKEND, version_variables
from vtrain.packaging.requirements import REQUIREMENTS_FILE, Requirements, read_given, read_requirements
from vtrain.packaging.sdist_plan import SdistPlan
from vtrain.packaging.source import TrainerSource
from vtrain.project_names import distribution_name

WORKING_FOLDER = "/usr/app"
HOME_FOLDER = "/home"
INSTALL_FOLDER = "/opt/vtrain"
"""The folder of requirements and extra packages in the image."""

TOOLS_FOLDER = "build-requirements"
"""A folder of the build context: what the project's back end needs while it builds."""
REQUIREMENTS_FOLDERS = ("dependencies", "requirements", "more-requirements")
"""Further ones, a layer each: the project's dependencies, requirements.txt, the `requirements` flag."""
UPGRADED_FOLDER = "more-requirements"
PACKAGES_FOLDER = "packages"
EXTRA_FOLDER = "extra-dirs"
CODE_FOLDER = "code"
REQUIREMENTS_NAME = "requirements.txt"
BESIDE_NAME = ".requirements.txt"
"""In the folder of packages, where `*` passes over it: the lines that name one of them."""
USER_ARGUMENT = "BASE_USER"
"""The build argument that says which user the base image runs as."""

_PREBUILT = re.compile(
    r"(?:us|europe|asia)-docker\.pkg\.dev/vertex-ai/training/(?:tf|scikit-learn|sklearn|pytorch|xgboost)-.+"
)
_CACHE_FOLDER = "/tmp/pip-cache"
_MOUNTS = f"--mount=type=cache,id=vtrain-pip,target={_CACHE_FOLDER} {PIP_MOUNT}"
_TOOLS = f"{INSTALL_FOLDER}/build-tools"
_REQUIREMENT_LAYERS = (
    (TOOLS_FOLDER, f"--target {_TOOLS} "),
    *((folder, "--upgrade " if folder == UPGRADED_FOLDER else "") for folder in REQUIREMENTS_FOLDERS),
)
_PROJECT_COPY = "/tmp/project"
_HEAD = """\
# Written by vtrain. Its build context has the folders that COPY names; see `vtrain package image --help`.
FROM {base}

# Some bases run as a user who may not install; the image returns to that user at the end.
USER 0

# World-writable, since the user of the container may be any.
RUN mkdir -p {folder} {home} && chmod 777 {folder} {home}
WORKDIR {folder}
ENV HOME={home}
ENV PYTHONDONTWRITEBYTECODE=1
"""
_LOGGING_HOOK = """
# Pre-built images carry a logging hook that only works on Vertex AI.
RUN rm -rf /var/sitecustomize
"""


def is_prebuilt(base: str) -> bool:
    """Whether the base is one of Vertex AI's pre-built training images, by gcloud's own pattern."""
    return _PREBUILT.fullmatch(base) is not None


def image_entrypoint(
    base: str, path: str, module: str = "", interpreter: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The command of an image, as in gcloud: `python -m MODULE`, `python FILE.py` or `/bin/bash FILE`.

    A file that names its own `interpreter` runs in that.
    """
    python = "python3" if is_prebuilt(base) else "python"
    if module:
        return (python, "-m", module)
    shown = f"./{path}" if path.startswith("-") else path
    return (*(interpreter or (python,)), shown)


def write_dockerfile(
    trainer: SdistPlan,
    requirements: ImageRequirements,
    base: str,
    entrypoint: tuple[str, ...],
    folders: Collection[str],
    *,
    plain: bool,
) -> str:
    """The Dockerfile of a trainer whose build context holds these `folders`.

    `plain` is for the classic builder, which has no cache mounts.
    """
    word = "pip3" if is_prebuilt(base) else "pip"
    install = f"{word} install {'--no-cache-dir' if plain else f'--cache-dir={_CACHE_FOLDER}'}"
    run = "RUN" if plain else f"RUN {_MOUNTS}"
    project = trainer.project if trainer.project is not None and trainer.project.is_package else None
    parts = [_HEAD.format(base=base, folder=WORKING_FOLDER, home=HOME_FOLDER)]
    parts += [_LOGGING_HOOK] if is_prebuilt(base) else []
    if project is not None or not {TOOLS_FOLDER, *REQUIREMENTS_FOLDERS, PACKAGES_FOLDER}.isdisjoint(folders):
        parts.append(f"\n{PIP_ARGUMENT}\n" + f"{PIP_COPY}\n" * plain)
    for folder, options in _REQUIREMENT_LAYERS:
        if folder in folders:
            target = f"{INSTALL_FOLDER}/{folder}"
            parts.append(f"{_copy(folder, target)}{run} {install} {options}-r {target}/{REQUIREMENTS_NAME}\n")
    if PACKAGES_FOLDER in folders:
        target = f"{INSTALL_FOLDER}/{PACKAGES_FOLDER}"
        lines = f" -r {target}/{BESIDE_NAME}" if requirements.beside else ""
        local = (each.project for each in trainer.local if each.project is not None)
        versions = dict.fromkeys(f"{name}=0+vtrain " for each in local for name in version_variables(each))
        before = f"{_copy(PACKAGES_FOLDER, target)}{run} {''.join(versions)}"
        parts.append(f"{before}{install} {target}/*{lines}\n")
    parts += [_copy(folder, ".") for folder in (EXTRA_FOLDER, CODE_FOLDER) if folder in folders]
    if project is not None:
        # From a copy: back ends leave their folders where they build. What is known of its dependencies and
        # build requirements is in a layer below.
        options = "" if project.dependencies is None else "--no-deps "
        settings = [f"{name}=0+vtrain " for name in version_variables(project)]
        if requirements.tools:
            options += "--no-build-isolation "
            settings.append(f"PYTHONPATH={_TOOLS} ")
        before = f"cp -R {WORKING_FOLDER} {_PROJECT_COPY} && {''.join(settings)}"
        parts.append(f"{run} {before}{install} {options}{_PROJECT_COPY} && rm -rf {_PROJECT_COPY}\n")
    parts.append(f"\nARG {USER_ARGUMENT}=0\nUSER ${{{USER_ARGUMENT}}}\n")
    parts.append(f"ENTRYPOINT {json.dumps(entrypoint)}\n")
    return "".join(parts)


def _copy(folder: str, target: str) -> str:
    return f"\nCOPY {json.dumps([f'{folder}/', f'{target}/'])}\n"


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
    """The installations of an image, group by group, each in its own layer.

    `tools` are the build requirements of the project, where they can be installed before its sources are
    there. The lines `beside` name packages that are at hand, and are read with these: an index may have
    others of their names.
    """

    tools: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
    file: Requirements = Requirements()
    given: Requirements = Requirements()
    beside: tuple[str, ...] = ()

    @property
    def merged(self) -> Requirements:
        """All requirements but the project's own, for the check of imports."""
        return Requirements(lines=tuple(dict.fromkeys((*self.file.lines, *self.given.lines))))

    @property
    def indexes(self) -> frozenset[str]:
        """The values of pip's options, indexes among them."""
        options = (line for line in (*self.file.pip_lines, *self.given.pip_lines) if line.startswith("-"))
        return frozenset(re.split(r"[=\s]+", line, maxsplit=1)[-1].strip() for line in options)

    def for_trainer(self, trainer: SdistPlan) -> ImageRequirements:
        """With what the trainer's project needs, and with the lines that name packages at hand beside those.

        The project needs its dependencies, as far as they are known, and build requirements, where its back
        end asks for no more than pyproject.toml says. What a script's comments ask for goes with them.
        """
        tools: tuple[str, ...] = ()
        own: tuple[str, ...] = ()
        project, names = trainer.project, trainer.beside
        if project is not None:
            own = read_given(project.dependencies or (), "the project's dependencies").pip_lines
            if project.is_package and project.backend in _PLAIN_BACKENDS:
                wheel = ("wheel",) if project.backend.startswith("setuptools.") else ()
                tools = read_given((*project.build_requires, *wheel)).pip_lines

        def others(lines: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(line for line in lines if distribution_name(line) not in names)

        own = tuple(dict.fromkeys((*own, *trainer.inline)))
        lines = (*own, *self.file.pip_lines, *self.given.pip_lines)
        return ImageRequirements(
            tools=tools,
            project=others(own),
            file=msgspec.structs.replace(self.file, pip_lines=others(self.file.pip_lines)),
            given=msgspec.structs.replace(self.given, pip_lines=others(self.given.pip_lines)),
            beside=tuple(dict.fromkeys(line for line in lines if distribution_name(line) in names)),
        )

    def members(self) -> Iterator[Member]:
        """The files of the context that pip reads."""
        if self.beside:
            yield _text_member(
                f"{PACKAGES_FOLDER}/{BESIDE_NAME}", "".join(f"{line}\n" for line in self.beside)
            )
        own = (Requirements(pip_lines=self.tools), Requirements(pip_lines=self.project))
        groups = zip((TOOLS_FOLDER, *REQUIREMENTS_FOLDERS), (*own, self.file, self.given), strict=True)
        for folder, group in groups:
            if group.pip_lines:
                yield _text_member(
                    f"{folder}/{REQUIREMENTS_NAME}", "".join(f"{line}\n" for line in group.pip_lines)
                )
                for name, text in group.constraints:
                    yield _text_member(f"{folder}/{name}", text)


def read_image_requirements(source: TrainerSource) -> ImageRequirements:
    """requirements.txt and the flag. Raises PackagingError for a line that pip could not read there."""
    file, given = read_requirements((), source.folder), read_given(source.requirements)
    _check_options(file, REQUIREMENTS_FILE)
    _check_options(given, "requirements")
    return ImageRequirements(file=file, given=given)


def _check_options(requirements: Requirements, where: str) -> None:
    written = {f"-c {name}" for name, _ in requirements.constraints}
    for line in requirements.pip_lines:
        if not line.startswith("-") or line in written:
            continue
        attached = _ATTACHED_VALUE.match(line)
        option = attached[0] if attached else re.split(r"[=\s]", line, maxsplit=1)[0]
        if option in _PATH_OPTIONS and "://" not in line:
            raise PackagingError(
                f"{where}: `{line}` is a path on this machine, which the image does not have.",
                hint="Name packages in extra-packages, and constraints in requirements.txt.",
            )


def context_members(trainer: SdistPlan, requirements: ImageRequirements) -> tuple[Member, ...]:
    """All files of the context, sorted by name."""
    members = [*requirements.members(), *runners(trainer.entry.path, f"{CODE_FOLDER}/")]
    for extra in trainer.extra_packages:
        name = f"{PACKAGES_FOLDER}/{extra.path.name}"
        members.append(Member(name=name, content=extra.path, digest=extra.digest))
    for project in trainer.local:
        folder = f"{PACKAGES_FOLDER}/{project.name}"
        members += [file.member(project.source.folder, f"{folder}/{file.path}") for file in project.files]
    inside = tuple(f"{folder}/" for folder in trainer.extra_dirs)
    for file in trainer.files:
        folder = EXTRA_FOLDER if inside and file.path.startswith(inside) else CODE_FOLDER
        members.append(file.member(trainer.source.folder, f"{folder}/{file.path}"))
    return tuple(sorted(members, key=lambda member: member.name))


def _text_member(name: str, text: str) -> Member:
    content = text.encode()
    return Member(name=name, content=content, digest=content_digest(content))
