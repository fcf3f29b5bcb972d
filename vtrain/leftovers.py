"""What vtrain has on a Docker engine: cached images, and containers and networks that a job left behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from vtrain.backends.docker.container import home_label
from vtrain.containers.engine import Engine, engine_errors
from vtrain.containers.images import ListedImage, list_images, remove_image
from vtrain.containers.labels import HOME_LABEL, JOB_LABEL, KIND_LABEL
from vtrain.engine.store import DATABASE, Store
from vtrain.errors import EngineError, ImageError
from vtrain.messages.names import CUSTOM_JOBS, parse_name
from vtrain.messages.states import has_ended
from vtrain.packaging.image.plan import REPOSITORY

_PAGE_SIZE = 500


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """Something on the engine that may be removed. `size` is in bytes, `created` in RFC 3339.

    `kept` says why it stays; empty when it may go. `kind` is image, runtime, container or network.
    """

    id: str
    name: str
    kind: str
    created: str
    size: int = 0
    kept: str = ""


class ActiveJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of this home that have not ended: their ids, and the images that they name."""

    ids: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()


def active_jobs(home: Path) -> ActiveJobs:
    """The jobs whose containers and images have to stay."""
    if not (home / DATABASE).is_file():
        return ActiveJobs()
    store = Store.open(home)
    ids: set[str] = set()
    images: set[str] = set()
    for record in _records(store):
        name = parse_name(record.name)
        if name is None or has_ended(record.state):
            continue
        ids.add(name.id)
        images.update(_images(msgspec.json.decode(record.document)))
    return ActiveJobs(ids=frozenset(ids), images=frozenset(images))


def _records(store: Store) -> Iterator[Any]:
    token = ""
    while True:
        records, token = store.page(CUSTOM_JOBS, "", size=_PAGE_SIZE, token=token)
        yield from records
        if not token:
            return


def _images(document: dict[str, Any]) -> Iterator[str]:
    for pool in document.get("jobSpec", {}).get("workerPoolSpecs", ()):
        yield (pool.get("containerSpec") or {}).get("imageUri", "")


def cached_images(engine: Engine, active: ActiveJobs) -> tuple[Leftover, ...]:
    """The images that vtrain built and named itself, newest first.

    One that was given another name too is the user's: it is not among them.
    """
    with engine_errors("list containers"):
        used = {str(container["ImageID"]) for container in engine.client.containers(all=True)}
    ours = (image for image in list_images(engine, {KIND_LABEL: ""}) if _is_ours(image))
    return tuple(_leftover_image(image, used, active) for image in ours)


def _is_ours(image: ListedImage) -> bool:
    return all(tag.startswith(f"{REPOSITORY}/") for tag in image.tags)


def _leftover_image(image: ListedImage, used: set[str], active: ActiveJobs) -> Leftover:
    kept = "a container uses it" if image.id in used else ""
    if not kept and active.images.intersection(image.tags):
        kept = "a job uses it"
    return Leftover(
        id=image.id,
        name=", ".join(image.tags) or "<none>",
        kind=image.labels[KIND_LABEL],
        size=image.size,
        created=_instant(image.created),
        kept=kept,
    )


def orphans(engine: Engine, home: Path, active: ActiveJobs) -> tuple[Leftover, ...]:
    """Containers and networks of this home's jobs that have ended or are gone, containers first."""
    labels = {"label": [f"{HOME_LABEL}={home_label(str(home))}"]}
    with engine_errors("list containers"):
        containers = engine.client.containers(all=True, filters=labels)
        networks = engine.client.networks(filters=labels)
    found = [
        Leftover(
            id=entry["Id"],
            name=entry["Names"][0].lstrip("/") if entry.get("Names") else entry["Id"][:12],
            kind="container",
            created=_instant(entry["Created"]),
        )
        for entry in containers
        if entry["Labels"].get(JOB_LABEL) not in active.ids
    ]
    found += [
        Leftover(id=entry["Id"], name=entry["Name"], kind="network", created=entry["Created"][:19] + "Z")
        for entry in networks
        if entry["Labels"].get(JOB_LABEL) not in active.ids
    ]
    return tuple(found)


def remove(engine: Engine, leftover: Leftover) -> str:
    """Remove it; why it stays, in a few words, where the engine refuses."""
    try:
        with engine_errors(f"remove {leftover.name}"):
            if leftover.kind == "container":
                engine.client.remove_container(leftover.id, force=True, v=True)
            elif leftover.kind == "network":
                engine.client.remove_network(leftover.id)
            else:
                remove_image(engine, leftover.id)
    except (EngineError, ImageError) as error:
        return error.message
    return ""


def _instant(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
