"""The making of an environment that was planned: build, link, install, unpack, remember."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vtrain.atomic import publish_file, remove_folder
from vtrain.engine.environments.installers import (
    Installation,
    Installer,
    Tool,
)
from vtrain.engine.environments.layers import (
    SITES,
    Log,
    add_site,
    adopt_commands,
    base_interpreter,
    claim,
    is_complete,
    make_once,
    site_packages,
    write_virtual_environment,
    writing_environments,
)
from vtrain.engine.environments.plan import (
    DependencyPlan,
    EnvironmentPlan,
    Memo,
    plan_environment,
    reading_packages,
    wheel_folder,
)
from vtrain.engine.environments.wheels import build_wheel
from vtrain.privacy import make_private


def construct(plan: EnvironmentPlan, log: Log, tool: Tool | None = None) -> EnvironmentPlan:
    """Make everything that the plan lacks and answer the plan as it came out.

    `tool` decides which installer is used; by default uv where it is on PATH, else pip.
    """
    root = plan.home / "environments"
    installer = Installer(root, log, tool)
    with writing_environments(plan.home):
        while not all(claim(folder, log) for folder in _there(plan)):
            plan = plan_environment(plan.spec, plan.home)  # it was cleaned up meanwhile, or is damaged
        if plan.unbuilt:
            plan = _built(plan, installer, log)
        if plan.dependencies is not None:
            with reading_packages():
                _make_layers(plan, plan.dependencies, installer, log)
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
    installer = Installer(home / "environments", log, None)
    make_once(folder, lambda lock: build_wheel(package, folder, installer, lock), log)
    return next(folder.glob("*.whl"))


def _built(plan: EnvironmentPlan, installer: Installer, log: Log) -> EnvironmentPlan:
    for package, folder in plan.unbuilt:

        def build(lock: int, package: Path = package, folder: Path = folder) -> None:
            build_wheel(package, folder, installer, lock)

        make_once(folder, build, log)
    return plan_environment(plan.spec, plan.home)


def _make_layers(plan: EnvironmentPlan, wanted: DependencyPlan, installer: Installer, log: Log) -> None:
    bridge, bridge_path = wanted.bridge, wanted.bridge_path
    if bridge is not None and bridge_path is not None:
        from vtrain.engine.environments.frameworks import write_bridge

        make_once(bridge_path, lambda lock: write_bridge(bridge_path, bridge), log)  # noqa: ARG005
    make_once(
        plan.dependencies_path,
        lambda lock: _install_dependencies(plan.dependencies_path, wanted, installer, lock),
        log,
    )
    make_once(plan.path, lambda lock: _install_packages(plan, wanted, installer, lock), log)


def _install_dependencies(folder: Path, wanted: DependencyPlan, installer: Installer, lock: int) -> None:
    """Vertex's order: what the image has, then what each package in turn finds missing."""
    write_virtual_environment(folder, base_interpreter())
    if wanted.bridge_path is not None:
        add_site(folder, SITES[1], wanted.bridge_path / "site")
        installer = installer.reading_paths()
    if wanted.image_pins:
        _install_image_part(folder, wanted, installer, lock)
    for lines in wanted.requirements:
        if lines:
            installer.install(Installation(environment=folder, requirements=lines), lock)


def _install_image_part(folder: Path, wanted: DependencyPlan, installer: Installer, lock: int) -> None:
    constraints = folder / "image-constraints.txt"
    constraints.write_text("\n".join(wanted.image_constraints) + "\n", encoding="utf-8")
    pinned = Installation(
        environment=folder,
        requirements=wanted.image_pins,
        options=("--constraint", str(constraints), *wanted.image_options),
        purpose="which the pre-built image brings and the trainer imports",
    )
    installer.install(pinned, lock)


def _install_packages(plan: EnvironmentPlan, wanted: DependencyPlan, installer: Installer, lock: int) -> None:
    from vtrain.engine.environments.wheels import unpack_wheel
    from vtrain.packaging.archive import is_direct, unpack_direct

    write_virtual_environment(plan.path, base_interpreter())
    site = site_packages(plan.path)
    for package in plan.packages:
        if package.suffix != ".whl" and is_direct(package):
            unpack_direct(package, site)
        elif package.suffix != ".whl" or not unpack_wheel(package, site):
            alone = Installation(environment=plan.path, requirements=(str(package),), options=("--no-deps",))
            installer.install(alone, lock)
    add_site(plan.path, SITES[0], site_packages(plan.dependencies_path))
    adopt_commands(plan.path, plan.dependencies_path / "bin")
    if wanted.bridge_path is not None:
        adopt_commands(plan.path, wanted.bridge_path / "bin")


def _remember(plan: EnvironmentPlan) -> None:
    """Write the memo."""
    state = None
    if plan.follows_site:
        from vtrain.engine.environments.frameworks import site_state

        state = site_state()
    memo = Memo(
        package_key=plan.path.name,
        dependency_key=plan.dependencies_path.name,
        site_state=state,
    )
    make_private(plan.memo_path.parent)
    if plan.memo_path.is_dir():
        remove_folder(plan.memo_path)
    publish_file(plan.memo_path, memo.encoded())
