"""Sources of a project's dependencies that its own tool names, and that a package's metadata cannot hold.

A project in another folder is built, and goes beside the trainer. Where another package would take the place
of a dependency, that is refused. Settings that only select versions are ignored, and named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from vtrain.errors import PackagingError
from vtrain.packaging.project import ProjectFile, has_setup, read_project_file, read_toml
from vtrain.project_names import canonical
from vtrain.toml_reader import listed, table_of, tables_in
from vtrain.uv_program import PYPI, indexes_in

_SELECTING = (
    *("constraint-dependencies", "override-dependencies", "exclude-dependencies"),
    *("exclude-newer", "exclude-newer-package", "resolution", "prerelease"),
)
"""Settings of uv that select versions."""
_LOCKS = {
    "uv.lock": "uv export --no-hashes --no-emit-local -o requirements.txt",
    "poetry.lock": "poetry export --without-hashes -o requirements.txt",
    "pdm.lock": "pdm export --without-hashes -o requirements.txt",
}
"""Lock files, and what writes their versions where vtrain reads them."""
_PYTHONS = tuple(f"3.{minor}" for minor in range(9, 15))
_LINUX = {"os_name": "posix", "platform_system": "Linux", "sys_platform": "linux"}
_LOGIN = re.compile(r"(?<=://)[^/\s]+@")


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Projects by name, and archives, to install beside the trainer: those first that others need.

    `ignored` are sentences about settings that a package cannot carry.
    """

    projects: dict[str, Path] = {}
    archives: tuple[Path, ...] = ()
    ignored: tuple[str, ...] = ()


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A trainer's requirements; `is_complete` unless its back end alone knows more.

    Packages that are given bring the distributions `brought`. Where it is installed, maybe `in_image`, the
    `indexes` are known.
    """

    requirements: tuple[str, ...]
    is_complete: bool = True
    brought: frozenset[str] = frozenset()
    indexes: frozenset[str] = frozenset()
    in_image: bool = False


def find_sources(folder: Path, wanted: Wanted) -> Sources:
    """The sources of a trainer's dependencies, and of those that lie in folders too.

    Raises PackagingError where the package would take another distribution than the project's tool does.
    """
    finder = _Finder(folder, wanted)
    requirements = _Requirements(wanted.requirements, is_complete=wanted.is_complete)
    finder.visit(folder, requirements, frozenset())
    return Sources(
        projects=finder.projects,
        archives=tuple(dict.fromkeys(finder.archives)),
        ignored=tuple(dict.fromkeys(finder.ignored)),
    )


def applies(marker: Any) -> bool:
    """Whether a marker (None: no condition) may hold where a trainer runs: on Linux, or on this machine."""
    from packaging.markers import default_environment

    here = {name: str(value) for name, value in default_environment().items()}
    places = [{**here, **there, "extra": ""} for there in ({}, _LINUX)]
    versions = [{"python_version": version, "python_full_version": f"{version}.0"} for version in _PYTHONS]
    return marker is None or any(marker.evaluate(place | it) for place in places for it in ({}, *versions))


class _Requirements:
    """Requirements by the canonical names of what they name, each with the extras that are asked for."""

    def __init__(self, lines: Iterable[str], *, is_complete: bool) -> None:
        from packaging.requirements import InvalidRequirement, Requirement

        self.is_complete = is_complete
        self.extras: dict[str, set[str]] = {}
        self.pinned: set[str] = set()
        for line in lines:
            try:
                requirement = Requirement(line)
            except InvalidRequirement:  # the back end refuses it
                continue
            name = canonical(requirement.name)
            if requirement.url or any(each.operator in ("==", "===") for each in requirement.specifier):
                self.pinned.add(name)
            if not requirement.url and applies(requirement.marker):
                self.extras.setdefault(name, set()).update(map(canonical, requirement.extras))


class _Workspace:
    """uv's settings for a project: those of its own file, and of the workspace that it is a member of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = read_project_file(folder)
        self.root, self.root_file = folder, self.file
        for place in (folder, *folder.parents) if _has_file(folder) else ():
            found = self.file if place == folder else _workspace_file(place)
            if "workspace" in table_of(found.tool, "uv"):
                if place == folder or folder in _member_folders(place, found):
                    self.root, self.root_file = place, found
                break

    @cached_property
    def members(self) -> dict[str, Path]:
        """The projects of the workspace, by canonical name."""
        if "workspace" not in table_of(self.root_file.tool, "uv"):
            return {}
        files = {self.root: self.root_file}
        files |= {folder: read_project_file(folder) for folder in _member_folders(self.root, self.root_file)}
        return {canonical(file.table.name): folder for folder, file in files.items() if file.table.name}

    @cached_property
    def sources(self) -> dict[str, tuple[Path, list[dict[str, Any]]]]:
        """The sources of dependencies by canonical name, with the folder whose file says them."""
        found = {}
        for folder, file in ((self.root, self.root_file), (self.folder, self.file)):
            for name, said in table_of(file.tool, "uv", "sources").items():
                found[canonical(name)] = folder, tables_in(listed(said))
        return found

    @cached_property
    def settings(self) -> tuple[Path, dict[str, Any]]:
        """The file of uv's other settings, and what it says: uv.toml replaces the table."""
        own = self.root / "uv.toml"
        if own.is_file():
            return own, read_toml(own, dict[str, Any])
        return self.root / "pyproject.toml", table_of(self.root_file.tool, "uv")


def _workspace_file(folder: Path) -> ProjectFile:
    """The pyproject.toml of a folder above a project, if it may describe a workspace."""
    with suppress(PackagingError, OSError, ValueError):  # of no concern to this project
        if _has_file(folder) and "workspace" in (folder / "pyproject.toml").read_text("utf-8"):
            return read_project_file(folder)
    return ProjectFile()


def _member_folders(root: Path, file: ProjectFile) -> list[Path]:
    """The folders of a workspace's members, without its root."""
    workspace = table_of(file.tool, "uv", "workspace")
    found: dict[str, dict[Path, None]] = {"members": {}, "exclude": {}}
    for key, folders in found.items():
        for pattern in listed(workspace.get(key)):
            with suppress(ValueError, NotImplementedError, IndexError):  # of a pattern that uv refuses
                folders |= dict.fromkeys(map(Path, map(os.path.realpath, sorted(root.glob(str(pattern))))))
    return [path for path in found["members"] if _has_file(path) and path not in found["exclude"]]


def _has_file(folder: Path) -> bool:
    """Whether a folder has a pyproject.toml."""
    return (folder / "pyproject.toml").is_file()


class _Finder:
    def __init__(self, top: Path, wanted: Wanted) -> None:
        self.top = Path(os.path.realpath(top))
        self.wanted = wanted
        self.projects: dict[str, Path] = {}
        self.archives: list[Path] = []
        self.ignored: list[str] = []
        self.visited = {self.top}

    def visit(self, folder: Path, requirements: _Requirements, extras: frozenset[str]) -> None:
        """Look for the sources of a project's requirements, with these extras of its own."""
        folder = Path(os.path.realpath(folder))
        workspace = _Workspace(folder)
        names = set(requirements.extras)
        if not requirements.is_complete:
            names |= workspace.sources.keys()
        elsewhere = False
        for name in sorted(names - self.wanted.brought):
            base, entries = workspace.sources.get(name, (workspace.root, []))
            entries = [entry for entry in entries if _is_meant(entry, extras)]
            if not entries and name in workspace.members:
                entries = [{"workspace": True}]
            for entry in entries:
                self._take(name, entry, base, workspace, requirements.extras.get(name, set()))
            elsewhere = elsewhere or not entries
        if folder == self.top and (elsewhere or not requirements.is_complete):  # of others tools read none
            self._check_indexes(workspace)
            self._name_ignored(workspace, requirements, names)
        self._check_poetry(folder, workspace.file, names, is_complete=requirements.is_complete)

    def _take(
        self, name: str, entry: dict[str, Any], base: Path, workspace: _Workspace, extras: set[str]
    ) -> None:
        place = f"{self._shown(base / 'pyproject.toml')}: [tool.uv.sources]"
        if entry.get("workspace"):
            found = workspace.members.get(name)
            if found is None:
                raise PackagingError(f"{place} takes {name} from a workspace, and none has it here.")
            self._add(name, found, place, extras)
        elif isinstance(entry.get("path"), str) and "subdirectory" not in entry:
            found = Path(os.path.realpath(base / entry["path"]))
            if entry.get("package") is False:
                self._refuse(place, name, f"{entry['path']}, which is no package")
            if found.is_file():
                self.archives.append(found)
            else:
                self._add(name, found, place, extras)
        elif isinstance(index := entry.get("index"), str):
            tables = (table_of(workspace.file.tool, "uv"), workspace.settings[1])
            named = (each for table in tables for each in tables_in(table.get("index")))
            url = next((str(each.get("url")) for each in named if each.get("name") == index), "")
            if not self._knows(url):
                self._refuse_index(f"{place} takes {name} from the index {index}", url)
        else:
            key = next((key for key in ("git", "url", "path") if key in entry), "another place")
            self._refuse(place, name, f"{key} = {_LOGIN.sub('', str(entry.get(key, '')))!r}")

    def _add(self, name: str, folder: Path, place: str, extras: set[str]) -> None:
        """Add a project, after those that it needs itself."""
        folder = Path(os.path.realpath(folder))
        shown = self._shown(folder)
        if not _has_file(folder) and not (folder.is_dir() and has_setup(folder)):
            what = "holds no project" if folder.is_dir() else "is not there"
            raise PackagingError(
                f"{place} takes {name} from {shown}, which {what}.", hint="Correct the path."
            )
        other = self.projects.get(name, folder)
        if other != folder:
            raise PackagingError(
                f"{place} takes {name} from {shown}, and {self._shown(other)} is another one."
            )
        if folder in self.visited:
            return
        self.visited.add(folder)
        file = read_project_file(folder)
        if table_of(file.tool, "uv").get("package") is False:
            self._refuse(place, name, f"{shown}, which is no package")
        own, optional = file.table.dependencies, file.table.optional_dependencies
        lines = [
            *(own or ()),
            *(line for extra in optional if canonical(extra) in extras for line in optional[extra]),
        ]
        self.visit(folder, _Requirements(lines, is_complete=own is not None), frozenset(extras))
        self.projects[name] = folder

    def _check_indexes(self, workspace: _Workspace) -> None:
        """Refuse indexes that may have any of the dependencies."""
        path, settings = workspace.settings
        shown, tool = self._shown(path), workspace.file.tool
        prefix = "" if path.name == "uv.toml" else "tool.uv."
        found = [
            (f"{shown}: {prefix}{key}", url)
            for table in (settings, table_of(settings, "pip"))
            for key, url in indexes_in(table, explicit=False)
        ]
        shown = self._shown(workspace.folder / "pyproject.toml")
        for key, tables in (
            ("tool.poetry.source", table_of(tool, "poetry").get("source")),
            ("tool.pdm.source", table_of(tool, "pdm").get("source")),
            ("tool.rye.sources", table_of(tool, "rye").get("sources")),
        ):
            found += [
                (f"{shown}: {key}", str(each["url"]))
                for each in tables_in(tables)
                if "url" in each and each.get("priority") != "explicit"
            ]
        for place, url in found:
            if not self._knows(url):
                self._refuse_index(f"{place} names an index", url)

    def _knows(self, url: str) -> bool:
        return _normal(url) in {_normal(known) for known in (PYPI, *self.wanted.indexes)}

    def _refuse_index(self, problem: str, url: str) -> None:
        url = _LOGIN.sub("", url) or "URL"
        advice = f"Set PIP_EXTRA_INDEX_URL={url} (for Vertex AI with --env)"
        if self.wanted.in_image:
            advice = f"Write `--extra-index-url {url}` in requirements.txt"
        raise PackagingError(
            f"{problem}, {url}, which pip does not know where the trainer runs: it would take another one.",
            hint=f"{advice}, or give --extra-packages=FILE.",
        )

    def _refuse(self, place: str, name: str, source: str) -> None:
        raise PackagingError(
            f"{place} takes {name} from {source}; the package would take it from the index.",
            hint=f"Build it and give --extra-packages=FILE, or write `{name} @ URL` in the dependencies.",
        )

    def _check_poetry(self, folder: Path, file: ProjectFile, names: set[str], *, is_complete: bool) -> None:
        """Refuse Poetry's dependencies on paths, and on indexes that are for them alone."""
        poetry = table_of(file.tool, "poetry")
        place = f"{self._shown(folder / 'pyproject.toml')}: [tool.poetry.dependencies]"
        for name, said in table_of(poetry, "dependencies").items():
            for each in tables_in(listed(said)):
                if each.get("optional"):
                    continue
                if "path" in each:
                    raise PackagingError(
                        f"{place} takes {name} from {each['path']}, which it alone can see.",
                        hint=f'Write {name} = "*", build it, and give --extra-packages=FILE.',
                    )
                is_wanted = canonical(name) in names or not is_complete
                if "source" in each and is_wanted and canonical(name) not in self.wanted.brought:
                    sources = tables_in(poetry.get("source"))
                    urls = [str(one.get("url", PYPI)) for one in sources if one.get("name") == each["source"]]
                    if not all(map(self._knows, urls)):
                        self._refuse_index(f"{place} takes {name} from the index {each['source']}", urls[0])

    def _name_ignored(self, workspace: _Workspace, requirements: _Requirements, names: set[str]) -> None:
        """Name the settings that select versions of what comes from an index."""
        path, settings = workspace.settings
        no_place = "is ignored, a package's metadata has no place for it"
        self.ignored += [f"{self._shown(path)}: {key} {no_place}" for key in _SELECTING if settings.get(key)]
        overrides = table_of(workspace.file.tool, "pdm", "resolution").get("overrides")
        if overrides:
            self.ignored.append(f"{self._shown(workspace.folder / 'pyproject.toml')}: overrides {no_place}")
        local = self.wanted.brought | self.projects.keys()
        if requirements.is_complete and names <= requirements.pinned | local:
            return
        for place in dict.fromkeys((workspace.folder, workspace.root)):
            for lock, command in _LOCKS.items():
                if (place / lock).is_file():
                    self.ignored.append(f"{self._shown(place / lock)} {no_place}; `{command}` takes it along")

    def _shown(self, path: Path) -> str:
        return os.path.relpath(path, self.top)


def _is_meant(entry: dict[str, Any], extras: frozenset[str]) -> bool:
    """Whether a source of uv is for a project with these extras, and for a machine that may train."""
    from packaging.markers import InvalidMarker, Marker

    if "group" in entry or canonical(str(entry.get("extra", ""))) not in extras | {""}:
        return False
    try:
        return applies(Marker(str(entry["marker"])) if entry.get("marker") else None)
    except InvalidMarker:
        return True


def _normal(url: str) -> str:
    return _LOGIN.sub("", url).rstrip("/").lower()
