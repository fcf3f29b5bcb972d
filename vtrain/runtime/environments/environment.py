"""The environment that a trainer runs in on this machine: planned from content, made once, then reused.

    environments/dependencies/<key>   a virtual environment with what the packages require
    environments/packages/<key>       a virtual environment with the packages; it reads the former
    environments/wheels/<key>         a package built once, where it has to be built

An edited line in a trainer changes the second alone. A folder is complete once it holds `complete`. uv's
cache has what was installed before, and uv links its files into the environments.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vtrain.privacy import make_private
from vtrain.runtime.environments.interpreters import (
    Interpreter,
    add_site,
    adopt_commands,
    base_interpreter,
    begin_environment,
    download_python,
    downloads_allowed,
    site_packages,
)
from vtrain.runtime.environments.layers import (
    MARKER,
    EnvironmentFailed,
    Log,
    claim,
    is_complete,
    make_once,
    python_of,
    writing_environments,
)
from vtrain.runtime.environments.plan import (
    DependencyPlan,
    EnvironmentPlan,
    EnvironmentSpec,
    plan_environment,
    reading_packages,
    wheel_folder,
)
from vtrain.runtime.home import Home

if TYPE_CHECKING:
    from vtrain.runtime.environments.installer import Installation, Installer

__all__ = [
    "Environment",
    "EnvironmentFailed",
    "EnvironmentPlan",
    "EnvironmentSpec",
    "make_environment",
    "needs_build",
    "needs_installer",
    "plan_environment",
]


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """A complete environment: its interpreter, and the folders to put first on PATH."""

    python: str
    path_entries: tuple[str, ...]

    def copied_to(self, folder: Path) -> Environment:
        """The same with a copy of the packages below `folder`, for a trainer that writes beside its modules.

        What the packages require is not copied. Each call makes a new copy. Raises EnvironmentFailed.
        """
        binaries, *others = self.path_entries
        shared = Path(binaries).parent
        own = folder / f"{shared.name}-{os.urandom(3).hex()}"
        with writing_environments(folder):
            make_private(folder)
            _copy_environment(shared, own)
        return Environment(python=str(python_of(own)), path_entries=(str(own / "bin"), *others))


def make_environment(plan: EnvironmentPlan, log: Log) -> Environment:
    """Make what the plan lacks, and answer once it is complete; at once where it is.

    `log` receives the lines of the installer. What is used counts as used from now on. Raises
    EnvironmentFailed, which names the requirement.
    """
    with writing_environments(plan.home):
        while plan.cached and not claim(plan.path):
            plan = plan_environment(plan.spec, plan.home)  # it was cleaned up meanwhile
    if not plan.cached:
        plan = _construct(_with_python(plan), log)
    folders = (str(plan.path / "bin"), str(plan.dependencies_path / "bin"))
    return Environment(python=str(python_of(plan.path)), path_entries=folders)


def _copy_environment(environment: Path, target: Path) -> None:
    """Copy a virtual environment; its Python commands start the copy's interpreter."""
    binaries = environment / "bin"

    def left_out(folder: str, names: list[str]) -> list[str]:
        if folder == str(binaries):
            return [name for name in names if not name.startswith("python")]
        return [MARKER] if folder == str(environment) else []

    shutil.copytree(environment, target, symlinks=True, ignore=left_out)
    adopt_commands(target, binaries)
    for command in binaries.iterdir():
        if not os.path.lexists(target / "bin" / command.name):
            shutil.copy2(command, target / "bin" / command.name, follow_symlinks=False)


def needs_installer(plan: EnvironmentPlan) -> bool:
    """Whether a tool has to work, as more is missing than the trainer's own packages, to be unpacked."""
    if plan.dependencies is None:
        return False
    from vtrain.runtime.environments.installer import is_plain

    downloads = plan.dependencies.python.unmet and _may_download(plan.spec)
    if plan.unbuilt or downloads or not plan.dependencies_cached:
        return True
    with reading_packages():
        return not all(is_plain(each, plan.dependencies.python.interpreter.version) for each in plan.packages)


def needs_build(package: Path, home: Path) -> bool:
    """Whether the package has a back end that has not run yet."""
    from vtrain.packaging.archive import is_direct

    is_there = package.suffix == ".whl" or is_direct(package)
    return not is_there and not is_complete(wheel_folder(package, home))


def _may_download(spec: EnvironmentSpec) -> bool:

    return spec.python_downloads or downloads_allowed(os.environ)


def _with_python(plan: EnvironmentPlan) -> EnvironmentPlan:
    """The plan with an interpreter that its packages accept; downloads one where that is allowed."""
    choice = plan.dependencies and plan.dependencies.python
    if not choice or not choice.unmet:
        return plan
    if _may_download(plan.spec):
        download_python(choice.unmet)
        return plan_environment(plan.spec, plan.home)
    if choice.is_required:
        raise EnvironmentFailed(
            f"The trainer requires Python {choice.unmet}, and uv finds none on this machine.",
            hint="Install it, for example with `uv python install`, or allow that with --python-downloads.",
        )
    return plan


def _construct(plan: EnvironmentPlan, log: Log) -> EnvironmentPlan:
    """Make everything that the plan lacks and answer the plan as it came out."""
    with writing_environments(plan.home):
        while not all(claim(folder) for folder in _there(plan)):
            plan = plan_environment(plan.spec, plan.home)  # it was cleaned up meanwhile
        if plan.unbuilt and plan.dependencies is not None:
            for package, folder in plan.unbuilt:
                _build(package, folder, plan.dependencies.python.interpreter, log, plan.spec.folder)
            plan = plan_environment(plan.spec, plan.home)
        if plan.dependencies is not None:
            with reading_packages():
                _make_layers(plan, plan.dependencies, log)
    return plan


def _there(plan: EnvironmentPlan) -> Iterator[Path]:
    """The complete folders that the plan builds on."""
    root = Home(plan.home).environments
    yield from (wheel.parent for wheel in plan.packages if wheel.is_relative_to(root))
    if is_complete(plan.dependencies_path):
        yield plan.dependencies_path


def make_wheel(package: Path, home: Path, log: Log) -> Path:
    """The wheel of an sdist that its back end has to build; built once. Raises EnvironmentFailed."""
    folder = wheel_folder(package, home)
    _build(package, folder, base_interpreter(), log)
    return next(folder.glob("*.whl"))


def _build(package: Path, folder: Path, interpreter: Interpreter, log: Log, current: str = "") -> None:
    from vtrain.runtime.environments.installer import Installer, build_wheel

    installer = Installer(log, interpreter, current)
    make_once(folder, lambda lock: build_wheel(package, folder, installer, lock), log)


def _make_layers(plan: EnvironmentPlan, wanted: DependencyPlan, log: Log) -> None:
    from vtrain.runtime.environments.installer import Installer

    python = wanted.python.interpreter
    installer = Installer(log, python, plan.spec.folder)

    def install_dependencies(lock: int) -> None:
        """Vertex's order: what the image has, then what each package in turn finds missing."""
        begin_environment(plan.dependencies_path, python)
        for installation in _installations(plan.dependencies_path, wanted):
            installer.install(installation, lock)

    make_once(plan.dependencies_path, install_dependencies, log)
    make_once(
        plan.path,
        lambda lock: _install_packages(plan, installer, lock),
        log,
        reads=plan.dependencies_path,
    )


def _installations(folder: Path, wanted: DependencyPlan) -> Iterator[Installation]:
    from vtrain.runtime.environments.installer import Installation

    if wanted.image_pins:
        constraints = folder / "image-constraints.txt"
        constraints.write_text("\n".join(wanted.image_constraints) + "\n", encoding="utf-8")
        yield Installation(
            environment=folder,
            requirements=wanted.image_pins,
            options=(f"--constraint={constraints}", *wanted.image_options),
            purpose="which the pre-built image brings and the trainer imports",
        )
    yield from (
        Installation(environment=folder, requirements=lines) for lines in wanted.requirements if lines
    )


def _install_packages(plan: EnvironmentPlan, installer: Installer, lock: int) -> None:
    from vtrain.runtime.environments.installer import Installation, is_plain, lay

    begin_environment(plan.path, installer.interpreter)
    site = site_packages(plan.path)
    for package in plan.packages:
        if is_plain(package, installer.interpreter.version):
            lay(package, site)
        else:
            # Packages of one name follow each other; uv's cache would take one for the other.
            options = ("--no-deps", "--no-cache")
            alone = Installation(
                environment=plan.path,
                requirements=(str(package),),
                options=options,
            )
            installer.install(alone, lock)
    add_site(plan.path, site_packages(plan.dependencies_path))
    adopt_commands(plan.path, plan.dependencies_path / "bin")
