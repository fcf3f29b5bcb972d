"""Names for images of a test, removed after it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from vtrain.containers.engine import Engine


@pytest.fixture
def discard(docker_engine: Engine) -> Iterator[Callable[[str], None]]:
    """Takes names or ids of images to remove at the end, if they are there."""
    from docker.errors import NotFound

    images: list[str] = []
    yield images.append
    for image in images:
        with suppress(NotFound):
            docker_engine.client.remove_image(image, force=True)


@pytest.fixture
def new_name(discard: Callable[[str], None]) -> Callable[..., str]:
    """Makes names for images, `[HOST/]vtrain-test/...:1`; what bears one is removed at the end."""

    def make(registry: str = "") -> str:
        name = f"{registry}{'/' if registry else ''}vtrain-test/{uuid.uuid4().hex}:1"
        discard(name)
        return name

    return make


@pytest.fixture
def lines() -> list[str]:
    """Takes lines of progress: hand over its `append`."""
    return []
