"""A package that has to be built: by its own back end, once."""

from __future__ import annotations

import os
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from vtrain.atomic import scratch_folder
from vtrain.errors import PackagingError
from vtrain.packaging.archive import is_direct, read_metadata, unpack_direct
from vtrain.packaging.unpacking import project_folder, readable, unpack_tar, unpack_zip
from vtrain.runtime.environments.installer import Installer, InstallerFault, explain_build, run_logged
from vtrain.runtime.environments.interpreters import Interpreter, accepts_python, base_interpreter
from vtrain.runtime.environments.layers import EnvironmentFailed, ToolKilled


def build_wheel(
    package: Path, folder: Path, installer: Installer, interpreter: Interpreter, lock: int
) -> None:
    """Build an sdist's wheel into the folder; raises EnvironmentFailed with the back end's reason.

    Without isolation (0.3 s, no network) where it is for vtrain's own Python, and its build requirements are
    present there; else in an isolated environment, as pip does it.
    """
    own = interpreter == base_interpreter()
    with scratch_folder(folder.parents[2]) as scratch:
        try:
            source = _unpack(package, scratch)
            if source is None or not own or not _build_here(source, folder, installer, lock):
                installer.build(source or package, folder, interpreter.path, lock)
        except InstallerFault as fault:
            raise explain_build(fault, package.name) from fault


def _unpack(package: Path, scratch: Path) -> Path | None:
    """The sdist's project; None where this Python cannot unpack a tar file safely (before 3.10.12)."""
    if package.suffix != ".zip" and not hasattr(tarfile, "data_filter"):
        return None
    try:
        (unpack_zip if package.suffix == ".zip" else unpack_tar)(package, scratch)
        return project_folder(package, scratch)
    except PackagingError as error:
        raise EnvironmentFailed(error.message, hint=error.hint) from error


def _build_here(source: Path, folder: Path, installer: Installer, lock: int) -> bool:
    """True when the wheel was built by the interpreter that runs vtrain; False when it lacks requirements."""
    from build import BuildBackendException, BuildException, ProjectBuilder, check_dependency

    def run(
        cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        environ = {**os.environ, **(extra_environ or {})}
        run_logged("the build", list(cmd), environ, Path(cwd or source), installer.log, lock)

    try:
        builder = ProjectBuilder(source, python_executable=sys.executable, runner=run)
        if any(True for line in builder.build_system_requires for _ in check_dependency(line)):
            return False
        if builder.check_dependencies("wheel"):
            return False
        builder.build("wheel", folder)
    except BuildBackendException as error:
        if isinstance(error.exception, (InstallerFault, ToolKilled)):
            raise error.exception from error
        raise InstallerFault("the build", (str(error),)) from error
    except BuildException as error:
        raise InstallerFault("the build", (str(error),)) from error
    return True


def lay(package: Path, site: Path) -> None:
    """Unpack a package that needs no more than that into a folder from which Python imports.

    Raises PackagingError for an archive with a link or with a name that leads out of the folder.
    """
    if package.suffix == ".whl":
        unpack_zip(package, site)
    else:
        unpack_direct(package, site)


def is_plain(package: Path, python: str = "") -> bool:
    """Whether `lay` is all that installing takes: of a package by vtrain, of a pure wheel without commands.

    A wheel that refuses the version `python` is not plain: an installer says so.
    """
    if package.suffix != ".whl":
        return is_direct(package)
    if not is_importable(package):
        return False
    with readable(package), zipfile.ZipFile(package) as archive:
        if any(name.endswith("/entry_points.txt") for name in archive.namelist()):
            return False
    return not python or accepts_python(read_metadata(package).requires_python, python)


def is_importable(wheel: Path) -> bool:
    """Whether Python can import the wheel where it is unpacked: it is pure, and has no files elsewhere."""
    if not wheel.name.endswith("-none-any.whl"):
        return False
    with readable(wheel), zipfile.ZipFile(wheel) as archive:
        return not any(".data/" in name for name in archive.namelist())
