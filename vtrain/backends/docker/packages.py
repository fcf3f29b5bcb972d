"""How a trainer's packages get into its container: into an image layer, or laid over it as files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from vtrain.engine.environments.layers import EnvironmentFailed, Log
from vtrain.packaging.archive import is_direct, metadata_name, requires_dist, unpack_direct
from vtrain.packaging.requirements import distribution_name
from vtrain.packaging.unpacking import unpack_zip


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to install in the layer: a package file, or what a package laid over requires."""

    package: Path | None = None
    requirements: tuple[str, ...] = ()

    def identity(self) -> tuple[object, ...]:
        """What decides the layer's content."""
        if self.package is None:
            return (self.requirements,)
        return (self.package.name, hashlib.sha256(self.package.read_bytes()).hexdigest())


class PackagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """`steps` make the layer, in the order of packageUris; `overlays` are unpacked over it in theirs."""

    steps: tuple[Step, ...]
    overlays: tuple[Path, ...]

    def unpack(self, site: Path) -> None:
        """Put the overlays into a folder, readable for every user that an image may run as."""
        site.mkdir(parents=True)
        for package in self.overlays:
            if package.suffix == ".whl":
                unpack_zip(package, site)
            else:
                unpack_direct(package, site)
        for folder in (site, *(path for path in site.rglob("*") if path.is_dir())):
            folder.chmod(0o755)


def needs_build(package: Path, home: Path) -> bool:
    """Whether the package has a back end that has not run yet."""
    from vtrain.engine.environments.layers import is_complete
    from vtrain.engine.environments.plan import wheel_folder

    built = package.suffix == ".whl" or is_direct(package)
    return not built and not is_complete(wheel_folder(package, home))


def plan_packages(packages: tuple[Path, ...], home: Path, log: Log) -> PackagePlan:
    """Sort the packages; builds those that have to be built, once. Raises PackagingError.

    A pure package without commands is laid over the layer, so that an edit of it builds no image.
    """
    wheels = tuple(_wheel(package, home, log) for package in packages)
    layered = _layered(wheels)
    names = {distribution_name(metadata_name(package)) for package in wheels}
    steps = []
    for package in wheels:
        if package in layered:
            steps.append(Step(package=package))
        elif lines := tuple(_missing(package, names)):
            steps.append(Step(requirements=lines))
    overlays = tuple(package for package in wheels if package not in layered)
    return PackagePlan(steps=tuple(steps), overlays=overlays)


def _wheel(package: Path, home: Path, log: Log) -> Path:
    """The package's wheel where its own back end makes a plain one here; else the package itself."""
    from vtrain.engine.environments.wheels import is_plain

    if package.suffix == ".whl" or is_direct(package):
        return package
    from vtrain.engine.environments.construction import make_wheel

    try:
        wheel = make_wheel(package, home, log)
    except EnvironmentFailed as failed:  # the image may have what its build lacks here
        log(f"{package.name} is built in the image instead. {failed.message}\n".encode())
        return package
    return wheel if is_plain(wheel) else package


def _layered(packages: tuple[Path, ...]) -> frozenset[Path]:
    """Packages that pip has to install, and those that these require."""
    from vtrain.engine.environments.wheels import is_plain

    layered = {p for p in packages if not (is_plain(p) if p.suffix == ".whl" else is_direct(p))}
    while True:
        # In the order of packageUris, so that the first unreadable one is always the one named.
        inside = [package for package in packages if package in layered]
        required = {distribution_name(line) for package in inside for line in requires_dist(package) or ()}
        more = {p for p in packages if distribution_name(metadata_name(p)) in required} - layered
        if not more:
            return frozenset(layered)
        layered |= more


def _missing(package: Path, names: set[str]) -> Iterator[str]:
    """What a package requires besides the packages at hand."""
    for line in requires_dist(package) or ():
        if distribution_name(line) not in names or "[" in line:
            yield line
