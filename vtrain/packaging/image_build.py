"""Build, tag and push the image of a plan, unless the Docker Engine has it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from vtrain.containers.build import PIP_ARGUMENT, BuildRequest, ContextFile, build_image, with_pip_folder
from vtrain.containers.discovery import EngineAddress
from vtrain.containers.engine import (
    BASE_LABEL,
    CONTENT_LABEL,
    IMAGE_HOME_LABEL,
    Engine,
    connect,
    engine_errors,
    image_facts,
)
from vtrain.containers.images import (
    ensure_image,
    find_image,
    push_image,
    pushed_digest,
    remove_image,
    split_name,
)
from vtrain.digests import file_digest
from vtrain.errors import ImageError, PackagingError
from vtrain.packaging.dockerfile import USER_ARGUMENT
from vtrain.packaging.image_plan import ImagePlan
from vtrain.privacy import home_label
from vtrain.settings import home_folder

Tell = Callable[[str], None]


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """An image that the engine has. `built` is False when it was there already."""

    id: str
    name: str
    built: bool


def make_image(
    plan: ImagePlan, address: EngineAddress, *, pull: str = "missing", tell: Tell, tags: Sequence[str] = ()
) -> Made:
    """The image of a plan, built unless the engine has it and its bases are the ones it was built on.

    `pull` concerns the bases: missing, always, never. With "missing" an image whose base is not here any
    more serves as it is. `tags` are further names for it. The SDK is imported only when there is something
    to do. Raises EngineError and ImageError; PackagingError when a file changed meanwhile.
    """
    if pull == "always":
        with closing(connect(address)) as engine:
            _have_bases(plan, engine, pull, tell)
        pull = "missing"
    found = image_facts(address, plan.name)
    if found is not None and _is_fresh(plan, found, address):
        tell(f"Image {plan.name}: cached.")
        made = Made(id=found["Id"], name=plan.name, built=False)
    else:
        with closing(connect(address)) as engine:
            _have_bases(plan, engine, pull, tell)
            made = Made(id=_build(plan, engine, tell), name=plan.name, built=True)
            if found is not None and found["Id"] != made.id:
                _forget(found["Id"], engine)
    missing = [tag for tag in tags if (image_facts(address, tag) or {}).get("Id") != made.id]
    if missing:
        with closing(connect(address)) as engine:
            for tag in missing:
                repository, label = split_name(tag)
                with engine_errors(f"name the image {tag}"):
                    engine.client.tag(made.id, repository, label)
    return made


def push(name: str, address: EngineAddress, tell: Tell) -> str:
    """Push the image to the registry in its name, unless it is there; its digest, `sha256:…`.

    Raises ImageError.
    """
    with closing(connect(address)) as engine:
        if digest := pushed_digest(engine, name, tell=tell):
            tell(f"Image {name}: the registry has it.")
            return digest
        return push_image(engine, name, tell=tell)


def check_platform(name: str, platform: str, address: EngineAddress) -> None:
    """Raise ImageError for an image that is not made for `platform` (`os/architecture`)."""
    facts = image_facts(address, name) or {}
    found = f"{facts.get('Os', 'linux')}/{facts.get('Architecture', '')}"
    if platform.split("/")[:2] != found.split("/"):
        raise ImageError(
            f"The image {name} is for {found}, and not for {platform}: it is not pushed.",
            hint=f"Build it with --platform={platform}, on a base image of that platform.",
        )


def _is_fresh(plan: ImagePlan, found: dict[str, Any], address: EngineAddress) -> bool:
    """Whether it is this plan's image, and no base has been replaced by another since."""
    labels = (found.get("Config") or {}).get("Labels") or {}
    if labels.get(CONTENT_LABEL) != plan.content_hash:
        return False
    built_on = labels.get(BASE_LABEL, "").split(",")
    present = [(image_facts(address, base) or {}).get("Id", "") for base in plan.bases]  # "": not here
    if len(built_on) != len(plan.bases or ("",)):
        return False
    return all(there in ("", before) for before, there in zip(built_on, present or [""], strict=True))


def _have_bases(plan: ImagePlan, engine: Engine, pull: str, tell: Tell) -> None:
    for base in plan.bases:
        ensure_image(engine, base, pull=pull, platform=plan.platform, tell=tell)


def _build(plan: ImagePlan, engine: Engine, tell: Tell) -> str:
    """Build the image; its id. Raises PackagingError where it has other files than its name stands for."""
    bases = [image_facts(engine.address, base) or {} for base in plan.bases]
    # A generated Dockerfile installs as root, and goes back to the base's own user.
    user = str((bases[0].get("Config") or {}).get("User") or "") if bases and plan.entrypoint else ""
    request = BuildRequest(
        tags=(plan.name,),
        dockerfile=plan.dockerfile,
        plain_dockerfile=plan.plain_dockerfile,
        dockerfile_name=plan.dockerfile_name,
        files=tuple(
            ContextFile(name=file.name, content=file.content, executable=file.executable)
            for file in plan.files
        ),
        labels=plan.labels
        | {
            BASE_LABEL: ",".join(base.get("Id", "") for base in bases),
            IMAGE_HOME_LABEL: home_label(home_folder()),
        },
        platform=plan.platform,
        build_args={USER_ARGUMENT: user} if user else {},
    )
    if plan.entrypoint and PIP_ARGUMENT in plan.dockerfile:
        request = with_pip_folder(request)
    tell(f"Building {plan.title} …")
    start = time.monotonic()
    image_id = build_image(engine, request, tell)
    for file in plan.files:
        path = file.content
        if isinstance(path, Path) and not (path.exists() and file_digest(path, file.size) == file.digest):
            remove_image(engine, plan.name)
            raise PackagingError(f"{path} changed while the image was built.", hint="Run the command again.")
    tell(f"Image {plan.name}: built in {time.monotonic() - start:.1f} s.")
    return image_id


def _forget(image_id: str, engine: Engine) -> None:
    """Remove an image that lost its name to a newer one, unless it has another or a container uses it."""
    with suppress(ImageError):
        image = find_image(engine, image_id)
        if image is not None and not image.tags:
            remove_image(engine, image_id)
