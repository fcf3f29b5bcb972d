"""Explanations of refusals about images: the words of engines and registries, and the user's next step."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vtrain.containers.engine import FULL_DISK_HINT, engine_words
from vtrain.containers.image_names import is_host
from vtrain.errors import ImageError

NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_NO_PLATFORM = re.compile(r"no matching manifest|does not match the specified platform|no match for platform")
_NO_ACCESS = re.compile(
    r"pull access denied|access to the resource is denied|unauthorized|authentication required|no basic auth"
    r"|denied:|403 Forbidden|insufficient_scope|requires? login|access forbidden",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    r"manifest unknown|manifest for .* not found|name unknown|repository .* not found|no such image"
    r"|: not found",
    re.IGNORECASE,
)
_UNREACHABLE = re.compile(
    r"dial tcp|no such host|connection refused|i/o timeout|timeout exceeded|handshake timeout|x509:"
    r"|network is unreachable|request canceled|server gave HTTP response to HTTPS|connection reset|: EOF$"
    r"|deadline exceeded",
    re.IGNORECASE,
)
_NO_PROGRAM = re.compile(
    r'exec: "([^"]+)": (?:executable file not found|stat \S+: no such file)'
    r"|No module named '?(pip)'?$",
    re.MULTILINE,
)
_NO_COMMAND = re.compile(
    r"sh: (?:line )?(?:\d+: )?(\S+): (?:command )?not found$|env: \W(\S+)\W: No such file", re.MULTILINE
)
"""The words of shells and env when they end with 127."""
_NOT_EXECUTABLE = re.compile(r'exec: "[^"]+": permission denied|exec format error')
_OPTIONS = re.compile(r"(?<=^RUN )(?:--\S+ )+")
_PYTHON = re.compile(r"(?:.*/)?(?:python|pip)[\d.]*")
_NO_NAME = re.compile(
    r"invalid reference format|repository name must be lowercase|invalid (tag|image) ", re.IGNORECASE
)


def explain_refusal(words: str, name: str, done: str) -> ImageError:
    """One sentence on why the image `name` cannot be `done` ("pulled"), and what to do about it."""
    said = engine_words(words)
    if NO_SPACE.search(said):
        return ImageError(
            f"{name} cannot be {done}: the Docker engine has no space left ({said}).", hint=FULL_DISK_HINT
        )
    if _NO_NAME.search(said):
        return ImageError(
            f"'{name}' is not the name of an image: {said}.",
            hint="Write it as [REGISTRY/]NAME[:TAG], in lower case.",
        )
    if _NO_PLATFORM.search(said):
        return ImageError(
            f"{name} cannot be {done}: there is none for this platform ({said}).",
            hint="Name another image, or another --platform.",
        )
    if _UNREACHABLE.search(said):
        return ImageError(
            f"{name} cannot be {done}: the Docker engine does not reach {registry_of(name)} ({said}).",
            hint="Check the network and the proxy of the engine, and the registry's name.",
        )
    return _access_refusal(said, name, done)


def explain_program(lines: Sequence[str], exit_code: str, step: str) -> ImageError | None:
    """The rest of a sentence on a step whose program does not run, and what to do; None for any other cause.

    `lines` are the engine's words and what the step wrote, `exit_code` is empty where the step has none.
    """
    text, step = "\n".join(lines), _OPTIONS.sub("", step)
    missing = _NO_PROGRAM.search(text) or (_NO_COMMAND.search(text) if exit_code == "127" else None)
    if missing is not None:
        program = missing[1] or missing[2]
        wanted = "Python and pip" if _PYTHON.fullmatch(program) else program
        return ImageError(
            f"it has no {program}, which {step} runs.",
            hint=f"Take a base image with {wanted} (--executor-image-uri, or FROM in a Dockerfile of yours).",
        )
    if exit_code == "126" or _NOT_EXECUTABLE.search(text):
        return ImageError(
            f"{step} cannot be executed.",
            hint="Its program has to be executable, and made for the platform of the image.",
        )
    return None


def registry_of(name: str) -> str:
    """The host of the registry that an image name means."""
    first, slash, _ = name.partition("/")
    return first if slash and is_host(first) else "docker.io"


def _access_refusal(said: str, name: str, done: str) -> ImageError:
    registry = registry_of(name)
    if _NO_ACCESS.search(said):
        return ImageError(
            f"{name} cannot be {done}: it does not exist, or you have no access to it ({said}).",
            hint=f"Correct the name, or log in: {_login_command(registry)}.",
        )
    if _UNKNOWN.search(said):
        return ImageError(
            f"{name} cannot be {done}: {registry} does not have it ({said}).",
            hint="Correct its name or tag.",
        )
    return ImageError(f"{name} cannot be {done}: {said}.")


def _login_command(registry: str) -> str:
    if registry.endswith((".pkg.dev", "gcr.io")):
        return f"gcloud auth configure-docker {registry}"
    return f"docker login {registry}" if registry != "docker.io" else "docker login"
