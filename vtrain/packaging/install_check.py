"""A check that packages can be installed, before they go where that would be found out late."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from vtrain.atomic import publish_file, scratch_folder
from vtrain.errors import PackagingError
from vtrain.packaging.archive import is_direct, requires_dist
from vtrain.packaging.pep517 import BuildRequirementsError, run_back_end
from vtrain.packaging.project import Project, read_project
from vtrain.packaging.requirements import read_given
from vtrain.packaging.sdist import BuiltPackages
from vtrain.packaging.unpacking import project_folder, unpack_tar, unpack_zip
from vtrain.settings import home_folder

CHECKED = ".checked"
"""A file beside packages that were found to be installable."""


def check_install(built: BuiltPackages, warn: Callable[[str], None]) -> None:
    """Make a wheel of each package that has a back end, as an installation does; once for the same packages.

    Raises PackagingError where that fails, or where the metadata names a path of this machine. Where the
    build requirements cannot be had, a warning says that nothing was checked.
    """
    checked = built.sdist.with_name(CHECKED)
    if checked.is_file():
        return
    for package in built.install_order:
        if package.suffix == ".whl" or is_direct(package):
            continue
        try:
            _check(package)
        except BuildRequirementsError as error:
            reason = " ".join(error.message.split())
            warn(f"It was not checked that {package.name} can be installed. {reason}")
            return
        except PackagingError as error:
            raise PackagingError(
                f"{package.name} cannot be installed. {error.message}",
                hint="If its build reads a file that the sdist lacks, add it (setuptools: MANIFEST.in).",
            ) from error
    with suppress(OSError):  # then it is checked again
        publish_file(checked, b"")


def _check(package: Path) -> None:
    with scratch_folder(home_folder()) as work:
        (unpack_zip if package.suffix == ".zip" else unpack_tar)(package, work / "sdist")
        folder = project_folder(package, work / "sdist")
        project = read_project(folder) or Project()
        wheel = run_back_end(project, folder, lambda builder: builder.build("wheel", work / "wheel"), "wheel")
        read_given(requires_dist(wheel) or (), folder, f"the metadata of {package.name}")
