"""Images that vtrain built and named itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from vtrain.containers.engine import Engine, engine_errors
from vtrain.containers.images import ListedImage, list_images, remove_image
from vtrain.containers.labels import IMAGE_HOME_LABEL, KIND_LABEL
from vtrain.errors import EngineError, ImageError
from vtrain.leftovers.leftover import Leftover, Search, instant
from vtrain.leftovers.living import LivingJobs, images_used_since, living_jobs
from vtrain.packaging.image.plan import REPOSITORY
from vtrain.privacy import home_label


def cached_images(engine: Engine, search: Search, before: float) -> Iterator[Leftover]:
    """Images that this home made before that time, and that none of its jobs has used since, newest first.

    One that was given another name too is the user's: it is not among them. With `all_homes` in the search,
    the images of all homes count, and those of older versions, which did not say whose they are.
    """
    labels = (
        {KIND_LABEL: ""} if search.all_homes else {KIND_LABEL: "", IMAGE_HOME_LABEL: home_label(search.home)}
    )
    ours = [image for image in list_images(engine, labels) if _is_ours(image)]
    with engine_errors("list containers"):
        used = {str(container["ImageID"]) for container in engine.client.containers(all=True)}
    living = living_jobs(search.home)
    lately = images_used_since(search.home, before) if before < search.now else frozenset()
    for image in ours:
        if image.created < before and not lately.intersection((*image.tags, image.id)):
            yield Leftover(
                id=image.id,
                name=", ".join(image.tags) or "<none>",
                kind=image.labels[KIND_LABEL],
                size=image.size,
                created=instant(image.created),
                kept=_kept(image, used, living),
                discard=partial(_discard, engine, image.id),
            )


def _is_ours(image: ListedImage) -> bool:
    return all(tag.startswith(f"{REPOSITORY}/") for tag in image.tags)


def _kept(image: ListedImage, used: set[str], living: LivingJobs) -> str:
    if image.id in used:
        return "a container uses it"
    if living.images.intersection((*image.tags, image.id)):
        return "a job uses it"
    if image.labels[KIND_LABEL] == "runtime" and living.is_preparing:
        return "a job that is being prepared may use it"
    return ""


def _discard(engine: Engine, image_id: str) -> str:
    try:
        remove_image(engine, image_id)
    except (EngineError, ImageError) as error:
        return error.message
    return ""
