"""The image that a pool's replicas run: the executor image, and what the trainer's packages require in it.

A runtime image is named by its content: the executor image, the requirements, the packages that pip has
to install. The trainer's own code is not in it, but laid over it from the job's folder, so that an edited
trainer runs in the image that is there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from vtrain.backends.docker.docker_part import USER_BASE, docker_part
from vtrain.backends.local_plan import for_each_pool, image_uri, package_paths
from vtrain.containers.build import (
    PIP_ARGUMENT,
    PIP_COPY,
    PIP_MOUNT,
    BuildRequest,
    ContextFile,
    build_image,
    with_pip_folder,
)
from vtrain.containers.engine import BASE_LABEL, CONTENT_LABEL, IMAGE_HOME_LABEL, KIND_LABEL, Engine, connect
from vtrain.containers.image_names import is_built_here
from vtrain.containers.images import Image, ensure_image, find_image, fits_platform
from vtrain.digests import document_digest, file_digest
from vtrain.messages.custom_job import WorkerPoolSpec
from vtrain.packaging.archive import (
    Metadata,
    is_direct,
    read_metadata,
    requirements_beside,
)
from vtrain.privacy import home_label
from vtrain.project_names import distribution_name
from vtrain.runtime.environments.environment import make_wheel, needs_build
from vtrain.runtime.environments.layers import EnvironmentFailed, Log
from vtrain.runtime.home import Home
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.launching import Runtime, preparing

LAYOUT = 4
"""Part of each image's name: a change keeps the images made before from being used."""
REPOSITORY = "vtrain/runtime"
FOLDER = "/opt/vtrain/packages"
CACHE = "/var/cache/vtrain-pip"
PACKAGES = "packages"
"""The folder of the build's context that is there for the build."""
PACKAGES_MOUNT = f"--mount=type=bind,source={PACKAGES},target={FOLDER}"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH in a container whose image sets none."""
PIP_SETTINGS = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_NO_INPUT": "1"}


def ready_runtimes(engine: Engine, order: JobOrder) -> tuple[Runtime, ...] | None:
    """The pools' runtimes; None where an image has to be pulled or built.

    Raises ImageError, EngineError and PackagingError.
    """
    if docker_part(order).container.pull == "always":
        return None
    found = for_each_pool(order, lambda _, pool: _find(engine, order, pool))
    ready = tuple(each for each in found if each is not None)
    return _runtimes(order, ready) if len(ready) == len(found) else None


def make_runtimes(order: JobOrder, log: Log) -> tuple[Runtime, ...]:
    """Pull and build what is not there. Raises PrepareFailed."""
    with preparing(), closing(connect(docker_part(order).engine)) as engine:
        return _runtimes(order, for_each_pool(order, lambda _, pool: _make(engine, order, pool, log)))


class RuntimeImage(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime image as it has to be, and its name."""

    base: Image
    packages: PackagePlan

    @property
    def content_hash(self) -> str:
        """The sha256 of all that decides the image."""
        steps = [step.identity() for step in self.packages.steps]
        return document_digest((LAYOUT, self.base.id, steps))

    @property
    def name(self) -> str:
        """`vtrain/runtime:0123456789abcdef`."""
        return f"{REPOSITORY}:{self.content_hash[:16]}"

    def request(self, base_name: str, platform: str, home: Path, folder: str) -> BuildRequest:
        """The request that builds it for a home; pip's configuration is read from `folder`."""
        request = BuildRequest(
            tags=(self.name,),
            dockerfile=_dockerfile(base_name, self.base, plain=False),
            plain_dockerfile=_dockerfile(base_name, self.base, plain=True),
            files=self._files(),
            labels={
                KIND_LABEL: "runtime",
                CONTENT_LABEL: self.content_hash,
                BASE_LABEL: self.base.id,
                IMAGE_HOME_LABEL: home_label(home),
            },
            platform=platform,
        )
        return with_pip_folder(request, folder)

    def _files(self) -> tuple[ContextFile, ...]:
        program = Path(__file__).with_name("install.py")
        files = [ContextFile(name=f"{PACKAGES}/install.py", content=program)]
        steps: list[dict[str, str]] = []
        for number, step in enumerate(self.packages.steps):
            if step.package is not None:
                name = f"{number}/{step.package.name}"
                files.append(ContextFile(name=f"{PACKAGES}/{name}", content=step.package))
                steps.append({"package": name})
            else:
                text = "".join(f"{line}\n" for line in step.requirements)
                name = f"requirements-{number}.txt"
                files.append(ContextFile(name=f"{PACKAGES}/{name}", content=text.encode()))
                steps.append({"requirements": name})
        files.append(ContextFile(name=f"{PACKAGES}/steps.json", content=msgspec.json.encode(steps)))
        return tuple(files)


class _Ready(msgspec.Struct, frozen=True, kw_only=True):
    """An image that the engine has, and the packages to be laid over it."""

    image: str = ""
    packages: PackagePlan | None = None


def _find(engine: Engine, order: JobOrder, pool: WorkerPoolSpec) -> _Ready | None:
    """The pool's image where it is there, and every package is built; else None."""
    if pool.task is None:
        return _Ready()
    home = Path(order.home)
    packages = package_paths(pool, home)
    base = find_image(engine, image_uri(pool))
    if base is None or not fits_platform(base, docker_part(order).container.platform):
        return None
    if not packages:
        return _Ready(image=base.id)
    if any(needs_build(package, home) for package in packages):
        return None
    image = RuntimeImage(base=base, packages=plan_packages(packages, home, lambda _: None))
    return _Ready(image=image.name, packages=image.packages) if find_image(engine, image.name) else None


def _make(engine: Engine, order: JobOrder, pool: WorkerPoolSpec, log: Log) -> _Ready:
    """The pool's image, pulled or built where it is not there."""
    if pool.task is None:
        return _Ready()

    def tell(line: str) -> None:
        log(f"{line}\n".encode())

    options, home = docker_part(order).container, Path(order.home)
    name = image_uri(pool)
    pull = "never" if is_built_here(name) else options.pull
    base = ensure_image(engine, name, pull=pull, platform=options.platform, tell=tell)
    packages = package_paths(pool, home)
    if not packages:
        return _Ready(image=base.id)
    image = RuntimeImage(base=base, packages=plan_packages(packages, home, log))
    if find_image(engine, image.name) is None:
        folder = order.command.folder if order.command is not None else ""
        build_image(engine, image.request(name, options.platform, home, folder), tell)
    return _Ready(image=image.name, packages=image.packages)


def _runtimes(order: JobOrder, ready: tuple[_Ready, ...]) -> tuple[Runtime, ...]:
    """The runtime of each pool, with the folder of the packages that are laid over its image."""
    code = Home(Path(order.home)).job(order.name).path / "code"

    def runtime(number: int, _: WorkerPoolSpec) -> Runtime:
        image, packages = ready[number].image, ready[number].packages
        if packages is None or not packages.overlays:
            return Runtime(image=image)
        site = code / f"workerpool{number}"
        if not site.exists():  # a supervisor before this one may have died here
            unfinished = site.with_name(f".{site.name}.{os.getpid()}")
            packages.unpack(unfinished)
            with suppress(OSError):  # where another supervisor's preparation was faster, its folder serves
                unfinished.rename(site)
        return Runtime(image=image, site=str(site))

    return for_each_pool(order, runtime)


def _dockerfile(base_name: str, base: Image, *, plain: bool) -> str:
    """The Dockerfile; `plain` is for the classic builder, which has no mounts."""
    mounts = "" if plain else f"--mount=type=cache,target={CACHE} {PACKAGES_MOUNT} {PIP_MOUNT} "
    program = ["python3", f"{FOLDER}/install.py", *([] if plain else [CACHE])]
    variables = dict(entry.partition("=")[::2] for entry in base.env)
    path = f"{USER_BASE}/bin:{variables.get('PATH') or DEFAULT_PATH}"
    quoted = re.sub(r'([\\"$])', r"\\\1", path)  # nothing in it is replaced
    opening: list[str] = []
    if base.user.partition(":")[0] not in ("", "0", "root"):
        # The image's own user puts the link to its packages into a folder of root's.
        parent = str(Path(FOLDER).parent)
        opener = f"import os; os.makedirs({FOLDER!r}, exist_ok=True); os.chmod({parent!r}, 0o1777)"
        opened = _words(["python3", "-c", opener])
        opening = ["USER root", f"RUN {opened}", f"USER {base.user}"]
    lines = [
        f"FROM {base_name}",
        *(f"ARG {name}={value}" for name, value in PIP_SETTINGS.items()),
        PIP_ARGUMENT,
        *([f'COPY ["{PACKAGES}/", "{FOLDER}/"]', PIP_COPY] if plain else []),
        *opening,
        f"RUN {mounts}{_words(program)}",
        f'ENV PATH="{quoted}"',
    ]
    return "\n".join(lines) + "\n"


def _words(program: list[str]) -> str:
    return msgspec.json.encode(program).decode()


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to install in the layer: a package file, or what a package laid over requires."""

    package: Path | None = None
    requirements: tuple[str, ...] = ()

    def identity(self) -> tuple[object, ...]:
        """The values that decide the layer's content."""
        if self.package is None:
            return (self.requirements,)
        return (self.package.name, file_digest(self.package))


class PackagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """`steps` make the layer, in the order of packageUris; `overlays` are unpacked over it in theirs."""

    steps: tuple[Step, ...]
    overlays: tuple[Path, ...]

    def unpack(self, site: Path) -> None:
        """Put the overlays into a folder, readable for every user that an image may run as."""
        from vtrain.runtime.environments.installer import lay

        site.mkdir(parents=True)
        for package in self.overlays:
            lay(package, site)
        for folder in (site, *(path for path in site.rglob("*") if path.is_dir())):
            folder.chmod(0o755)


def plan_packages(packages: tuple[Path, ...], home: Path, log: Log) -> PackagePlan:
    """Sort the packages, and build those that need it, once. Raises PackagingError.

    A pure package without commands is laid over the layer, so that an edit of it builds no image.
    """
    wheels = tuple(_wheel(package, home, log) for package in packages)
    stated = {package: read_metadata(package) for package in wheels}
    layered = _layered(stated)
    present = {distribution_name(metadata.name): package for package, metadata in stated.items()}
    steps = []
    for package, metadata in stated.items():
        if package in layered:
            steps.append(Step(package=package))
        elif lines := tuple(requirements_beside(metadata.requires_dist or (), present)):
            steps.append(Step(requirements=lines))
    overlays = tuple(package for package in wheels if package not in layered)
    return PackagePlan(steps=tuple(steps), overlays=overlays)


def _wheel(package: Path, home: Path, log: Log) -> Path:
    """The package's wheel where its own back end makes a plain one here; else the package itself."""
    from vtrain.runtime.environments.installer import is_plain

    if package.suffix == ".whl" or is_direct(package):
        return package

    try:
        wheel = make_wheel(package, home, log)
    except EnvironmentFailed as failed:  # the image may have what its build lacks here
        log(f"{package.name} is built in the image instead. {failed.message}\n".encode())
        return package
    return wheel if is_plain(wheel) else package


def _layered(stated: Mapping[Path, Metadata]) -> frozenset[Path]:
    """Packages that pip has to install, and those that these require."""
    from vtrain.runtime.environments.installer import is_plain

    layered = {package for package in stated if not is_plain(package)}
    while True:
        required = {distribution_name(line) for each in layered for line in stated[each].requires_dist or ()}
        more = {p for p, own in stated.items() if distribution_name(own.name) in required} - layered
        if not more:
            return frozenset(layered)
        layered |= more
