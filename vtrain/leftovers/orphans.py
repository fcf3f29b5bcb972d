"""Containers and networks of this home's jobs that have ended or are gone, by their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from typing import Any

from vtrain.containers.engine import Engine, engine_errors
from vtrain.containers.labels import HOME_LABEL, JOB_LABEL
from vtrain.errors import EngineError
from vtrain.leftovers.leftover import Leftover, Search, instant
from vtrain.leftovers.living import living_jobs
from vtrain.privacy import home_label


def orphans(engine: Engine, search: Search) -> Iterator[Leftover]:
    """Containers first: a network goes when nothing is connected to it."""
    labels = {"label": [JOB_LABEL, f"{HOME_LABEL}={home_label(search.home)}"]}
    with engine_errors("list containers"):
        containers: list[dict[str, Any]] = engine.client.containers(all=True, filters=labels)
        networks: list[dict[str, Any]] = engine.client.networks(filters=labels)
    living = living_jobs(search.home).ids
    for entry in containers:
        if entry["Labels"].get(JOB_LABEL) not in living:
            name = entry["Names"][0].lstrip("/") if entry.get("Names") else entry["Id"][:12]
            remove = partial(engine.client.remove_container, entry["Id"], force=True, v=True)
            yield _leftover(entry["Id"], name, "container", instant(entry["Created"]), remove)
    for entry in networks:
        if entry["Labels"].get(JOB_LABEL) not in living:
            remove = partial(engine.client.remove_network, entry["Id"])
            yield _leftover(entry["Id"], entry["Name"], "network", f"{entry['Created'][:19]}Z", remove)


def _leftover(id: str, name: str, kind: str, created: str, remove: Callable[[], Any]) -> Leftover:
    return Leftover(id=id, name=name, kind=kind, created=created, discard=partial(_discard, name, remove))


def _discard(name: str, remove: Callable[[], Any]) -> str:
    try:
        with engine_errors(f"remove {name}"):
            remove()
    except EngineError as error:
        if getattr(error.__cause__, "status_code", 0) != HTTPStatus.NOT_FOUND:
            return error.message
    return ""
