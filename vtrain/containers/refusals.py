"""Why an image cannot be had: the words of engines and registries, and what to do about each."""

from __future__ import annotations

import re

from vtrain.containers.engine import FULL_DISK_HINT, engine_words
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


def registry_of(name: str) -> str:
    """The host of the registry that an image name means."""
    first, slash, _ = name.partition("/")
    named = slash and ("." in first or ":" in first or first == "localhost")
    return first if named else "docker.io"


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
