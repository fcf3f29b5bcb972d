"""uv's settings for a project: those of its own file, and of the workspace that it is a member of."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from vtrain.errors import PackagingError
from vtrain.packaging.project import ProjectFile, read_project_file, table_of
from vtrain.project_names import canonical


class Workspace:
    """The settings of uv for a project: its own, and those of the workspace that it is a member of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = read_project_file(folder)
        self.root, self.root_file = folder, self.file
        for place in (folder, *folder.parents) if has_file(folder) else ():
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
        return {
            canonical(file.project.name): folder
            for folder, file in files.items()
            if file.project is not None and file.project.name
        }

    @cached_property
    def sources(self) -> dict[str, tuple[Path, list[dict[str, Any]]]]:
        """The sources of dependencies by canonical name, with the folder whose file says them."""
        found = {}
        for folder, file in ((self.root, self.root_file), (self.folder, self.file)):
            for name, said in table_of(file.tool, "uv", "sources").items():
                listed = said if isinstance(said, list) else [said]
                found[canonical(name)] = folder, [each for each in listed if isinstance(each, dict)]
        return found

    @cached_property
    def settings(self) -> tuple[Path, dict[str, Any]]:
        """The file of uv's other settings, and what it says: uv.toml replaces the table."""
        own = self.root / "uv.toml"
        if own.is_file():
            toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
            try:
                return own, toml.loads(own.read_text("utf-8"))
            except ValueError as error:
                raise PackagingError(f"uv.toml in {self.root} is not TOML: {error}.") from None
        return self.root / "pyproject.toml", table_of(self.root_file.tool, "uv")


def _workspace_file(folder: Path) -> ProjectFile:
    """The pyproject.toml of a folder above a project, if it may describe a workspace."""
    with suppress(PackagingError, OSError, ValueError):  # of no concern to this project
        if has_file(folder) and "workspace" in (folder / "pyproject.toml").read_text("utf-8"):
            return read_project_file(folder)
    return ProjectFile()


def _member_folders(root: Path, file: ProjectFile) -> list[Path]:
    """The folders of a workspace's members, without its root."""
    workspace = table_of(file.tool, "uv", "workspace")
    found: dict[str, dict[Path, None]] = {"members": {}, "exclude": {}}
    for key, folders in found.items():
        for pattern in workspace.get(key) or ():
            with suppress(ValueError, NotImplementedError, IndexError):  # of a pattern that uv refuses
                folders |= dict.fromkeys(map(Path, map(os.path.realpath, sorted(root.glob(str(pattern))))))
    return [path for path in found["members"] if has_file(path) and path not in found["exclude"]]


def has_file(folder: Path) -> bool:
    """Whether a folder has a pyproject.toml."""
    return (folder / "pyproject.toml").is_file()
