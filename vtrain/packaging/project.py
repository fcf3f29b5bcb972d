"""The metadata of a project, read without a build: in a folder's project files, and in a script (PEP 723)."""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterable
from importlib.util import decode_source
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from vtrain.errors import PackagingError
from vtrain.packaging.module_imports import LARGEST_SOURCE, UNREADABLE, parse
from vtrain.packaging.notebooks import source_of
from vtrain.special_files import why_special
from vtrain.text_files import why_not_utf8
from vtrain.toml_reader import listed, load_toml, table_of, toml_text

T = TypeVar("T")

DEFAULT_BACKEND = "setuptools.build_meta:__legacy__"
DEFAULT_BUILD_REQUIRES = ("setuptools >= 40.8.0",)
_SCM_TOOLS = ("setuptools-scm", "setuptools_scm", "hatch-vcs", "pdm-backend", "pbr", "versioningit")
"""Tools that read the version from version control, which a copy of the files does not have."""
_SCM_VARIABLES = ("SETUPTOOLS_SCM_PRETEND_VERSION", "PDM_BUILD_SCM_VERSION", "PBR_VERSION")
_INLINE_START, _INLINE_END = "# /// script", "# ///"


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """A folder with a project's files.

    `dependencies` is None where only the back end knows them. The PEP 517 back end builds it if it
    `is_package`; else its files lie bare, beside what it depends on.
    """

    name: str = ""
    dependencies: tuple[str, ...] | None = ()
    build_requires: tuple[str, ...] = DEFAULT_BUILD_REQUIRES
    backend: str = DEFAULT_BACKEND
    requires_python: str = ""
    is_package: bool = True


class _ProjectTable(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The fields of `[project]` that are read; `dependencies` is None where they are not written there."""

    name: str = ""
    dependencies: tuple[str, ...] | None = None
    optional_dependencies: dict[str, tuple[str, ...]] = {}
    dynamic: tuple[str, ...] = ()
    requires_python: str = ""


class _BuildSystem(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    requires: tuple[str, ...] = DEFAULT_BUILD_REQUIRES
    build_backend: str = DEFAULT_BACKEND


class ProjectFile(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A pyproject.toml, as far as it is read."""

    project: _ProjectTable | None = None
    build_system: _BuildSystem | None = None
    tool: dict[str, Any] = {}

    @property
    def table(self) -> _ProjectTable:
        """`[project]`, empty where the file has none."""
        return self.project or _ProjectTable()


_POETRY = _BuildSystem(requires=("poetry-core",), build_backend="poetry.core.masonry.api")


def read_project(folder: Path) -> Project | None:
    """The project in the folder; None for a bare folder. Raises PackagingError for files that are wrong.

    A pyproject.toml that only configures tools (no [build-system], no [project]) makes no project, nor does
    an empty setup.py, which names no package.
    """
    pyproject = read_project_file(folder)
    is_poetry = "dependencies" in table_of(pyproject.tool, "poetry")  # its applications need no build system
    if not (pyproject.project or pyproject.build_system or has_setup(folder) or is_poetry):
        return None
    table = pyproject.table
    system = pyproject.build_system or (_POETRY if is_poetry else _BuildSystem())
    return Project(
        name=table.name or _setup_cfg(folder).get("metadata", "name", fallback=""),
        dependencies=_dependencies(folder, pyproject, system.build_backend),
        build_requires=system.requires,
        backend=system.build_backend,
        requires_python=(
            table.requires_python or _setup_cfg(folder).get("options", "python_requires", fallback="")
        ),
        is_package=_is_package(folder, pyproject),
    )


def _is_package(folder: Path, pyproject: ProjectFile) -> bool:
    """Whether the project can be built, or says that it is to be.

    Many only list dependencies, beside modules and other folders at the root: `uv init` writes no build
    system, and setuptools, which would be used, refuses such a folder. Python finds the modules without.
    """
    tool, system = pyproject.tool, pyproject.build_system or _BuildSystem()
    uv = table_of(tool, "uv").get("package")
    if table_of(tool, "poetry").get("package-mode") is False:
        return False
    if has_setup(folder) or (folder / "src").is_dir() or uv is True:
        return True
    is_virtual = (
        table_of(tool, "pdm").get("distribution") is False or table_of(tool, "rye").get("virtual") is True
    )
    return system.build_backend != DEFAULT_BACKEND and uv is not False and not is_virtual


def _check_readable(path: Path) -> None:
    if reason := why_special(path):
        raise PackagingError(f"{path.name} in {path.parent} cannot be read: {reason}.")


def read_project_file(folder: Path) -> ProjectFile:
    """The tables of a folder's pyproject.toml; all empty where it has none. Raises PackagingError."""
    path = folder / "pyproject.toml"
    _check_readable(path)
    return read_toml(path, ProjectFile) if path.is_file() else ProjectFile()


def read_toml(path: Path, kind: type[T]) -> T:
    """The document in a file, as a message of this kind. Raises PackagingError."""
    where = f"{path.name} in {path.parent}"
    try:
        text = toml_text(path.read_bytes())
    except ValueError as error:
        raise PackagingError(f"{where} is not TOML: {error}.") from None
    return _converted(text, kind, where)


def _converted(text: str, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(load_toml(text), kind)
    except msgspec.ValidationError as error:
        words = str(error).replace("object", "table").replace(" | null", "")
        problem, _, place = words.partition(" - at `$.")
        found = f"{place.rstrip('`')}: {problem[:1].lower()}{problem[1:]}"
        raise PackagingError(f"{where} is wrong at {found}.") from None
    except ValueError as error:
        raise PackagingError(f"{where} is not TOML: {error}.") from None
    except RecursionError:
        raise PackagingError(f"{where} is nested too deeply.") from None


def _setup_cfg(folder: Path) -> configparser.ConfigParser:
    _check_readable(folder / "setup.cfg")
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(folder / "setup.cfg", encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        reason = why_not_utf8((folder / "setup.cfg").read_bytes()) or str(error).splitlines()[0]
        raise PackagingError(f"setup.cfg in {folder} cannot be read: {reason}.") from None
    return parser


def has_setup(folder: Path) -> bool:
    """Whether a setup.py is not empty, or a setup.cfg describes a project and not only its tools."""
    script = folder / "setup.py"
    if script.is_file() and script.read_bytes().strip():
        return True
    return (folder / "setup.cfg").is_file() and _setup_cfg(folder).has_option("metadata", "name")


def _dependencies(folder: Path, pyproject: ProjectFile, backend: str) -> tuple[str, ...] | None:
    table = pyproject.table
    if table.dependencies is not None:
        return table.dependencies
    poetry = table_of(pyproject.tool, "poetry")
    if "dependencies" in poetry or (poetry and not table.name):
        return None
    if pyproject.project is not None and "dependencies" not in table.dynamic:
        return ()
    if not backend.startswith("setuptools."):
        return None
    dynamic = table_of(pyproject.tool, "setuptools", "dynamic", "dependencies")
    if files := dynamic.get("file"):
        return _listed_in(folder, map(str, listed(files)))
    written = _setup_cfg(folder).get("options", "install_requires", fallback="")
    if written.strip().startswith("file:"):
        return _listed_in(folder, written.strip().removeprefix("file:").split(","))
    if written.strip():
        # A value on the line of its key is split at each semicolon; in lines below, one begins a marker.
        return _without_comments(written.splitlines() if "\n" in written else written.split(";"))
    if (folder / "setup.py").is_file():
        return _install_requires(folder / "setup.py")
    return None if table.dynamic else ()


def _listed_in(folder: Path, files: Iterable[str]) -> tuple[str, ...] | None:
    """The requirements in files as setuptools reads them, which knows no options there; None for others."""
    try:
        texts = [(folder / name.strip()).read_text("utf-8") for name in files]
    except (OSError, ValueError):
        return None
    lines = _without_comments(line for text in texts for line in text.splitlines())
    return None if any(line.startswith("-") for line in lines) else lines


def _without_comments(lines: Iterable[str]) -> tuple[str, ...]:
    """The requirements in lines as setuptools reads them, which knows comments in each."""
    return tuple(text for line in lines if (text := re.split(r"(?:^| )#", line.strip())[0].strip()))


def _install_requires(setup: Path) -> tuple[str, ...] | None:
    """The `install_requires` of a setup.py that writes it out; None when it is computed."""
    try:
        tree = parse(setup.read_bytes())
    except UNREADABLE:
        return None
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    calls = [
        node for node in nodes if "setup" in (getattr(node.func, "attr", ""), getattr(node.func, "id", ""))
    ]
    if len(calls) != 1 or any(keyword.arg is None for keyword in calls[0].keywords):
        return None
    given = [keyword.value for keyword in calls[0].keywords if keyword.arg == "install_requires"]
    return _strings(given[0], tree) if given else ()


def _strings(node: ast.expr, tree: ast.Module) -> tuple[str, ...] | None:
    """The requirements that an expression writes out; None where it computes them."""
    try:
        value = ast.literal_eval(_constant(node.id, tree) if isinstance(node, ast.Name) else node)
    except (TypeError, *UNREADABLE):
        return None
    if isinstance(value, str):
        value = value.splitlines()
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return _without_comments(value)
    return None


def _constant(name: str, tree: ast.Module) -> ast.expr:
    """The value of a name that a module assigns once and never changes. Raises ValueError for others."""
    values = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and any(getattr(to, "id", "") == name for to in node.targets)
    ]
    nodes = list(ast.walk(tree))
    names = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
    stored = [node for node in names if not isinstance(node.ctx, ast.Load)]
    # `REQUIRES.append(…)`, `REQUIRES[0] = …`
    reached = (node.value for node in nodes if isinstance(node, (ast.Attribute, ast.Subscript)))
    if len(values) != 1 or len(stored) != 1 or any(getattr(node, "id", "") == name for node in reached):
        raise ValueError(name)
    return values[0]


class InlineMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The block of metadata in a script's comments, as far as it is read."""

    dependencies: tuple[str, ...] = ()
    requires_python: str = ""
    tool: dict[str, Any] = {}


def inline_metadata(script: Path, shown: str) -> InlineMetadata | None:
    """The metadata in a script's comments; None without a block, and in a file that Python cannot read.

    Raises PackagingError for a block that is wrong, or a second one, and says where: in the `shown` file.
    """
    try:
        text = decode_source(source_of(script, shown)[:LARGEST_SOURCE])
    except (OSError, SyntaxError, ValueError, LookupError):  # which is an error where the script is read
        return None
    lines = iter(text.splitlines())
    found: InlineMetadata | None = None
    while _INLINE_START in lines:
        block = list(takewhile(lambda line: line == "#" or line.startswith("# "), lines))
        while block and block[-1] != _INLINE_END:
            block.pop()
        if not block:
            continue
        if found is not None:
            raise PackagingError(f"{shown} has two blocks of inline metadata.", hint="Keep one of them.")
        found = _converted(
            "\n".join(line[2:] for line in block[:-1]), InlineMetadata, f"Inline metadata of {shown}"
        )
    return found


def tool_versions(requires: tuple[str, ...]) -> tuple[str, ...] | None:
    """The build requirements as they are in this interpreter; None when one of them is missing."""
    from importlib.metadata import PackageNotFoundError, version

    from packaging.requirements import InvalidRequirement, Requirement

    found = []
    for text in requires:
        try:
            requirement = Requirement(text)
            if requirement.marker and not requirement.marker.evaluate():
                continue
            present = version(requirement.name)
        except InvalidRequirement as error:
            raise PackagingError(f"build-system.requires: `{text}` is not a requirement: {error}.") from None
        except PackageNotFoundError:
            return None
        if (
            requirement.url
            or requirement.extras
            or not requirement.specifier.contains(present, prereleases=True)
        ):
            return None
        found.append(f"{requirement.name}=={present}")
    return tuple(found)


def version_variables(project: Project) -> tuple[str, ...]:
    """Variables that give a version to build tools which ask version control for it; () for others."""
    requires = " ".join(project.build_requires)
    return _SCM_VARIABLES if any(tool in requires for tool in _SCM_TOOLS) else ()
