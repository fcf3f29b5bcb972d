"""The environment that a trainer runs in on this machine: planned from content, made once, then reused.

    environments/dependencies/<key>   a virtual environment with what the packages require
    environments/packages/<key>       a virtual environment with the packages; it reads the former
    environments/frameworks/<key>     links to a framework that is installed beside vtrain
    environments/wheels/<key>         a package built once, where it has to be built
    environments/files/<digest>       what several environments have installed, once
    environments/plans/<key>.json     what a plan came to, so that the next one only hashes the packages

An edited line in a trainer changes the second alone. A folder is complete once it holds `complete`,
which tells the state that it was made in. Where files in it have changed since, the marker becomes `changed`,
the folder stays for the jobs that run in it, and another is made beside it: `<key>-2`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vtrain.atomic import publish_file, remove_folder
from vtrain.messages.log import DETAIL_MARGIN
from vtrain.privacy import make_private
from vtrain.runtime.environments.interpreters import (
    Interpreter,
    add_site,
    adopt_commands,
    base_interpreter,
    python_of,
    site_packages,
    write_virtual_environment,
)
from vtrain.runtime.environments.layers import (
    MARKER,
    SITES,
    EnvironmentFailed,
    Log,
    claim,
    is_complete,
    make_once,
    writing_environments,
)
from vtrain.runtime.environments.plan import (
    DependencyPlan,
    EnvironmentPlan,
    EnvironmentSpec,
    Memo,
    plan_environment,
    reading_packages,
    wheel_folder,
)

if TYPE_CHECKING:
    from vtrain.runtime.environments.installer import Installation

__all__ = [
    "Environment",
    "EnvironmentFailed",
    "EnvironmentPlan",
    "EnvironmentSpec",
    "make_environment",
    "plan_environment",
]


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """A complete environment: its interpreter, and the folders to put first on PATH."""

    python: str
    path_entries: tuple[str, ...]

    def copied_to(self, folder: Path) -> Environment:
        """The same with a copy of the packages below `folder`, for a trainer that writes beside its modules.

        What the packages require is not copied: a change there is noticed at the next use. Each call makes a
        new copy. Raises EnvironmentFailed.
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
        while plan.cached and not claim(plan.path, log):
            plan = plan_environment(plan.spec, plan.home)  # it was cleaned up meanwhile, or is damaged
        if plan.cached and plan.dependencies is not None:
            _remember(plan)  # it was made by another plan, or something it depends on has changed
    if not plan.cached:
        plan = _construct(_with_python(plan), log)
    folders = (str(plan.path / "bin"), str(plan.dependencies_path / "bin"))
    return Environment(python=str(python_of(plan.path)), path_entries=folders)


def _copy_environment(environment: Path, target: Path) -> None:
    """Copy a virtual environment; its Python commands start the copy's interpreter."""
    import shutil

    binaries = environment / "bin"

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if folder == str(environment) and name in (MARKER, "bin")]

    shutil.copytree(environment, target, symlinks=True, ignore=left_out)
    (target / "bin").mkdir()
    for command in binaries.iterdir():
        if command.name.startswith("python") and command.is_symlink():
            (target / "bin" / command.name).symlink_to(command.readlink())
    adopt_commands(target, binaries)
    for command in binaries.iterdir():
        if not os.path.lexists(target / "bin" / command.name):
            shutil.copy2(command, target / "bin" / command.name, follow_symlinks=False)


def _with_python(plan: EnvironmentPlan) -> EnvironmentPlan:
    """The plan with an interpreter that its packages accept; downloads one where that is allowed."""
    if plan.python is None or not plan.python.unmet:
        return plan
    from vtrain.runtime.environments.trainer_python import download_python, downloads_allowed

    request = plan.python.unmet
    if plan.spec.python_downloads or downloads_allowed(os.environ):
        download_python(request)
        return plan_environment(plan.spec, plan.home)
    if plan.python.is_required:
        raise EnvironmentFailed(
            f"The trainer requires Python {request}, and uv finds none on this machine.",
            hint="Install it, for example with `uv python install`, or allow that with --python-downloads.",
        )
    return plan


def _construct(plan: EnvironmentPlan, log: Log) -> EnvironmentPlan:
    """Make everything that the plan lacks and answer the plan as it came out."""
    with writing_environments(plan.home):
        while not all(claim(folder, log) for folder in _there(plan)):
            plan = plan_environment(plan.spec, plan.home)  # it was cleaned up meanwhile, or is damaged
        if plan.unbuilt:
            for package, folder in plan.unbuilt:
                _build(package, folder, plan.interpreter, log, plan.spec.folder)
            plan = plan_environment(plan.spec, plan.home)
        if plan.dependencies is not None:
            with reading_packages():
                _make_layers(plan, plan.dependencies, log)
            _remember(plan)
    return plan


def _there(plan: EnvironmentPlan) -> Iterator[Path]:
    """The complete folders that the plan builds on."""
    root = plan.home / "environments"
    yield from (wheel.parent for wheel in plan.packages if wheel.is_relative_to(root))
    bridge_path = plan.dependencies.bridge_path if plan.dependencies else None
    yield from (folder for folder in (bridge_path, plan.dependencies_path) if folder and is_complete(folder))


def make_wheel(package: Path, home: Path, log: Log) -> Path:
    """The wheel of an sdist that its back end has to build; built once. Raises EnvironmentFailed."""
    folder = wheel_folder(package, home)
    _build(package, folder, base_interpreter(), log)
    return next(folder.glob("*.whl"))


def _build(package: Path, folder: Path, interpreter: Interpreter, log: Log, current: str = "") -> None:
    from vtrain.runtime.environments.installer import Installer
    from vtrain.runtime.environments.wheels import build_wheel

    installer = Installer(log, current)
    make_once(folder, lambda lock: build_wheel(package, folder, installer, interpreter, lock), log)


def _make_layers(plan: EnvironmentPlan, wanted: DependencyPlan, log: Log) -> None:
    bridge, bridge_path = wanted.bridge, wanted.bridge_path
    if bridge is not None and bridge_path is not None:
        from vtrain.runtime.environments.frameworks import write_bridge

        make_once(bridge_path, lambda lock: write_bridge(bridge_path, bridge), log)  # noqa: ARG005
    make_once(plan.dependencies_path, lambda lock: _install_dependencies(plan, wanted, log, lock), log)
    make_once(plan.path, lambda lock: _install_packages(plan, wanted, log, lock), log)


def _install_dependencies(plan: EnvironmentPlan, wanted: DependencyPlan, log: Log, lock: int) -> None:
    """Vertex's order: what the image has, then what each package in turn finds missing."""
    folder = plan.dependencies_path
    write_virtual_environment(folder, plan.interpreter)
    if wanted.bridge_path is not None:
        add_site(folder, SITES[1], wanted.bridge_path / "site")
    installations = list(_installations(folder, wanted))
    if installations:
        from vtrain.runtime.environments.frameworks import shown_as_installed
        from vtrain.runtime.environments.installer import Installer
        from vtrain.runtime.environments.shared_files import seal

        installer, site = Installer(log, plan.spec.folder), site_packages(folder)
        with shown_as_installed(wanted.bridge, site) if wanted.bridge else nullcontext():
            for installation in installations:
                installer.install(installation, lock)
        log(f"{DETAIL_MARGIN}Looking through the installed files …\n".encode())
        seal(folder, folder.parents[1] / "files")


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


def _install_packages(plan: EnvironmentPlan, wanted: DependencyPlan, log: Log, lock: int) -> None:
    from vtrain.packaging.archive import is_direct, unpack_direct
    from vtrain.runtime.environments.wheels import unpack_wheel

    write_virtual_environment(plan.path, plan.interpreter)
    site = site_packages(plan.path)
    for package in plan.packages:
        if package.suffix != ".whl" and is_direct(package):
            unpack_direct(package, site)
        elif package.suffix != ".whl" or not unpack_wheel(package, site, plan.interpreter.version):
            from vtrain.runtime.environments.installer import Installation, Installer

            # Packages of one name follow each other; uv's cache would take one for the other.
            options = ("--no-deps", "--no-cache")
            alone = Installation(environment=plan.path, requirements=(str(package),), options=options)
            Installer(log, plan.spec.folder).install(alone, lock)
    add_site(plan.path, SITES[0], site_packages(plan.dependencies_path))
    adopt_commands(plan.path, plan.dependencies_path / "bin")
    if wanted.bridge_path is not None:
        adopt_commands(plan.path, wanted.bridge_path / "bin")


def _remember(plan: EnvironmentPlan) -> None:
    """Write the memo."""
    state = None
    if plan.follows_site:
        from vtrain.runtime.environments.frameworks import site_state

        state = site_state()
    memo = Memo(
        package_key=plan.path.name,
        dependency_key=plan.dependencies_path.name,
        site_state=state,
        searched=plan.python.searched if plan.python else "",
    )
    if plan.python is not None:
        from vtrain.runtime.environments.trainer_python import remember_search

        remember_search(plan.home, plan.python)
    make_private(plan.memo_path.parent)
    if plan.memo_path.is_dir():
        remove_folder(plan.memo_path)
    publish_file(plan.memo_path, memo.encoded())
