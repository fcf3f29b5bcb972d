"""What an engine has to do with registries: whether an image is there already, and pushing it."""

from __future__ import annotations

from contextlib import closing

from vtrain.containers.engine import Engine, engine_errors
from vtrain.containers.images import (
    Tell,
    checked_messages,
    find_image,
    image_errors,
    login_header,
    split_name,
)
from vtrain.containers.progress import LayerProgress
from vtrain.errors import EngineAwayError, EngineError, ImageError

NO_LOGIN = {"X-Registry-Auth": "e30="}
"""An engine wants this header even where there is nothing to say in it."""


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
    from vtrain.containers.transport import post_stream

    if find_image(engine, name) is None:
        raise ImageError(f"{name} cannot be pushed: the engine does not have it.", hint="Build it first.")
    repository, tag = split_name(name)
    progress = LayerProgress("Pushing", name, tell)
    digest = ""
    with image_errors(f"push {name}", name):
        headers = {**NO_LOGIN, **login_header(engine, name, tell)}
        path = "/images/{0}/push"
        with closing(
            post_stream(engine.client, path, repository, params={"tag": tag}, headers=headers)
        ) as messages:
            for message in checked_messages(messages, name, "pushed"):
                progress.take(message)
                digest = (message.get("aux") or {}).get("Digest") or digest
    progress.end(digest)
    return digest or next(iter(_known_digests(engine, name)), "")


def _known_digests(engine: Engine, name: str) -> tuple[str, ...]:
    """The digests under which the image is known to lie, or to have lain, in the name's repository."""
    repository, _ = split_name(name)
    with image_errors(f"look for the image {name}", name):
        digests = engine.client.inspect_image(name).get("RepoDigests") or ()
    return tuple(d.partition("@")[2] for d in digests if d.startswith(f"{repository}@"))


def _registry_digest(engine: Engine, name: str, tell: Tell) -> str:
    """The digest that the registry has under this name; empty where it has none, or does not say."""
    client = engine.client
    try:
        with engine_errors(f"ask the registry for {name}"):
            headers = {**NO_LOGIN, **login_header(engine, name, tell)}
            answer = client.get(client._url("/distribution/{0}/json", name), headers=headers)
            client._raise_for_status(answer)
            return str((answer.json().get("Descriptor") or {}).get("digest", ""))
    except EngineAwayError:
        raise
    except EngineError:
        return ""
