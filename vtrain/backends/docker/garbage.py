"""Finds what vtrain left on a Docker Engine: images that it named itself, containers and networks of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from vtrain.atomic import is_held, remove_folder
from vtrain.containers.engine import (
    HOME_LABEL,
    IMAGE_HOME_LABEL,
    IN_PROGRESS,
    JOB_LABEL,
    KIND_LABEL,
    SERVING_LABEL,
    Engine,
    connect,
    engine_errors,
)
from vtrain.containers.images import Image, find_image, list_images, remove_image
from vtrain.errors import EngineError, ImageError
from vtrain.packaging.image_plan import REPOSITORY
from vtrain.privacy import home_label
from vtrain.runtime.gc.candidate import ELSEWHERE, Candidate, Search, Usage
from vtrain.runtime.gc.living import LivingJobs, images_used_since, living_jobs
from vtrain.times import from_epoch


def find_garbage(search: Search) -> Iterator[Candidate]:
    """All that may be removed from the engine. Raises EngineError."""
    with closing(connect()) as engine:
        yield from orphans(engine, search)
        yield from abandoned_servers(engine, search)
        before = float("inf") if search.images_of_any_age else search.unused_since
        yield from cached_images(engine, search, before)


def usage(home: Path) -> Usage:
    """The number and size of a home's images. Shared layers count for each image. Raises EngineError."""
    with closing(connect()) as engine:
        images = list_images(engine, {KIND_LABEL: "", IMAGE_HOME_LABEL: home_label(home)})
    size = sum(image.size for image in images)
    return Usage(noun="image", kinds=("image", "runtime"), count=len(images), size=size)


def cached_images(engine: Engine, search: Search, before: float) -> Iterator[Candidate]:
    """Images that this home made before `before` and that no job has used since, newest first.

    Images that the user has named too are left out. With `all_homes` in the search, the images of all homes
    count.
    """
    own = {} if search.all_homes else {IMAGE_HOME_LABEL: home_label(search.home)}
    images = list_images(engine, {KIND_LABEL: "", **own})
    ours = [image for image in images if all(tag.startswith(f"{REPOSITORY}/") for tag in image.tags)]
    with engine_errors("list containers"):
        used = {str(container["ImageID"]) for container in engine.client.containers(all=True)}
    living = living_jobs(search.home)
    lately = images_used_since(search.home, before) if before < search.now else frozenset()
    for image in ours:
        if image.created < before and not lately.intersection((*image.tags, image.id)):
            yield Candidate(
                id=image.id,
                name=", ".join(image.tags) or "<none>",
                kind=image.labels[KIND_LABEL],
                size=image.size,
                created=from_epoch(image.created, 0),
                kept=_kept(image, used, living),
                discard=partial(_discard_image, engine, image.id),
            )


def _kept(image: Image, used: set[str], living: LivingJobs) -> str:
    if image.id in used:
        return "a container uses it"
    if living.images.intersection((*image.tags, image.id)):
        return "a job uses it"
    if image.labels[KIND_LABEL] == "runtime" and living.is_preparing:
        return "a job that is being prepared may use it"
    return ""


def _discard_image(engine: Engine, image_id: str) -> str:
    try:
        if find_image(engine, image_id) is None:
            return ELSEWHERE
        remove_image(engine, image_id)
    except (EngineError, ImageError) as error:
        return error.message
    return ""


def orphans(engine: Engine, search: Search) -> Iterator[Candidate]:
    """Containers and networks of jobs that do not run. A network can go only after its containers."""
    containers = _labelled(engine.client.containers, JOB_LABEL, search, all=True)
    networks = _labelled(engine.client.networks, JOB_LABEL, search)
    living = living_jobs(search.home).ids  # after them, as a job may come at any time
    for entry in containers:
        if entry["Labels"].get(JOB_LABEL) not in living:
            yield _container(engine, entry)
    for entry in networks:
        if entry["Labels"].get(JOB_LABEL) not in living:
            yield Candidate(
                id=entry["Id"],
                name=entry["Name"],
                kind="network",
                created=f"{entry['Created'][:19]}Z",
                discard=partial(_remove, entry["Name"], partial(engine.client.remove_network, entry["Id"])),
            )


def abandoned_servers(engine: Engine, search: Search) -> Iterator[Candidate]:
    """Containers that answered a prediction, and whose command is gone; each goes with its folder.

    The server of its files then ends too.
    """
    for entry in _labelled(engine.client.containers, SERVING_LABEL, search, all=True):
        folder, is_asked = Path(entry["Labels"][SERVING_LABEL]), False
        with suppress(OSError):
            is_asked = is_held(folder)
        if not is_asked:
            yield _container(engine, entry, folder)


def _labelled(listed: Callable[..., Any], label: str, search: Search, **options: Any) -> list[dict[str, Any]]:
    """The containers or networks of the home that have a label."""
    labels = [label, f"{HOME_LABEL}={home_label(search.home)}"]
    with engine_errors("list containers"):
        found: list[dict[str, Any]] = listed(filters={"label": labels}, **options)
    return found


def _container(engine: Engine, entry: dict[str, Any], folder: Path | None = None) -> Candidate:
    name = entry["Names"][0].lstrip("/") if entry.get("Names") else entry["Id"][:12]

    def remove() -> None:
        engine.client.remove_container(entry["Id"], force=True, v=True)
        if folder is not None:
            with suppress(FileNotFoundError):
                remove_folder(folder)

    return Candidate(
        id=entry["Id"],
        name=name,
        kind="container",
        created=from_epoch(entry["Created"], 0),
        discard=partial(_remove, name, remove),
    )


def _remove(name: str, remove: Callable[[], Any]) -> str:
    try:
        with engine_errors(f"remove {name}"):
            remove()
    except EngineError as error:
        is_gone = error.http_status == HTTPStatus.NOT_FOUND or IN_PROGRESS in error.words
        return ELSEWHERE if is_gone else error.message
    return ""
