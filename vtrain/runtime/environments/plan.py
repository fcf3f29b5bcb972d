"""The plan of a trainer's environment, and the parts that exist: pure, from content alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vtrain.digests import content_digest, document_digest, file_digest
from vtrain.errors import PackagingError
from vtrain.project_names import distribution_name
from vtrain.runtime.environments.interpreters import Interpreter, base_interpreter
from vtrain.runtime.environments.layers import (
    EnvironmentFailed,
    is_complete,
    is_intact,
    is_whole,
    sound,
)

if TYPE_CHECKING:
    from vtrain.packaging.prebuilt import ImageContents
    from vtrain.runtime.environments.frameworks import Bridge
    from vtrain.runtime.environments.provisions import Provisions
    from vtrain.runtime.environments.trainer_python import PythonChoice

# Part of each folder's name: a change keeps the folders made before from being reused.
_LAYOUT = 2


class EnvironmentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Packages, as absolute paths of local archives in the order of packageUris, and the executor image.

    `python` is the version or the path of the interpreter that was asked for (empty: the image and the
    packages decide). With `python_downloads` uv may download one that this machine lacks.
    Relative paths of pip's configuration count from `folder` (empty: the current one).
    """

    packages: tuple[str, ...]
    image_uri: str = ""
    python: str = ""
    python_downloads: bool = False
    folder: str = ""


class DependencyPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a dependency environment: the image's part first, then each package's requirements."""

    requirements: tuple[tuple[str, ...], ...] = ()
    image_pins: tuple[str, ...] = ()
    image_constraints: tuple[str, ...] = ()
    image_options: tuple[str, ...] = ()
    bridge_path: Path | None = None
    bridge: Bridge | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """The facts that trainers must have in common to share an environment; no order of packages."""
        lines = sorted(line for lines in self.requirements for line in lines)
        return lines, self.image_pins, self.image_constraints, self.bridge


class EnvironmentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly what `make_environment` would make, and what of it is there.

    `unbuilt` packages have to be built before their requirements are known for sure; until then
    `dependencies_path` is provisional. `dependencies` is None where a remembered environment was found, and
    `python`, how the interpreter was chosen, where vtrain's own is taken without a search.
    """

    spec: EnvironmentSpec
    home: Path
    interpreter: Interpreter
    path: Path
    dependencies_path: Path
    cached: bool
    dependencies_cached: bool
    memo_path: Path
    packages: tuple[Path, ...] = ()
    unbuilt: tuple[tuple[Path, Path], ...] = ()
    dependencies: DependencyPlan | None = None
    follows_site: bool = False
    python: PythonChoice | None = None


class Memo(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a plan, valid while `site_state` is, and `searched`, the state of interpreters here."""

    package_key: str
    dependency_key: str
    site_state: tuple[tuple[str, int], ...] | None = None
    searched: str = ""

    def encoded(self) -> bytes:
        """The memo's file: a line with the digest of what follows, and JSON."""
        document = msgspec.json.encode(self)
        return content_digest(document).encode() + b"\n" + document


def _read_memo(path: Path) -> Memo | None:
    """The memo of a file; None for one that is damaged or gone."""
    try:
        written, _, document = path.read_bytes().partition(b"\n")
        if content_digest(document).encode() != written:
            return None
        return msgspec.json.decode(document, type=Memo)
    except (OSError, msgspec.DecodeError):
        return None


class _Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a plan depends on, except requirements inside packages and modules beside vtrain."""

    spec: EnvironmentSpec
    root: Path
    interpreter: Interpreter
    digests: tuple[str, ...]
    image: ImageContents
    image_known: bool

    @property
    def memo_path(self) -> Path:
        """The file that remembers the plan after it was carried out."""
        asked = [self.spec.python] * bool(self.spec.python)
        key = _key(self.interpreter, self.digests, self.spec.image_uri, self.image, *asked)
        return self.root / "plans" / f"{key}.json"


def plan_environment(spec: EnvironmentSpec, home: Path) -> EnvironmentPlan:
    """Say which environment the packages need, and whether it is there; writes nothing.

    `home` is vtrain's home. Raises EnvironmentFailed where a package cannot be read.
    """
    from vtrain.packaging.prebuilt import DEFAULT, contents

    known = contents(spec.image_uri) if spec.image_uri else None
    inputs = _Inputs(
        spec=spec,
        root=home / "environments",
        interpreter=base_interpreter(),
        digests=tuple(_digest(Path(package)) for package in spec.packages),
        image=known or DEFAULT,
        image_known=known is not None,
    )
    with reading_packages():
        remembered = _remembered_plan(inputs)
        if remembered is not None:
            return remembered
        choice = _python(inputs)
        return _full_plan(
            msgspec.structs.replace(inputs, interpreter=choice.interpreter), choice, inputs.memo_path
        )


def _python(inputs: _Inputs) -> PythonChoice:
    """The interpreter for the packages."""
    from vtrain.packaging.archive import requires_python
    from vtrain.runtime.environments.trainer_python import asked_python, choose_python

    packages = tuple(map(Path, inputs.spec.packages))
    requires = tuple(filter(None, map(requires_python, packages)))
    if inputs.spec.python:
        return asked_python(inputs.root.parent, inputs.spec.python, requires)
    wanted = inputs.image.python_version
    is_bound = False
    if wanted not in ("", inputs.interpreter.short_version):
        found = _provisions(inputs, packages, tuple(() for _ in packages))
        is_bound = _bridge(found) is not None
    return choose_python(inputs.root.parent, wanted, requires, bound_here=is_bound)


@contextmanager
def reading_packages() -> Iterator[None]:
    """Raise EnvironmentFailed for a package that cannot be read."""
    import tarfile
    import zipfile

    try:
        yield
    except PackagingError as error:
        raise EnvironmentFailed(error.message, hint=error.hint) from error
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise EnvironmentFailed(
            f"A package of the trainer is damaged: {error}.", hint="Package the trainer again."
        ) from error


def _remembered_plan(inputs: _Inputs) -> EnvironmentPlan | None:
    memo_path = inputs.memo_path
    memo = _read_memo(memo_path)
    if memo is None:
        return None
    path = inputs.root / "packages" / memo.package_key
    dependencies_path = inputs.root / "dependencies" / memo.dependency_key
    if not (is_whole(path) and is_whole(dependencies_path) and _is_current(memo, inputs.spec)):
        return None
    return EnvironmentPlan(
        spec=inputs.spec,
        home=inputs.root.parent,
        interpreter=inputs.interpreter,
        path=path,
        dependencies_path=dependencies_path,
        cached=True,
        dependencies_cached=True,
        memo_path=memo_path,
    )


def remembered_environment(memo_path: Path) -> Path | None:
    """The folder of the environment that a memo is about; None where the memo is not whole, or gone."""
    memo = _read_memo(memo_path)
    return memo_path.parents[1] / "packages" / memo.package_key if memo else None


def _is_current(memo: Memo, spec: EnvironmentSpec) -> bool:
    if memo.searched:
        from vtrain.runtime.environments.trainer_python import search_state

        if memo.searched != search_state(os.environ, spec.python):
            return False
    if memo.site_state is None:
        return True
    from vtrain.runtime.environments.frameworks import site_state

    return memo.site_state == site_state()


def _full_plan(inputs: _Inputs, choice: PythonChoice, memo_path: Path) -> EnvironmentPlan:
    packages, unbuilt = _resolved(inputs)
    requirements, unknown = _requirements(packages, inputs.digests)
    found = _provisions(inputs, packages, requirements)
    dependencies = _dependency_plan(inputs, requirements, found)
    bridge_path = dependencies.bridge_path
    # `KEY-2` is a bridge that was made in the stead of a changed one. An environment reads one of them.
    renewed = [bridge_path.name] if bridge_path and "-" in bridge_path.name else []
    dependency_key = _key(inputs.interpreter, unknown, dependencies.identity, *renewed)
    dependencies_path = sound(inputs.root / "dependencies" / dependency_key)
    path = sound(inputs.root / "packages" / _key(dependencies_path.name, inputs.digests))
    return EnvironmentPlan(
        spec=inputs.spec,
        home=inputs.root.parent,
        interpreter=inputs.interpreter,
        path=path,
        dependencies_path=dependencies_path,
        cached=not unbuilt and is_whole(path) and is_whole(dependencies_path),
        dependencies_cached=is_whole(dependencies_path),
        memo_path=memo_path,
        packages=packages,
        unbuilt=unbuilt,
        dependencies=dependencies,
        follows_site=bool(found.frameworks),
        python=choice if choice.searched else None,
    )


def _resolved(inputs: _Inputs) -> tuple[tuple[Path, ...], tuple[tuple[Path, Path], ...]]:
    """The archives to install, and those that have to be built with the folders to build them in."""
    from vtrain.packaging.archive import is_direct

    packages: list[Path] = []
    unbuilt: list[tuple[Path, Path]] = []
    for name, digest in zip(inputs.spec.packages, inputs.digests, strict=True):
        package = Path(name)
        if package.suffix == ".whl" or is_direct(package):
            packages.append(package)
            continue
        folder = _wheel_folder(inputs.root, inputs.interpreter, digest)
        wheel = next(folder.glob("*.whl"), None) if is_complete(folder) and is_intact(folder) else None
        packages.append(wheel or package)
        if wheel is None:
            unbuilt.append((package, folder))
    return tuple(packages), tuple(unbuilt)


def wheel_folder(package: Path, home: Path) -> Path:
    """The folder in which the wheel of an sdist is built; all environments of this Python share it."""
    return _wheel_folder(home / "environments", base_interpreter(), _digest(package))


def _wheel_folder(root: Path, interpreter: Interpreter, digest: str) -> Path:
    return root / "wheels" / _key(interpreter, digest)


def _requirements(
    packages: tuple[Path, ...], digests: tuple[str, ...]
) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """The requirements of each package besides the packages before it; digests of those that state none."""
    from vtrain.packaging.archive import metadata_name, requirements_beside, requires_dist

    present: dict[str, Path] = {}
    unknown: list[str] = []
    requirements = []
    for package, digest in zip(packages, digests, strict=True):
        lines = requires_dist(package)
        if lines is None:
            unknown.append(digest)
        present[distribution_name(metadata_name(package))] = package
        requirements.append(tuple(requirements_beside(lines or (), present)))
    return tuple(requirements), tuple(unknown)


def _provisions(
    inputs: _Inputs, packages: tuple[Path, ...], requirements: tuple[tuple[str, ...], ...]
) -> Provisions:
    from vtrain.runtime.environments.provisions import deciding, imported_modules, provisions

    lines = [line for lines in requirements for line in lines]
    required = deciding(lines) if inputs.image_known else frozenset(map(distribution_name, lines))
    return provisions(inputs.image, imported_modules(packages), required, named=inputs.image_known)


def _dependency_plan(
    inputs: _Inputs, requirements: tuple[tuple[str, ...], ...], found: Provisions
) -> DependencyPlan:
    from vtrain.runtime.environments.provisions import constraints, pins, wheels_only

    is_own = inputs.interpreter.abi == base_interpreter().abi  # frameworks here are for vtrain's Python
    bridge = _bridge(found) if is_own else None
    bridged = frozenset(distribution_name(name) for name, _, _ in (bridge.distributions if bridge else ()))
    python = inputs.interpreter.short_version
    return DependencyPlan(
        requirements=requirements,
        image_pins=pins(found.installed, python),
        image_constraints=constraints(inputs.image, python, bridged) if found.installed else (),
        image_options=wheels_only(inputs.image),
        bridge=bridge,
        bridge_path=sound(inputs.root / "frameworks" / _key(bridge)) if bridge else None,
    )


def _bridge(found: Provisions) -> Bridge | None:
    """The frameworks that are installed beside vtrain."""
    if not found.frameworks:
        return None
    from vtrain.runtime.environments.frameworks import bridge_to, find_framework

    here = (find_framework(framework.name, framework.import_names) for framework in found.frameworks)
    names = [framework[0] for framework in here if framework is not None]
    return bridge_to(names) if names else None


def _digest(package: Path) -> str:
    try:
        return file_digest(package)
    except OSError as error:
        raise EnvironmentFailed(
            f"The package {package} cannot be read: {error.strerror}.",
            hint="Give the path of a local archive.",
        ) from error


def _key(*parts: object) -> str:
    """A short name for content; the layout is part of it."""
    return document_digest((_LAYOUT, parts), os.fspath)[:20]
