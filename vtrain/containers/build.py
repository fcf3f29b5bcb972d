"""Builds images by the Engine API: BuildKit where the engine has it, else the classic builder."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from vtrain.containers.engine import FULL_DISK_HINT, Engine, engine_errors, engine_words
from vtrain.containers.images import ensure_image
from vtrain.containers.progress import TRACE, BuildSteps, ClassicProgress, follow_trace
from vtrain.containers.refusals import NO_SPACE, explain_program
from vtrain.errors import EngineAwayError, EngineError, ImageError
from vtrain.program_output import reason

Tell = Callable[[str], None]
Builder = Literal["auto", "buildkit", "classic"]
DOCKERFILE = ".vtrain.Dockerfile"
"""The Dockerfile's name in the context, where no file of the user's lies."""

_RUN = re.compile(
    r"^(?:executor failed running|process|The command|while running runtime).*? "
    r"(?:exit code|non-zero code|exit status):? (\d+)$",
    re.S,
)
_FROM = re.compile(r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(\S+)(?:[ \t]+AS[ \t]+(\S+))?\s*$", re.IGNORECASE)
_HERE_DOCUMENT = re.compile(r"<<-?([\"']?)(\w+)\1")
_NO_BUILDKIT = re.compile(r"buildkit|buildx|invalid version|builder version|session", re.IGNORECASE)
_WRAPPINGS = re.compile(
    r"^(failed to solve( with frontend \S+)?: |failed to create LLB definition: "
    r"|failed to compute cache key: |rpc error: code = \w+ desc = "
    r"|failed to calculate checksum of ref \S+: |building at STEP \".*?\": )+"
)
_NOT_THERE = re.compile(r"not found|file does not exist|no such file")
_LOST_CACHE = "failed to get digest"
"""The classic builder's words about a layer in its cache that is being removed at this moment."""


class BuildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An image to build.

    `dockerfile` may use what only BuildKit has (`RUN --mount=type=cache`); `plain_dockerfile`, by default
    the same, is for the classic builder. `dockerfile_name` is for a Dockerfile that is one of `files`: no
    other is put into the context then. `pull` takes the bases from their registry even if they are here.
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
    pull: bool = False
    secret: str = ""


class _Refused(Exception):
    """The engine has no BuildKit that can be used like this."""


def build_image(engine: Engine, request: BuildRequest, tell: Tell, *, builder: Builder = "auto") -> str:
    """Build and tag an image; its id, `sha256:...`.

    `auto` takes BuildKit and, where the engine refuses that, the classic builder; DOCKER_BUILDKIT=0 takes
    the classic one at once. Raises ImageError with the step that failed and its last lines.
    """
    # Without a session, BuildKit has no credentials for registries: what is missing is pulled before.
    for name in base_images(request.dockerfile):
        ensure_image(
            engine, name, pull="always" if request.pull else "missing", platform=request.platform, tell=tell
        )
    classic = builder == "classic" or (builder == "auto" and os.environ.get("DOCKER_BUILDKIT") == "0")
    if not classic:
        try:
            return _build(engine, request, request.dockerfile, {"version": "2"}, tell)
        except _Refused as refused:
            if builder == "buildkit":
                raise ImageError(f"The Docker engine does not build with BuildKit: {refused}.") from refused
    if request.secret:
        raise ImageError(
            f"The classic builder would keep {request.secret} in a layer of the image.",
            hint="Build with BuildKit: unset DOCKER_BUILDKIT, or use a Docker Engine that has it.",
        )
    dockerfile = request.plain_dockerfile or request.dockerfile
    return _build(engine, request, dockerfile, {"rm": "1", "forcerm": "1"}, tell)


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


def _build(
    engine: Engine, request: BuildRequest, dockerfile: str, variant: dict[str, str], tell: Tell
) -> str:
    try:
        return _build_once(engine, request, dockerfile, variant, tell)
    except ImageError as error:
        if _LOST_CACHE not in error.message:
            raise
    return _build_once(engine, request, dockerfile, variant, tell)


def _build_once(
    engine: Engine, request: BuildRequest, dockerfile: str, variant: dict[str, str], tell: Tell
) -> str:
    own = () if request.dockerfile_name else (ContextFile(name=DOCKERFILE, content=dockerfile.encode()),)
    outcome = _Outcome(BuildSteps(tell))
    try:
        with engine_errors("build the image"):
            messages = engine.calls.post_stream(
                "/build",
                {**_parameters(request), **variant},
                data=tar_stream((*request.files, *own)),
                headers={"Content-Type": "application/x-tar"},
            )
            with closing(messages):
                outcome.follow(messages)
    except EngineAwayError:
        raise
    except EngineError as error:
        if "version" in variant and _NO_BUILDKIT.search(error.message):
            raise _Refused(engine_words(error.message)) from error
        raise _not_built(error.message.partition("image: ")[2] or error.message) from error
    return outcome.image(engine, request.tags)


def _parameters(request: BuildRequest) -> dict[str, Any]:
    parameters: dict[str, Any] = {
        "dockerfile": request.dockerfile_name or DOCKERFILE,
        "t": list(request.tags),
    }
    if request.labels:
        parameters["labels"] = json.dumps(request.labels)
    if request.build_args:
        parameters["buildargs"] = json.dumps(request.build_args)
    if request.platform:
        parameters["platform"] = request.platform
    return parameters


class _Outcome:
    """The result of a build, read from the engine's messages; those of both builders are understood."""

    def __init__(self, steps: BuildSteps) -> None:
        self._steps = steps
        self._classic = ClassicProgress(steps)
        self._id = ""
        self._traced = False

    def follow(self, messages: Iterator[dict[str, Any]]) -> None:
        """Read to the end. Raises ImageError when the build failed, _Refused before it began."""
        for message in messages:
            aux = message.get("aux")
            if message.get("id") == TRACE and isinstance(aux, str):  # BuildKit; `stream` is the classic one's
                self._traced = True
                follow_trace(aux, self._steps)
            elif isinstance(aux, dict) and aux.get("ID"):
                self._id = aux["ID"]
            elif "stream" in message:
                self._classic.take(message["stream"])
            if error := (message.get("errorDetail") or {}).get("message") or message.get("error"):
                self._fail(str(error))
        if not self._traced:
            self._classic.end()

    def image(self, engine: Engine, tags: tuple[str, ...]) -> str:
        """The id of what was built."""
        if self._id.startswith("sha256:"):
            return self._id
        from vtrain.containers.images import find_image

        image = find_image(engine, self._id or tags[0]) if self._id or tags else None
        if image is None:
            raise ImageError("The image was not built: the engine ended the build without an image.")
        return image.id

    def _fail(self, error: str) -> None:
        if not self._traced and self._classic.idle and _NO_BUILDKIT.search(error):
            raise _Refused(engine_words(error))
        if not self._traced:
            self._classic.fail(error)
        failed = self._steps.failed
        if failed is None:
            raise _not_built(error)
        raise _not_built(error, failed.name, tuple(failed.last))


def _not_built(error: str, step: str = "", lines: tuple[str, ...] = ()) -> ImageError:
    said = _WRAPPINGS.sub("", engine_words(error))
    lines = tuple(reason(lines))
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


_BLOCK_BYTES = 512 * 1024
_FILE_MODE = 0o644
_PROGRAM_MODE = 0o755


class ContextFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the context. `name` is relative, with `/`; `content` is the bytes, or the file with them."""

    name: str
    content: bytes | Path
    executable: bool = False


def tar_stream(files: Iterable[ContextFile]) -> Iterator[bytes]:
    """The archive in blocks, sorted by name. Raises ImageError for a file that cannot be read, or changes.

    Owner, group and times are all zero: the layers of an image depend on the content alone.
    """
    for file in sorted(files, key=lambda file: file.name):
        yield from _entry(file)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _entry(file: ContextFile) -> Iterator[bytes]:
    if isinstance(file.content, bytes):
        yield from _blocks(file, io.BytesIO(file.content), len(file.content))
        return
    try:
        with file.content.open("rb") as source:
            yield from _blocks(file, source, source.seek(0, io.SEEK_END))
    except OSError as error:
        raise ImageError(
            f"The image cannot be built: {file.content} cannot be read ({error.strerror}).",
            hint="Make it readable, or leave it out with an ignore file.",
        ) from error


def _blocks(file: ContextFile, source: BinaryIO, size: int) -> Iterator[bytes]:
    info = tarfile.TarInfo(file.name)
    info.size = size
    info.mode = _PROGRAM_MODE if file.executable else _FILE_MODE
    yield info.tobuf(tarfile.PAX_FORMAT)
    source.seek(0)
    left = size
    while left:
        block = source.read(min(left, _BLOCK_BYTES))
        if not block:
            raise ImageError(
                f"The image cannot be built: {file.content!s} became shorter while it was read.",
                hint="Build again when nothing writes to it.",
            )
        left -= len(block)
        yield block
    yield bytes(-size % tarfile.BLOCKSIZE)
