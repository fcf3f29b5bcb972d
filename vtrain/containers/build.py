"""Builds images with `docker buildx`, or without it with the engine's classic builder."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from vtrain.containers.discovery import docker_settings
from vtrain.containers.engine import FULL_DISK_HINT, Engine, engine_errors, engine_words, is_going
from vtrain.containers.images import NO_SPACE, explain_program, find_image
from vtrain.containers.progress import BuildStep, BuildSteps, ClassicProgress, follow_buildx
from vtrain.errors import EngineAwayError, EngineError, ImageError
from vtrain.pip_settings import PIP_FILE, pip_files, secret_settings
from vtrain.program_output import reason

Tell = Callable[[str], None]
END_SECONDS = 2.0
"""The time for buildx to end when it is asked to."""
PLUGIN_FOLDERS = tuple(
    f"/usr/{place}/docker/cli-plugins" for place in ("local/lib", "local/libexec", "lib", "libexec")
)
"""The folders in which Docker's command looks for plugins, after the user's own."""
DOCKERFILE = ".vtrain.Dockerfile"
"""The Dockerfile's name in the context, where no file of the user's lies."""

_RUN = re.compile(
    r"^(?:executor failed running|process|The command|while running runtime).*? "
    r"(?:exit code|non-zero code|exit status):? (\d+)$",
    re.S,
)
_FROM = re.compile(r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(\S+)(?:[ \t]+AS[ \t]+(\S+))?\s*$", re.IGNORECASE)
_HERE_DOCUMENT = re.compile(r"<<-?([\"']?)(\w+)\1")
_WRAPPINGS = re.compile(
    r"^(failed to solve( with frontend \S+)?: |failed to create LLB definition: "
    r"|failed to compute cache key: |rpc error: code = \w+ desc = "
    r"|failed to calculate checksum of ref \S+: |building at STEP \".*?\": )+"
)
_NOT_THERE = re.compile(r"not found|file does not exist|no such file")
_AWAY = re.compile(
    r"Cannot connect to the Docker daemon|error during connect|driver not connecting|code = Unavailable"
    r"|error reading from server"
)
"""The words of buildx about an engine that is away."""
_BUILDX_HINT = (
    "Install Docker's plugin buildx, 0.13 or newer (package docker-buildx-plugin or docker-buildx)."
)
_LOST_CACHE = "failed to get digest"
"""The classic builder's words about a layer in its cache that is being removed at this moment."""


class BuildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An image to build.

    `dockerfile` may use what only BuildKit has (`RUN --mount=type=cache`); `plain_dockerfile`, by default
    the same, is for the classic builder. `dockerfile_name` is for a Dockerfile that is one of `files`: no
    other is put into the context then.
    `secret` names what is secret in `files`: BuildKit mounts it, and the classic builder would keep it.
    """

    tags: tuple[str, ...]
    dockerfile: str
    plain_dockerfile: str = ""
    dockerfile_name: str = ""
    files: tuple[ContextFile, ...] = ()
    labels: dict[str, str] = {}
    platform: str = ""
    build_args: dict[str, str] = {}
    secret: str = ""


def build_image(engine: Engine, request: BuildRequest, tell: Tell) -> str:
    """Build and tag an image on bases that the engine has, or can pull; its id, `sha256:...`.

    BuildKit builds where Docker's command has its plugin buildx and the engine is not Podman; otherwise, and
    with DOCKER_BUILDKIT=0, the classic one. Raises ImageError with the step that failed and its last lines.
    """
    is_off = os.environ.get("DOCKER_BUILDKIT") == "0"
    if not (is_off or _is_podman(engine)):
        try:
            return _build_with_buildx(engine, request, tell)
        except (OSError, ImageError):
            if has_buildx():  # asked after a failure only: the answer takes a tenth of a second
                raise
    if request.secret:
        raise ImageError(
            f"The classic builder would keep {request.secret} in a layer of the image.",
            hint="Unset DOCKER_BUILDKIT." if is_off and has_buildx() else _BUILDX_HINT,
        )
    try:
        return _build_with_classic(engine, request, tell)
    except ImageError as error:
        if _LOST_CACHE not in error.message:
            raise
    return _build_with_classic(engine, request, tell)


@cache
def has_buildx() -> bool:
    """Whether Docker's command has its plugin buildx, with the JSON progress that came with 0.13."""
    try:
        printed = subprocess.run([*_buildx(), "version"], capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    version = re.search(r" v?(\d+)\.(\d+)", printed.stdout)
    return version is not None and (int(version[1]), int(version[2])) >= (0, 13)


def _is_podman(engine: Engine) -> bool:
    """Whether it is Podman's service here, which speaks the Engine API but has no BuildKit."""
    with engine_errors("tell its version"):
        return engine.address.is_local and "Podman" in str(engine.calls.get("/version"))


def base_images(dockerfile: str) -> tuple[str, ...]:
    """The images that a Dockerfile's FROM lines name; those that depend on a build argument are left out."""
    stages: set[str] = {"scratch"}
    found = []
    for line in "\n".join(_without_here_documents(dockerfile)).replace("\\\n", " ").split("\n"):
        match = _FROM.match(line)
        if match is None:
            continue
        name, stage = match.groups(default="")
        if name.lower() not in stages and "$" not in name:
            found.append(name)
        stages.add(stage.lower())
    return tuple(dict.fromkeys(found))


def _without_here_documents(dockerfile: str) -> Iterator[str]:
    """The lines of a Dockerfile without those of here-documents, which may look like instructions."""
    end = ""
    for line in dockerfile.split("\n"):
        if end:
            end = "" if line.rstrip("\r").lstrip("\t") == end else end
            continue
        yield line
        opened = _HERE_DOCUMENT.search(line)
        end = opened[2] if opened else ""


def _build_with_buildx(engine: Engine, request: BuildRequest, tell: Tell) -> str:
    """Run `buildx build`, which reads the context as a tar archive, and Docker's own logins."""
    steps, words = BuildSteps(tell), b""
    with (
        tempfile.TemporaryDirectory(prefix="vtrain-build-") as folder,
        _context(request, request.dockerfile) as context,
    ):
        id_file = Path(folder, "id")
        # Ctrl-C is for us, who then end the build with its plugin. Not so in the program that prepares a job:
        # it leads a session, and its group is ended as a whole, whatever has ended the program itself.
        is_apart = os.getsid(0) != os.getpid()
        end = os.killpg if is_apart else os.kill
        with subprocess.Popen(
            _buildx_command(engine, request, id_file),
            stdin=context,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=os.environ | ({"DOCKER_HOST": engine.address.host} if engine.address.is_local else {}),
            start_new_session=is_apart,
        ) as program:
            assert program.stderr is not None
            try:
                words = follow_buildx(program.stderr, steps)
            except BaseException:
                with suppress(ProcessLookupError):
                    end(program.pid, signal.SIGTERM)
                    with suppress(subprocess.TimeoutExpired):
                        program.wait(END_SECONDS)
                    end(program.pid, signal.SIGKILL)
                raise
        if program.returncode == 0:
            return id_file.read_text()
    # An excerpt of the Dockerfile may come before, and an advertisement after the error.
    error = words.decode("utf-8", "replace").rpartition("ERROR: ")[2].partition("\n\n")[0]
    said = _WRAPPINGS.sub("", engine_words(error))
    if not _RUN.search(said) and (_AWAY.search(error) or is_going(error)):
        raise EngineAwayError(f"The Docker engine went away; it cannot build the image ({said}).")
    raise _not_built(error, steps.failed)


def _buildx_command(engine: Engine, request: BuildRequest, id_file: Path) -> list[str]:
    options = {
        # The engine's own BuildKit has the bases that were built there. It is named as the engine's context.
        "builder": [(not engine.address.is_local and engine.address.context) or "default"],
        "progress": ["rawjson"],
        "provenance": ["false"],  # an image alone, as the classic builder makes it
        "iidfile": [str(id_file)],
        "file": [request.dockerfile_name or DOCKERFILE],
        "platform": [request.platform] if request.platform else [],
        "tag": request.tags,
        "label": [f"{name}={value}" for name, value in request.labels.items()],
        # What the environment has, such as a proxy with its password, is not for the list of processes.
        "build-arg": [
            name if os.environ.get(name) == value else f"{name}={value}"
            for name, value in request.build_args.items()
        ],
    }
    words = [f"--{name}={value}" for name, values in options.items() for value in values]
    return [*_buildx(), "build", "--load", *words, "-"]


def _buildx() -> list[str]:
    """Docker's plugin buildx, a program that starts sooner by itself; else Docker's command for it."""
    folders = [str(docker_settings() / "cli-plugins"), *PLUGIN_FOLDERS]
    plugin = shutil.which("docker-buildx", path=os.pathsep.join(folders))
    return [plugin] if plugin else ["docker", "buildx"]


def _build_with_classic(engine: Engine, request: BuildRequest, tell: Tell) -> str:
    from vtrain.containers.sdk import post_stream

    parameters = {
        "dockerfile": request.dockerfile_name or DOCKERFILE,
        "t": list(request.tags),
        "labels": json.dumps(request.labels),
        "buildargs": json.dumps(request.build_args),
        "platform": request.platform or None,
        "rm": "1",
        "forcerm": "1",
    }
    steps = BuildSteps(tell)
    progress = ClassicProgress(steps)
    built = ""
    try:
        with (
            _context(request, request.plain_dockerfile or request.dockerfile) as context,
            engine_errors("build the image"),
        ):
            for message in post_stream(engine.client, "/build", parameters, data=context):
                progress.take(message.get("stream", ""))
                built = (message.get("aux") or {}).get("ID") or built
                if error := (message.get("errorDetail") or {}).get("message") or message.get("error"):
                    progress.fail(str(error))
                    raise _not_built(str(error), steps.failed)
    except EngineAwayError:
        raise
    except EngineError as error:
        raise _not_built(error.words or error.message) from error
    progress.end()
    image = find_image(engine, built or request.tags[0])
    if image is None:
        raise ImageError("The image was not built: the engine ended the build without an image.")
    return image.id


def _not_built(error: str, failed: BuildStep | None = None) -> ImageError:
    said = _WRAPPINGS.sub("", engine_words(error))
    step, lines = (failed.name, tuple(reason(tuple(failed.last)))) if failed is not None else ("", ())
    shown = "".join(f"\n  {line}" for line in lines)
    instruction = "" if step.startswith("[internal]") else step.partition("] ")[2]
    if NO_SPACE.search("\n".join((said, *lines))):
        where = f" in {instruction}" if instruction else ""
        return ImageError(
            f"The image cannot be built: no space left on the Docker engine's disk{where}.{shown}",
            hint=FULL_DISK_HINT,
        )
    found = _RUN.search(said)
    if instruction and (trouble := explain_program((said, *lines), found[1] if found else "", instruction)):
        return ImageError(f"The image cannot be built: {trouble.message}{shown}", hint=trouble.hint)
    if found:
        return ImageError(
            f"The image cannot be built: {instruction or 'a step'} ended with exit code {found[1]}.{shown}",
            hint="Correct what that step installs or runs; its output is above.",
        )
    where = f" ({instruction})" if instruction and instruction not in said else ""
    missing = (
        "Correct that line, or see that no ignore file leaves the file out."
        if _NOT_THERE.search(said)
        else ""
    )
    return ImageError(f"The image cannot be built{where}: {said}.{shown}", hint=missing)


class ContextFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the context. `name` is relative, with `/`; `content` is the bytes, or the file with them."""

    name: str
    content: bytes | Path
    executable: bool = False


@contextmanager
def _context(request: BuildRequest, dockerfile: str) -> Iterator[BinaryIO]:
    """The context as a temporary archive, with the Dockerfile unless that is one of its files."""
    own = () if request.dockerfile_name else (ContextFile(name=DOCKERFILE, content=dockerfile.encode()),)
    with tempfile.TemporaryFile() as archive:
        write_archive((*request.files, *own), archive)
        archive.seek(0)
        yield archive


def write_archive(files: Iterable[ContextFile], archive: BinaryIO) -> None:
    """Write a tar archive, sorted by name. Raises ImageError for a file that cannot be read, or shrinks.

    Owner, group and times are all zero: the layers of an image depend on the content alone.
    """
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in sorted(files, key=lambda file: file.name):
            info, content = tarfile.TarInfo(file.name), file.content
            info.mode = 0o755 if file.executable else 0o644
            try:
                with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as source:
                    info.size = source.seek(0, io.SEEK_END)
                    source.seek(0)
                    tar.addfile(info, source)
            except OSError as error:
                raise _not_archived(content if isinstance(content, Path) else file.name, error) from error


def _not_archived(file: Path | str, error: OSError) -> ImageError:
    if error.errno is None:  # tarfile says so of a file that ends before its size
        fault, hint = f"{file} became shorter while it was read", "Build again when nothing writes to it."
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        fault = f"{tempfile.gettempdir()} has no room for a copy of its files"
        hint = "Free some space there, or set TMPDIR to another folder."
    else:
        fault = f"{file} cannot be read ({error.strerror})"
        hint = "Make it readable, or leave it out with an ignore file."
    return ImageError(f"The image cannot be built: {fault}.", hint=hint)


_FOLDER = "pip"
_PLACE = "/tmp/vtrain-pip"
PIP_ARGUMENT = f"ARG PIP_CONFIG_FILE={_PLACE}/{PIP_FILE}"
"""The line of a Dockerfile before the first step that installs."""
PIP_MOUNT = f"--mount=type=bind,source={_FOLDER},target={_PLACE}"
"""What such a step has with BuildKit."""
PIP_COPY = f'COPY ["{_FOLDER}/", "{_PLACE}/"]'
"""The line before the first such step for the classic builder."""
_PROXIES = "HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy".split()
"""Arguments that every builder knows; it keeps them out of the history, as long as no `ARG` names them."""


def with_pip_folder(request: BuildRequest, folder: str = "") -> BuildRequest:
    """The request with a folder for pip's configuration, which stays in no layer, and this machine's proxies.

    BuildKit mounts it for the steps that install. The classic builder can only copy it into a layer: that one
    is refused where the folder holds a login. Relative paths of pip's configuration count from `folder`
    (empty: the current one). Raises as `pip_files`.
    """
    files = pip_files(os.environ, _PLACE, folder)
    secret = ", ".join(secret_settings(files))
    added = (ContextFile(name=f"{_FOLDER}/{name}", content=content) for name, content in files.items())
    proxies = {name: os.environ[name] for name in _PROXIES if os.environ.get(name)}
    return replace(
        request,
        files=(*request.files, *added),
        build_args=proxies | request.build_args,
        secret=f"what pip's configuration says in {secret}" if secret else "",
    )
