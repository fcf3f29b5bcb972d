"""The plan of a trainer's environment, and the parts that exist: pure, from content alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vtrain.digests import document_digest, file_digest
from vtrain.errors import PackagingError
from vtrain.project_names import distribution_name
from vtrain.runtime.environments.interpreters import Interpreter, base_interpreter
from vtrain.runtime.environments.layers import EnvironmentFailed, is_complete, is_whole, layer_below
from vtrain.runtime.home import Home

if TYPE_CHECKING:
    from vtrain.packaging.prebuilt import ImageContents
    from vtrain.runtime.environments.trainer_python import PythonChoice

# Part of each folder's name: a change keeps the folders made before from being reused.
_LAYOUT = 5


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
    """A dependency environment: its interpreter, the image's part, then each package's requirements."""

    python: PythonChoice
    requirements: tuple[tuple[str, ...], ...] = ()
    image_pins: tuple[str, ...] = ()
    image_constraints: tuple[str, ...] = ()
    image_options: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[object, ...]:
        """The facts that trainers must have in common to share an environment; no order of packages."""
        lines = sorted(line for lines in self.requirements for line in lines)
        return self.python.interpreter, lines, self.image_pins, self.image_constraints


class EnvironmentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly what `make_environment` would make, and what of it is there.

    `unbuilt` packages have to be built before their requirements are known for sure; until then
    `dependencies_path` is provisional. `dependencies` are None where the environment is there.
    """

    spec: EnvironmentSpec
    home: Path
    path: Path
    dependencies_path: Path
    cached: bool
    dependencies_cached: bool
    packages: tuple[Path, ...] = ()
    unbuilt: tuple[tuple[Path, Path], ...] = ()
    dependencies: DependencyPlan | None = None


class _Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that name an environment: all that a plan depends on is in them, or in the packages."""

    spec: EnvironmentSpec
    root: Path
    digests: tuple[str, ...]
    image: ImageContents
    image_known: bool

    @property
    def path(self) -> Path:
        """The folder of the environment."""
        own = base_interpreter()
        facts: list[object] = [own, self.digests, self.image, self.image_known]
        if self.spec.python or self.image.python_version not in ("", own.short_version):
            from vtrain.runtime.environments.trainer_python import search_state

            # Another Python that is installed, or goes, makes another environment.
            facts += [self.spec.python, search_state(os.environ, self.spec.python)]
        return self.root / "packages" / _key(*facts)


def plan_environment(spec: EnvironmentSpec, home: Path) -> EnvironmentPlan:
    """Say which environment the packages need, and whether it is there; writes nothing.

    `home` is vtrain's home. Raises EnvironmentFailed where a package cannot be read.
    """
    from vtrain.packaging.prebuilt import DEFAULT, contents

    known = contents(spec.image_uri) if spec.image_uri else None
    inputs = _Inputs(
        spec=spec,
        root=Home(home).environments,
        digests=tuple(_digest(Path(package)) for package in spec.packages),
        image=known or DEFAULT,
        image_known=known is not None,
    )
    path = inputs.path
    if is_whole(path) and (below := layer_below(path)):
        return EnvironmentPlan(
            spec=spec,
            home=home,
            path=path,
            dependencies_path=below,
            cached=True,
            dependencies_cached=True,
        )
    with reading_packages():
        return _full_plan(inputs, path)


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


def _full_plan(inputs: _Inputs, path: Path) -> EnvironmentPlan:
    from vtrain.packaging.archive import (
        is_direct,
        read_metadata,
        requirements_beside,
    )
    from vtrain.runtime.environments.trainer_python import asked_python, choose_python

    asked, sources = inputs.spec.python, tuple(map(Path, inputs.spec.packages))
    accepted = tuple(filter(None, (read_metadata(source).requires_python for source in sources)))
    choice = asked_python(asked, accepted) if asked else choose_python(inputs.image.python_version, accepted)
    packages: list[Path] = []
    unbuilt: list[tuple[Path, Path]] = []
    requirements: list[tuple[str, ...]] = []
    unknown: list[str] = []  # digests of packages that state no requirements
    present: dict[str, Path] = {}
    for source, digest in zip(sources, inputs.digests, strict=True):
        package = source
        if source.suffix != ".whl" and not is_direct(source):
            folder = _wheel_folder(inputs.root, choice.interpreter, digest)
            wheel = next(folder.glob("*.whl"), None) if is_complete(folder) else None
            package = wheel or source
            if wheel is None:
                unbuilt.append((source, folder))
        packages.append(package)
        metadata = read_metadata(package)
        if metadata.requires_dist is None:
            unknown.append(digest)
        present[distribution_name(metadata.name)] = package
        requirements.append(tuple(requirements_beside(metadata.requires_dist or (), present)))
    dependencies = _dependency_plan(inputs, packages, tuple(requirements), choice)
    dependencies_path = inputs.root / "dependencies" / _key(tuple(unknown), dependencies.identity)
    return EnvironmentPlan(
        spec=inputs.spec,
        home=inputs.root.parent,
        path=path,
        dependencies_path=dependencies_path,
        cached=False,
        dependencies_cached=is_whole(dependencies_path),
        packages=tuple(packages),
        unbuilt=tuple(unbuilt),
        dependencies=dependencies,
    )


def wheel_folder(package: Path, home: Path) -> Path:
    """The folder in which the wheel of an sdist is built; all environments of this Python share it."""
    return _wheel_folder(Home(home).environments, base_interpreter(), _digest(package))


def _wheel_folder(root: Path, interpreter: Interpreter, digest: str) -> Path:
    return root / "wheels" / _key(interpreter, digest)


def _dependency_plan(
    inputs: _Inputs,
    packages: Sequence[Path],
    requirements: tuple[tuple[str, ...], ...],
    choice: PythonChoice,
) -> DependencyPlan:
    from vtrain.runtime.environments.provisions import (
        constraints,
        deciding,
        imported_modules,
        pins,
        provisions,
        wheels_only,
    )

    lines = [line for lines in requirements for line in lines]
    required = frozenset(map(distribution_name, lines))
    if inputs.image_known:
        required = deciding(lines) | required.difference(
            distribution_name(one.name) for one in inputs.image.distributions
        )
    installed = provisions(inputs.image, imported_modules(packages), required)
    python = choice.interpreter.short_version
    return DependencyPlan(
        python=choice,
        requirements=requirements,
        image_pins=pins(installed, python),
        image_constraints=constraints(inputs.image, python) if installed else (),
        image_options=wheels_only(inputs.image),
    )


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
