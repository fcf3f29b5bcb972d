"""Builds images by the engine's API: BuildKit where the engine has it, the classic builder else."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Literal

import msgspec

from vtrain.containers.buildkit import TRACE, follow_trace
from vtrain.containers.classic import ClassicProgress
from vtrain.containers.context import ContextFile as ContextFile
from vtrain.containers.context import tar_stream
from vtrain.containers.engine import FULL_DISK_HINT, Engine, engine_errors, engine_words
from vtrain.containers.images import ensure_image
from vtrain.containers.refusals import NO_SPACE, explain_program
from vtrain.containers.steps import BuildSteps
from vtrain.errors import EngineAwayError, EngineError, ImageError

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
_LONGEST_LINE = 500
_LOST_CACHE = "failed to get digest"
"""What the classic builder says of a layer in its cache that somebody removes at this moment."""


class BuildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An image to build.

    `dockerfile` may use what only BuildKit has (`RUN --mount=type=cache`); `plain_dockerfile`, by default
    the same, is for the classic builder. `dockerfile_name` is for a Dockerfile that is one of `files`: no
    other is put into the context then. `pull` takes the bases from their registry even if they are here.
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


class _Refused(Exception):
    """The engine has no BuildKit that can be used like this."""


def build_image(engine: Engine, request: BuildRequest, tell: Tell, *, builder: Builder = "auto") -> str:
    """Build and tag an image; its id, `sha256:...`.

    `auto` takes BuildKit and, where the engine refuses that, the classic builder; DOCKER_BUILDKIT=0 takes
    the classic one at once. Raises ImageError with the step that failed and its last lines.
    """
    _have_bases(engine, request, tell)
    classic = builder == "classic" or (builder == "auto" and os.environ.get("DOCKER_BUILDKIT") == "0")
    if not classic:
        try:
            return _build(engine, request, request.dockerfile, {"version": "2"}, tell)
        except _Refused as refused:
            if builder == "buildkit":
                raise ImageError(f"The Docker engine does not build with BuildKit: {refused}.") from refused
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
    """The lines of a Dockerfile but for those of here-documents, which may look like instructions."""
    end = ""
    for line in dockerfile.split("\n"):
        if end:
            end = "" if line.rstrip("\r").lstrip("\t") == end else end
            continue
        yield line
        opened = _HERE_DOCUMENT.search(line)
        end = opened[2] if opened else ""


def _have_bases(engine: Engine, request: BuildRequest, tell: Tell) -> None:
    """Pull what is missing: without a session, BuildKit has no credentials for registries."""
    for name in base_images(request.dockerfile):
        ensure_image(
            engine, name, pull="always" if request.pull else "missing", platform=request.platform, tell=tell
        )


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
    from vtrain.containers.transport import post_stream

    own = () if request.dockerfile_name else (ContextFile(name=DOCKERFILE, content=dockerfile.encode()),)
    outcome = _Outcome(BuildSteps(tell))
    try:
        with engine_errors("build the image"):
            messages = post_stream(
                engine.client,
                "/build",
                params={**_parameters(request), **variant},
                headers={"Content-Type": "application/x-tar"},
                data=tar_stream((*request.files, *own)),
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
    """What a build comes to, read from the engine's messages; both builders' are understood."""

    def __init__(self, steps: BuildSteps) -> None:
        self._steps = steps
        self._classic = ClassicProgress(steps)
        self._id = ""
        self._traced = False

    def follow(self, messages: Iterator[dict[str, Any]]) -> None:
        """Read to the end. Raises ImageError when the build failed, _Refused before it began."""
        for message in messages:
            aux = message.get("aux")
            if message.get("id") == TRACE and isinstance(aux, str):
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
    shown = "".join(f"\n  {line[:_LONGEST_LINE]}" for line in lines)
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
