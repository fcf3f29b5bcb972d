"""Images of an engine: looked up, pulled, pushed, listed, removed; and why one of these was refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import msgspec

from vtrain.containers.engine import FULL_DISK_HINT, Engine, engine_errors, engine_words
from vtrain.containers.image_names import is_host, usual_platform
from vtrain.containers.progress import LayerProgress
from vtrain.errors import EngineAwayError, EngineError, ImageError

Tell = Callable[[str], None]
"""Takes one line of progress."""


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image that the engine has. Of one in a list only the first five fields are known."""

    id: str
    """`sha256:...`."""
    tags: tuple[str, ...] = ()
    """Without `<none>`."""
    labels: dict[str, str] = {}
    size: int = 0
    """Bytes."""
    created: float = 0.0
    """Seconds since the epoch; known in a list alone."""
    architecture: str = ""
    os: str = "linux"
    variant: str = ""
    user: str = ""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    """`NAME=value` entries."""

    @property
    def platform(self) -> str:
        """`linux/amd64`, `linux/arm64/v8`."""
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


def find_image(engine: Engine, name: str) -> Image | None:
    """The engine's image of that name, digest or id; None when it is not there (one millisecond).

    Raises ImageError for anything that is not the name of an image, EngineError when the engine does not say.
    """
    try:
        with image_errors(f"look for the image {name}", name):
            return _image(engine.inspect_image(name))
    except ImageError as error:
        if error.http_status == HTTPStatus.NOT_FOUND:
            return None
        raise


def ensure_image(
    engine: Engine, name: str, *, pull: str = "missing", platform: str = "", tell: Tell
) -> Image:
    """The image, pulled where `pull` asks for that (missing, always, never) or its platform is another.

    Raises ImageError with why it cannot be had.
    """
    found = find_image(engine, name)
    if found is not None and pull != "always" and fits_platform(found, platform):
        return found
    if pull == "never":
        raise _not_here(name, found, platform)
    try:
        _pull(engine, name, platform, tell)
    except ImageError as error:
        if found is None:
            raise
        local = f"The local {name} is for {found.platform}. " if not fits_platform(found, platform) else ""
        raise ImageError(f"{local}{error.message}", hint=error.hint) from error
    pulled = find_image(engine, name)
    if pulled is None:
        raise ImageError(f"{name} was pulled, but the engine does not find it.", hint="Pull it once more.")
    if not fits_platform(pulled, platform):
        raise ImageError(
            f"{name} is for {pulled.platform}, and there is none for {platform}.",
            hint="Name an image of that platform, or leave --platform out.",
        )
    return pulled


def fits_platform(image: Image, platform: str) -> bool:
    """Whether the image is for `platform` (`os/architecture[/variant]`); every image is where it is empty."""
    if not platform:
        return True
    system, architecture, *variant = usual_platform(platform).split("/")
    if (system, architecture) != (image.os, image.architecture):
        return False
    return not variant or not image.variant or variant == [image.variant]


def list_images(engine: Engine, labels: Mapping[str, str]) -> tuple[Image, ...]:
    """The images that bear all these labels, newest first; an empty value stands for any."""
    wanted = [f"{name}={value}" if value else name for name, value in labels.items()]
    with engine_errors("list images"):
        found = engine.client.images(filters={"label": wanted})
    images = (
        Image(
            id=entry["Id"],
            tags=_tags(entry),
            labels=entry.get("Labels") or {},
            size=entry["Size"],
            created=float(entry["Created"]),
        )
        for entry in found
    )
    return tuple(sorted(images, key=lambda image: image.created, reverse=True))


def remove_image(engine: Engine, id_or_tag: str) -> None:
    """Remove a tag; with an id, the image with all its tags. One that is not there is fine.

    Raises ImageError while a container, running or ended, is of that image.
    """
    image = find_image(engine, id_or_tag)
    if image is None:
        return
    with engine_errors("list containers"):
        users = engine.client.containers(all=True, filters={"ancestor": [image.id]})
    if users:
        user = (users[0].get("Names") or [users[0]["Id"][:12]])[0].lstrip("/")
        raise ImageError(
            f"The image {id_or_tag} is kept: the container {user} uses it.",
            hint="Remove the container, or wait for the end of its job.",
        )
    # The engine refuses to remove an image by its id as long as it has several tags.
    with_all_tags = id_or_tag.removeprefix("sha256:") in image.id
    for reference in (*image.tags, image.id) if with_all_tags else (id_or_tag,):
        with image_errors(f"remove {reference}", reference):
            if find_image(engine, reference) is not None:
                engine.client.remove_image(reference)


def split_name(name: str) -> tuple[str, str]:
    """Repository, and digest or else tag (`latest` where there is none), of an image name."""
    name, _, digest = name.partition("@")
    head, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        head, tag = name, "latest"
    return head, digest or tag


def _pull(engine: Engine, name: str, platform: str, tell: Tell) -> None:
    from vtrain.containers.sdk import post_stream, registry_login

    repository, tag = split_name(name)
    parameters = {"fromImage": repository, "tag": tag, "platform": platform or None}
    progress = LayerProgress("Pulling", name, tell)
    with image_errors(f"pull {name}", name):
        login = registry_login(name, tell)
        messages = post_stream(engine.client, "/images/create", parameters, login=login)
        for message in checked_messages(messages, name, "pulled"):
            progress.take(message)
    progress.end()


def checked_messages(messages: Iterable[dict[str, Any]], name: str, done: str) -> Iterator[dict[str, Any]]:
    """The messages, up to one that says it failed."""
    for message in messages:
        if words := (message.get("errorDetail") or {}).get("message") or message.get("error"):
            raise explain_refusal(str(words), name, done)
        yield message


@contextmanager
def image_errors(doing: str, name: str) -> Iterator[None]:
    """Refusals of the engine that concern the image become ImageError."""
    try:
        with engine_errors(doing):
            yield
    except EngineAwayError:
        raise
    except EngineError as error:
        status = error.http_status
        if not status:
            raise
        if error.hint == FULL_DISK_HINT or status == HTTPStatus.CONFLICT:
            raise ImageError(error.message, hint=error.hint, http_status=status) from error.__cause__
        done = {"pull": "pulled", "push": "pushed"}.get(doing.split(" ")[0], "used")
        refusal = explain_refusal(error.words or str(error.__cause__), name, done)
        refusal.http_status = status
        raise refusal from error.__cause__


def _not_here(name: str, found: Image | None, platform: str) -> ImageError:
    if found is None:
        return ImageError(
            f"The image {name} is not here, and --pull=never does not let it be pulled.",
            hint="Pull or build it, or leave --pull=never out.",
        )
    return ImageError(
        f"The local {name} is for {found.platform}, not for {platform}, and --pull=never does not let "
        "another be pulled.",
        hint="Leave --pull=never or --platform out.",
    )


def _tags(facts: dict[str, Any]) -> tuple[str, ...]:
    return tuple(tag for tag in facts.get("RepoTags") or () if tag != "<none>:<none>")


def _image(facts: dict[str, Any]) -> Image:
    config = facts.get("Config") or {}
    return Image(
        id=facts["Id"],
        labels=config.get("Labels") or {},
        architecture=facts.get("Architecture", ""),
        os=facts.get("Os", "linux"),
        variant=facts.get("Variant") or "",
        user=config.get("User") or "",
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
        env=tuple(config.get("Env") or ()),
        size=facts.get("Size") or 0,
        tags=_tags(facts),
    )


def pushed_digest(engine: Engine, name: str, *, tell: Tell) -> str:
    """The digest of the engine's image where its registry has the very same under this name; else empty.

    A registry that does not answer, or does not say, counts as one that does not have it: the push that
    follows tells why. Raises EngineAwayError when the engine goes away.
    """
    known = _known_digests(engine, name)
    digest = _registry_digest(engine, name, tell) if known else ""
    return digest if digest in known else ""


def push_image(engine: Engine, name: str, *, tell: Tell) -> str:
    """Push to the registry that the name says; the digest, `sha256:...`. Raises ImageError."""
    from vtrain.containers.sdk import post_stream, registry_login

    if find_image(engine, name) is None:
        raise ImageError(f"{name} cannot be pushed: the engine does not have it.", hint="Build it first.")
    repository, tag = split_name(name)
    progress = LayerProgress("Pushing", name, tell)
    digest = ""
    with image_errors(f"push {name}", name):
        login = registry_login(name, tell)
        messages = post_stream(engine.client, f"/images/{repository}/push", {"tag": tag}, login=login)
        for message in checked_messages(messages, name, "pushed"):
            progress.take(message)
            digest = (message.get("aux") or {}).get("Digest") or digest
    progress.end(digest)
    return digest or next(iter(_known_digests(engine, name)), "")


def _known_digests(engine: Engine, name: str) -> tuple[str, ...]:
    """The digests under which the image is known to lie, or to have lain, in the name's repository."""
    repository, _ = split_name(name)
    with image_errors(f"look for the image {name}", name):
        digests = engine.inspect_image(name).get("RepoDigests") or ()
    return tuple(d.partition("@")[2] for d in digests if d.startswith(f"{repository}@"))


def _registry_digest(engine: Engine, name: str, tell: Tell) -> str:
    """The digest that the registry has under this name; empty where it has none, or does not say."""
    from vtrain.containers.sdk import registry_login

    try:
        with engine_errors(f"ask the registry for {name}"):
            distribution = engine.client.inspect_distribution(name, auth_config=registry_login(name, tell))
            return str((distribution.get("Descriptor") or {}).get("digest", ""))
    except EngineAwayError:
        raise
    except EngineError:
        return ""


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
