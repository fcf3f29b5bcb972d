"""The space that a home takes: how many environments, packages, images and jobs there are, their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from vtrain.atomic import GONE
from vtrain.containers.engine import Engine
from vtrain.containers.images import list_images
from vtrain.containers.labels import IMAGE_HOME_LABEL, KIND_LABEL
from vtrain.leftovers.environments import environment_folders
from vtrain.leftovers.space import byte_count
from vtrain.privacy import home_label


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The things of one kind. `kinds` are the words for them in a table of leftovers."""

    noun: str
    kinds: tuple[str, ...]
    count: int
    size: int


def usage_of_home(home: Path) -> Iterator[Usage]:
    """What lies in a home. Reads the sizes of all files there."""
    yield _usage("environment", environment_folders(home / "environments"))
    yield _usage("package", (home / "packages").glob("[!.]*"))
    yield _usage("job", (path for path in (home / "jobs").glob("*") if not path.name.startswith(GONE)))


def usage_of_images(engine: Engine, home: Path) -> Usage:
    """The images that a home made; layers that they share are counted once for each. Raises EngineError."""
    images = list_images(engine, {KIND_LABEL: "", IMAGE_HOME_LABEL: home_label(home)})
    size = sum(image.size for image in images)
    return Usage(noun="image", kinds=("image", "runtime"), count=len(images), size=size)


def _usage(noun: str, paths: Iterable[Path]) -> Usage:
    sizes = [byte_count(path) for path in paths]
    return Usage(noun=noun, kinds=(noun,), count=len(sizes), size=sum(sizes))
