"""Images of an engine: looked up, pulled, pushed, listed, removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import msgspec

from vtrain.containers.engine import FULL_DISK_HINT, Engine, engine_errors
from vtrain.containers.image_names import usual_platform
from vtrain.containers.progress import LayerProgress
from vtrain.containers.refusals import explain_refusal
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
