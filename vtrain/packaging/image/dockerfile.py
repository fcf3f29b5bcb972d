"""The text of a generated Dockerfile: layers ordered by how seldom they change, the code last.

No name or requirement of the user stands in it, but for the base image and the entry point: those travel as
files of the build context, whose folders have fixed names. So nothing that is quoted can be quoted wrongly.
"""

from __future__ import annotations

import json
import re

import msgspec

WORKING_FOLDER = "/usr/app"
HOME_FOLDER = "/home"
INSTALL_FOLDER = "/opt/vtrain"
"""Where requirements and extra packages lie in the image."""

TOOLS_FOLDER = "build-requirements"
"""A folder of the build context: what the project's back end needs while it builds."""
REQUIREMENTS_FOLDERS = ("dependencies", "requirements", "more-requirements")
"""Further ones, a layer each: the project's dependencies, requirements.txt, the `requirements` flag."""
UPGRADED_FOLDER = "more-requirements"
PACKAGES_FOLDER = "packages"
EXTRA_FOLDER = "extra-dirs"
CODE_FOLDER = "code"
REQUIREMENTS_NAME = "requirements.txt"
USER_ARGUMENT = "BASE_USER"
"""The build argument that says which user the base image runs as."""

_PREBUILT = re.compile(
    r"(?:us|europe|asia)-docker\.pkg\.dev/vertex-ai/training/(?:tf|scikit-learn|sklearn|pytorch|xgboost)-.+"
)
_CACHE_FOLDER = "/tmp/pip-cache"
_CACHE_MOUNT = f"--mount=type=cache,id=vtrain-pip,target={_CACHE_FOLDER}"
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


class ProjectLayer(msgspec.Struct, frozen=True, kw_only=True):
    """`alone`: its dependencies are in a layer below; `tools_below`: so are its build requirements.

    `variables` are set, to a version, while it builds.
    """

    alone: bool
    tools_below: bool = False
    variables: tuple[str, ...] = ()


class Layers(msgspec.Struct, frozen=True, kw_only=True):
    """What a generated Dockerfile has to bring in; `folders` are those that the build context holds.

    `project` is how the folder's own project is installed; None where there is nothing to install.
    """

    base: str
    folders: frozenset[str]
    entrypoint: tuple[str, ...]
    project: ProjectLayer | None = None


def is_prebuilt(base: str) -> bool:
    """Whether the base is one of Vertex AI's pre-built training images, as gcloud tells them."""
    return _PREBUILT.fullmatch(base) is not None


def image_entrypoint(base: str, path: str, module: str = "") -> tuple[str, ...]:
    """What an image runs: `python -m MODULE`, `python FILE.py` or `/bin/bash FILE`, as gcloud has it."""
    python = "python3" if is_prebuilt(base) else "python"
    if module:
        return (python, "-m", module)
    shown = f"./{path}" if path.startswith("-") else path
    return (python, shown) if path.endswith(".py") else ("/bin/bash", shown)


def write_dockerfile(layers: Layers, *, plain: bool) -> str:
    """The Dockerfile; `plain` is for the classic builder, which has no cache mounts."""
    parts = [_HEAD.format(base=layers.base, folder=WORKING_FOLDER, home=HOME_FOLDER)]
    parts += [_LOGGING_HOOK] if is_prebuilt(layers.base) else []
    pip = _Pip("pip3" if is_prebuilt(layers.base) else "pip", plain)
    for folder, options in _REQUIREMENT_LAYERS:
        if folder in layers.folders:
            target = f"{INSTALL_FOLDER}/{folder}"
            parts.append(_copy(folder, target) + pip.run(f"{options}-r {target}/{REQUIREMENTS_NAME}"))
    if PACKAGES_FOLDER in layers.folders:
        target = f"{INSTALL_FOLDER}/{PACKAGES_FOLDER}"
        parts.append(_copy(PACKAGES_FOLDER, target) + pip.run(f"{target}/*"))
    parts += [_copy(folder, ".") for folder in (EXTRA_FOLDER, CODE_FOLDER) if folder in layers.folders]
    if layers.project is not None:
        parts.append(_install_project(pip, layers.project))
    parts.append(f"\nARG {USER_ARGUMENT}=0\nUSER ${{{USER_ARGUMENT}}}\n")
    parts.append(f"ENTRYPOINT {json.dumps(layers.entrypoint)}\n")
    return "".join(parts)


class _Pip:
    """`RUN pip install …`, with a cache that the engine keeps where the builder can mount one."""

    def __init__(self, word: str, plain: bool) -> None:
        mount = "" if plain else f"{_CACHE_MOUNT} "
        cache = "--no-cache-dir" if plain else f"--cache-dir={_CACHE_FOLDER}"
        self.start = f"RUN {mount}"
        self.install = f"{word} install {cache}"

    def run(self, what: str, before: str = "", after: str = "") -> str:
        return f"{self.start}{before}{self.install} {what}{after}\n"


def _install_project(pip: _Pip, project: ProjectLayer) -> str:
    """From a copy, since back ends leave their folders where they build."""
    options = "--no-deps " if project.alone else ""
    options += "--no-build-isolation " if project.tools_below else ""
    settings = [f"{name}=0+vtrain" for name in project.variables]
    settings += [f"PYTHONPATH={_TOOLS}"] if project.tools_below else []
    return pip.run(
        f"{options}{_PROJECT_COPY}",
        before=" ".join([f"cp -R {WORKING_FOLDER} {_PROJECT_COPY} &&", *settings, ""]),
        after=f" && rm -rf {_PROJECT_COPY}",
    )


def _copy(folder: str, target: str) -> str:
    return f"\nCOPY {json.dumps([f'{folder}/', f'{target}/'])}\n"
