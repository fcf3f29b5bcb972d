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
from vtrain.runtime.environments.interpreters import (
    Interpreter,
    asked_python,
    base_interpreter,
    choose_python,
    search_state,
)
from vtrain.runtime.environments.layers import EnvironmentFailed, is_complete, is_whole, layer_below
from vtrain.runtime.home import Home

if TYPE_CHECKING:
    from vtrain.packaging.prebuilt import ImageContents
    from vtrain.runtime.environments.interpreters import PythonChoice

# Part of each folder's name: a change keeps the folders made before from being reused.
_LAYOUT = 6


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


def plan_environment(spec: EnvironmentSpec, home: Path) -> EnvironmentPlan:
    """Say which environment the packages need, and whether it is there; writes nothing.

    `home` is vtrain's home. Raises EnvironmentFailed where a package cannot be read.
    """
    from vtrain.packaging.prebuilt import DEFAULT, contents

    known = contents(spec.image_uri) if spec.image_uri else None
    image, root, own = known or DEFAULT, Home(home).environments, base_interpreter()
    digests = tuple(_digest(Path(package)) for package in spec.packages)
    facts: list[object] = [own, digests, image, known is not None]
    if spec.python or image.python_version not in ("", own.short_version):
        # Another Python that is installed, or goes, makes another environment.
        facts += [spec.python, search_state(os.environ, spec.python)]
    path = root / "packages" / _key(*facts)
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
        return _full_plan(spec, root, path, digests, image, is_known=known is not None)


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


def _full_plan(
    spec: EnvironmentSpec,
    root: Path,
    path: Path,
    digests: tuple[str, ...],
    image: ImageContents,
    *,
    is_known: bool,
) -> EnvironmentPlan:
    from vtrain.packaging.archive import (
        is_direct,
        read_metadata,
        requirements_beside,
    )

    asked, sources = spec.python, tuple(map(Path, spec.packages))
    accepted = tuple(filter(None, (read_metadata(source).requires_python for source in sources)))
    choice = asked_python(asked, accepted) if asked else choose_python(image.python_version, accepted)
    packages: list[Path] = []
    unbuilt: list[tuple[Path, Path]] = []
    requirements: list[tuple[str, ...]] = []
    unknown: list[str] = []  # digests of packages that state no requirements
    present: dict[str, Path] = {}
    for source, digest in zip(sources, digests, strict=True):
        package = source
        if source.suffix != ".whl" and not is_direct(source):
            folder = _wheel_folder(root, choice.interpreter, digest)
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
    dependencies = _dependency_plan(image, packages, tuple(requirements), choice, is_known=is_known)
    dependencies_path = root / "dependencies" / _key(tuple(unknown), dependencies.identity)
    return EnvironmentPlan(
        spec=spec,
        home=root.parent,
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
    image: ImageContents,
    packages: Sequence[Path],
    requirements: tuple[tuple[str, ...], ...],
    choice: PythonChoice,
    *,
    is_known: bool,
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
    if is_known:
        required = deciding(lines) | required.difference(
            distribution_name(one.name) for one in image.distributions
        )
    installed = provisions(image, imported_modules(packages), required)
    python = choice.interpreter.short_version
    return DependencyPlan(
        python=choice,
        requirements=requirements,
        image_pins=pins(installed, python),
        image_constraints=constraints(image, python) if installed else (),
        image_options=wheels_only(image),
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
