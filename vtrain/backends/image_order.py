"""Orders to build a trainer's image: for the Docker Engine of this machine, or published for a service."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vtrain.errors import ConfigError, EngineError

if TYPE_CHECKING:
    from vtrain.containers.discovery import EngineAddress
    from vtrain.packaging.image_plan import ImagePlan

BAKE_HINT = "Take --backend=docker, and name a base with --executor-image-uri=IMAGE."


class ImageWish(msgspec.Struct, frozen=True, kw_only=True):
    """The command line's settings of a trainer's image. `name` is empty where the user gives it none.

    `platform` and `pull` are those of ImageOrder. `project` and `display_name` are the job's.
    """

    name: str = ""
    platform: str = ""
    pull: str = "missing"
    project: str = ""
    display_name: str = ""


class ImageOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The making of the trainer's image.

    `platform` is `os/architecture`, empty for the engine's own; `pull` (missing, always, never) concerns the
    base; `push` sends the image to the registry in its name, which is in `repository` unless the user gives
    it another. Without an `engine` the one that answers is taken, when the image is built. `dockerfile` is
    the user's own.
    """

    platform: str = ""
    pull: str = "missing"
    push: bool = False
    repository: str = ""
    dockerfile: Path | None = None
    engine: EngineAddress | None = None

    def name_of(self, package: ImagePlan) -> str:
        """The name of an image that the user gives none: its tag tells its content."""
        _, _, tag = package.name.rpartition(":")
        return f"{self.repository}:{tag}" if self.repository else package.name


def with_engine(order: ImageOrder) -> ImageOrder:
    """With the engine that answers. Without one the plan still tells first what is wrong with the trainer."""
    from vtrain.containers.discovery import find_engine

    with suppress(EngineError):
        return msgspec.structs.replace(order, engine=find_engine())
    return order


def local_image(wish: ImageWish) -> ImageOrder:
    """An image for the engine of this machine."""
    return with_engine(ImageOrder(platform=wish.platform, pull=wish.pull))


def published_image(wish: ImageWish) -> ImageOrder:
    """An image that is pushed to a registry for a service. Raises ConfigError for what it does not take."""
    from vtrain.containers.image_names import (
        PUBLISHED_PLATFORM,
        check_published_name,
        default_repository,
        usual_platform,
    )

    if usual_platform(wish.platform) not in ("", PUBLISHED_PLATFORM):
        raise ConfigError(
            f"--platform: the machines of Vertex AI are {PUBLISHED_PLATFORM}, not {wish.platform}.",
            hint=f"Take --platform={PUBLISHED_PLATFORM}, or leave it out.",
        )
    if wish.name:
        check_published_name(wish.name, "output-image-uri")
    return with_engine(
        ImageOrder(
            platform=PUBLISHED_PLATFORM,
            pull=wish.pull,
            push=True,
            repository=default_repository(wish.project, wish.display_name),
        )
    )
