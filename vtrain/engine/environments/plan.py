"""What a trainer's environment will consist of, and what of it is there: pure, from content alone."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vtrain.engine.environments.layers import (
    EnvironmentFailed,
    Interpreter,
    base_interpreter,
    is_complete,
    is_intact,
    is_whole,
    sound,
)
from vtrain.errors import PackagingError

if TYPE_CHECKING:
    from vtrain.engine.environments.frameworks import Bridge
    from vtrain.engine.environments.provisions import Provisions
    from vtrain.packaging.prebuilt import ImageContents

# Changes when an older version's folders must not be reused.
_LAYOUT = 1


class EnvironmentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Packages, as absolute paths of local archives in the order of packageUris, and the executor image."""

    packages: tuple[str, ...]
    image_uri: str = ""


class DependencyPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What goes into a dependency environment: the image's part first, then each package's requirements."""

    requirements: tuple[tuple[str, ...], ...] = ()
    image_pins: tuple[str, ...] = ()
    image_constraints: tuple[str, ...] = ()
    image_options: tuple[str, ...] = ()
    bridge_path: Path | None = None
    bridge: Bridge | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """What decides whether two trainers can share the environment; the order of packages does not."""
        lines = sorted(line for lines in self.requirements for line in lines)
        return lines, self.image_pins, self.image_constraints, self.bridge


class EnvironmentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly what `make_environment` would make, and what of it is there.

    `unbuilt` packages have to be built before their requirements are known for sure; until then
    `dependencies_path` is provisional. `dependencies` is None where a complete environment was found.
    """

    spec: EnvironmentSpec
    home: Path
    path: Path
    dependencies_path: Path
    cached: bool
    dependencies_cached: bool
    memo_path: Path
    packages: tuple[Path, ...] = ()
    unbuilt: tuple[tuple[Path, Path], ...] = ()
    dependencies: DependencyPlan | None = None
    follows_site: bool = False


class Memo(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan came to, valid while `site_state` is."""

    package_key: str
    dependency_key: str
    site_state: tuple[tuple[str, int], ...] | None = None

    def encoded(self) -> bytes:
        """The memo's file: a line with the digest of what follows, and JSON."""
        document = msgspec.json.encode(self)
        return hashlib.sha256(document).hexdigest().encode() + b"\n" + document


def _read_memo(path: Path) -> Memo | None:
    """The memo of a file; None for one that is damaged or gone."""
    try:
        digest, _, document = path.read_bytes().partition(b"\n")
        if hashlib.sha256(document).hexdigest().encode() != digest:
            return None
        return msgspec.json.decode(document, type=Memo)
    except (OSError, msgspec.DecodeError):
        return None


class _Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """All that a plan depends on, but the requirements inside the packages and what lies beside vtrain."""

    spec: EnvironmentSpec
    root: Path
    interpreter: Interpreter
    digests: tuple[str, ...]
    image: ImageContents
    image_known: bool

    @property
    def memo_path(self) -> Path:
        """Where the plan is remembered once it was carried out."""
        key = _key(self.interpreter, self.digests, self.spec.image_uri, self.image)
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
        return _remembered_plan(inputs) or _full_plan(inputs)


@contextmanager
def reading_packages() -> Iterator[None]:
    """What makes a package unreadable, as EnvironmentFailed."""
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
    if not (is_whole(path) and is_whole(dependencies_path) and _is_current(memo)):
        return None
    return EnvironmentPlan(
        spec=inputs.spec,
        home=inputs.root.parent,
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


def _is_current(memo: Memo) -> bool:
    if memo.site_state is None:
        return True
    from vtrain.engine.environments.frameworks import site_state

    return memo.site_state == site_state()


def _full_plan(inputs: _Inputs) -> EnvironmentPlan:
    packages, unbuilt = _resolved(inputs)
    requirements, unknown = _requirements(packages, inputs.digests)
    found = _provisions(inputs, packages, requirements)
    dependencies = _dependency_plan(inputs, requirements, found)
    dependency_key = _key(inputs.interpreter, unknown, dependencies.identity, *_renewed(dependencies))
    dependencies_path = sound(inputs.root / "dependencies" / dependency_key)
    path = sound(inputs.root / "packages" / _key(dependencies_path.name, inputs.digests))
    return EnvironmentPlan(
        spec=inputs.spec,
        home=inputs.root.parent,
        path=path,
        dependencies_path=dependencies_path,
        cached=not unbuilt and is_whole(path) and is_whole(dependencies_path),
        dependencies_cached=is_whole(dependencies_path),
        memo_path=inputs.memo_path,
        packages=packages,
        unbuilt=unbuilt,
        dependencies=dependencies,
        follows_site=bool(found.frameworks),
    )


def _renewed(dependencies: DependencyPlan) -> tuple[str, ...]:
    """The name of a bridge that was made in the stead of a changed one: an environment reads one of them."""
    path = dependencies.bridge_path
    return (path.name,) if path and "-" in path.name else ()


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
    """Where the wheel of an sdist is built; shared by all environments of this Python."""
    return _wheel_folder(home / "environments", base_interpreter(), _digest(package))


def _wheel_folder(root: Path, interpreter: Interpreter, digest: str) -> Path:
    return root / "wheels" / _key(interpreter, digest)


def _requirements(
    packages: tuple[Path, ...], digests: tuple[str, ...]
) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """What each package requires besides the packages before it, and the digests of those that do not say."""
    from vtrain.packaging.archive import metadata_name, requires_dist

    present: set[str] = set()
    unknown: list[str] = []
    requirements = []
    for package, digest in zip(packages, digests, strict=True):
        lines = requires_dist(package)
        if lines is None:
            unknown.append(digest)
        present.add(_name(metadata_name(package)))
        requirements.append(tuple(line for line in lines or () if _name(line) not in present or "[" in line))
    return tuple(requirements), tuple(unknown)


def _provisions(
    inputs: _Inputs, packages: tuple[Path, ...], requirements: tuple[tuple[str, ...], ...]
) -> Provisions:
    from vtrain.engine.environments.provisions import deciding, imported_modules, provisions

    lines = [line for lines in requirements for line in lines]
    required = deciding(lines) if inputs.image_known else frozenset(map(_name, lines))
    return provisions(inputs.image, imported_modules(packages), required, named=inputs.image_known)


def _dependency_plan(
    inputs: _Inputs, requirements: tuple[tuple[str, ...], ...], found: Provisions
) -> DependencyPlan:
    from vtrain.engine.environments.provisions import constraints, pins, wheels_only

    bridge = _bridge(found)
    bridged = frozenset(_name(name) for name, _, _ in bridge.distributions) if bridge else frozenset()
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
    from vtrain.engine.environments.frameworks import bridge_to, find_framework

    here = (find_framework(framework.name, framework.import_names) for framework in found.frameworks)
    names = [framework[0] for framework in here if framework is not None]
    return bridge_to(names) if names else None


def _name(requirement: str) -> str:
    from vtrain.engine.environments.provisions import normalised

    return normalised(requirement)


def _digest(package: Path) -> str:
    digest = hashlib.sha256()
    try:
        with package.open("rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise EnvironmentFailed(
            f"The package {package} cannot be read: {error.strerror}.",
            hint="Give the path of a local archive.",
        ) from error
    return digest.hexdigest()


def _key(*parts: object) -> str:
    """A short name for content; the layout is part of it."""
    described = msgspec.json.encode((_LAYOUT, parts), enc_hook=os.fspath)
    return hashlib.sha256(described).hexdigest()[:20]
