"""The image that a pool's replicas run: the executor image, and what the trainer's packages require in it.

A runtime image is named by its content: the executor image, the requirements, the packages that pip has
to install. The trainer's own code is not in it, but laid over it from the job's folder, so that an edited
trainer runs in the image that is there.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from vtrain.backends.docker.container import USER_BASE, image_uri
from vtrain.backends.docker.packages import PackagePlan, needs_build, plan_packages
from vtrain.backends.local_plan import package_files
from vtrain.containers.build import BuildRequest, ContextFile, build_image
from vtrain.containers.engine import Engine
from vtrain.containers.images import Image, ensure_image, find_image
from vtrain.containers.labels import BASE_LABEL, CONTENT_LABEL, IMAGE_HOME_LABEL, KIND_LABEL
from vtrain.containers.references import is_built_here
from vtrain.engine.folder import JobFolder, JobOrder
from vtrain.engine.launcher import Runtime
from vtrain.messages.custom_job import WorkerPoolSpec
from vtrain.messages.names import parse_name
from vtrain.privacy import home_label
from vtrain.staging import LocalBuckets

Tell = Callable[[str], None]

LAYOUT = 3
"""Changes when images of an older version must not be used."""
REPOSITORY = "vtrain/runtime"
FOLDER = "/opt/vtrain/packages"
CACHE = "/var/cache/vtrain-pip"
PASSED_ON = (
    "PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_DEFAULT_TIMEOUT "
    "HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy"
).split()
"""Settings of the caller that pip needs in the image as well; they decide nothing about its content."""
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH in a container whose image sets none."""
PIP_SETTINGS = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_NO_INPUT": "1"}


def missing_images(engine: Engine, order: JobOrder) -> bool:
    """Whether something has to be pulled or built before the replicas can start."""
    if order.container.pull == "always":
        return True
    home = Path(order.home)
    for pool in order.job.job_spec.worker_pool_specs:
        packages = package_paths(pool, home)
        base = find_image(engine, image_uri(pool)) if pool.task else None
        if pool.task is None:
            continue
        if base is None or any(needs_build(package, home) for package in packages):
            return True
        if packages and find_image(engine, _planned(base, packages, home).name) is None:
            return True
    return False


def make_runtime(engine: Engine, order: JobOrder, tell: Tell) -> tuple[Runtime, ...]:
    """Pull and build what is not there. Raises ImageError, EngineError and PackagingError."""
    name = parse_name(order.name)
    assert name is not None
    code = JobFolder(Path(order.home) / "jobs" / name.id).path / "code"
    made: dict[tuple[object, ...], Runtime] = {}
    runtimes = []
    for number, pool in enumerate(order.job.job_spec.worker_pool_specs):
        key = (image_uri(pool), package_files(pool))
        if key not in made:
            made[key] = _make(engine, order, pool, code / f"workerpool{number}", tell)
        runtimes.append(made[key])
    return tuple(runtimes)


def package_paths(pool: WorkerPoolSpec, home: Path) -> tuple[Path, ...]:
    """A pool's packages on this machine. Raises ConfigError for a URI that is not local."""
    buckets = LocalBuckets(home)
    return tuple(buckets.local_path(uri) for uri in package_files(pool))


class RuntimeImage(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime image as it has to be, and its name."""

    base: Image
    packages: PackagePlan

    @property
    def content_hash(self) -> str:
        """The sha256 of all that decides the image."""
        steps = [step.identity() for step in self.packages.steps]
        return hashlib.sha256(msgspec.json.encode((LAYOUT, self.base.id, steps))).hexdigest()

    @property
    def name(self) -> str:
        """`vtrain/runtime:0123456789abcdef`."""
        return f"{REPOSITORY}:{self.content_hash[:16]}"

    def request(self, base_name: str, platform: str, home: Path) -> BuildRequest:
        """How it is built for a home."""
        settings = {name: os.environ[name] for name in PASSED_ON if os.environ.get(name)}
        return BuildRequest(
            tags=(self.name,),
            dockerfile=_dockerfile(base_name, self.base, settings, cached=True),
            plain_dockerfile=_dockerfile(base_name, self.base, settings, cached=False),
            files=self._files(),
            labels={
                KIND_LABEL: "runtime",
                CONTENT_LABEL: self.content_hash,
                BASE_LABEL: self.base.id,
                IMAGE_HOME_LABEL: home_label(home),
            },
            platform=platform,
            build_args=settings,
        )

    def _files(self) -> tuple[ContextFile, ...]:
        files = [
            ContextFile(name="install.py", content=Path(__file__).with_name("payload") / "install.py"),
        ]
        steps: list[dict[str, str]] = []
        for number, step in enumerate(self.packages.steps):
            if step.package is not None:
                name = f"{number}/{step.package.name}"
                files.append(ContextFile(name=name, content=step.package))
                steps.append({"package": name})
            else:
                text = "".join(f"{line}\n" for line in step.requirements)
                files.append(ContextFile(name=f"requirements-{number}.txt", content=text.encode()))
                steps.append({"requirements": f"requirements-{number}.txt"})
        files.append(ContextFile(name="steps.json", content=msgspec.json.encode(steps)))
        return tuple(files)


def _make(engine: Engine, order: JobOrder, pool: WorkerPoolSpec, site: Path, tell: Tell) -> Runtime:
    if pool.task is None:
        return Runtime()
    options, home = order.container, Path(order.home)
    name = image_uri(pool)
    pull = "never" if is_built_here(name) else options.pull
    base = ensure_image(engine, name, pull=pull, platform=options.platform, tell=tell)
    packages = package_paths(pool, home)
    if not packages:
        return Runtime(image=base.id)
    image = _planned(base, packages, home, tell)
    if find_image(engine, image.name) is None:
        build_image(engine, image.request(name, options.platform, home), tell)
    if not image.packages.overlays:
        return Runtime(image=image.name)
    if not site.exists():  # a supervisor before this one may have died here
        unfinished = site.with_name(f".{site.name}.{os.getpid()}")
        image.packages.unpack(unfinished)
        with suppress(OSError):  # where another supervisor's preparation was faster, its folder serves
            unfinished.rename(site)
    return Runtime(image=image.name, site=str(site))


def _planned(base: Image, packages: tuple[Path, ...], home: Path, tell: Tell | None = None) -> RuntimeImage:
    def log(block: bytes) -> None:
        if tell is not None:
            tell(block.decode("utf-8", "replace").rstrip("\n"))

    return RuntimeImage(base=base, packages=plan_packages(packages, home, log))


def _dockerfile(base_name: str, base: Image, settings: dict[str, str], *, cached: bool) -> str:
    arguments = [f"ARG {name}" for name in settings]
    arguments += [f"ARG {name}={value}" for name, value in PIP_SETTINGS.items()]
    mount = f"--mount=type=cache,target={CACHE} " if cached else ""
    program = ["python3", f"{FOLDER}/install.py", *([CACHE] if cached else [])]
    lines = [
        f"FROM {base_name}",
        *arguments,
        f'COPY [".", "{FOLDER}/"]',
        *_open_to(base.user),
        f"RUN {mount}{_words(program)}",
        f"ENV PATH={_quoted(f'{USER_BASE}/bin:{_path_of(base)}')}",
    ]
    return "\n".join(lines) + "\n"


def _open_to(user: str) -> tuple[str, ...]:
    """Let an image's own user put the way to its packages beside what root has copied there."""
    if user.partition(":")[0] in ("", "0", "root"):
        return ()
    program = _words(["python3", "-c", f"import os; os.chmod({str(Path(FOLDER).parent)!r}, 0o1777)"])
    return ("USER root", f"RUN {program}", f"USER {user}")


def _path_of(base: Image) -> str:
    variables = dict(entry.partition("=")[::2] for entry in base.env)
    return variables.get("PATH") or DEFAULT_PATH


def _quoted(value: str) -> str:
    """A value as it stands in a Dockerfile, where nothing in it is replaced."""
    return '"' + "".join(f"\\{letter}" if letter in '\\"$' else letter for letter in value) + '"'


def _words(program: list[str]) -> str:
    return msgspec.json.encode(program).decode()
