"""What the benchmarks with containers share: a scene whose images are removed at the end."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import scene

OURS = "vtrain/"


@contextmanager
def docker_scene() -> Iterator[Path]:
    """A scene; images that vtrain made for its jobs are removed at the end."""
    with scene() as folder:
        try:
            yield folder
        finally:
            remove_images(*job_images(folder / "home"))


def job_images(home: Path) -> set[str]:
    """Images made by vtrain that the jobs of a home ran in."""
    orders = home.glob("jobs/*/replicas/*/spec.json")
    configs = [json.loads(order.read_text()).get("config", {}) for order in orders]
    images = {str(config["Image"]) for config in configs if config}  # processes have none
    return {image for image in images if image.startswith(OURS)}


def remove_images(*names: str) -> None:
    """Remove images, and their layers that no other image has; those that a container uses stay."""
    if names:
        subprocess.run(["docker", "rmi", *names], capture_output=True, check=False)


@contextmanager
def built_image(name: str, dockerfile: str, folder: Path) -> Iterator[str]:
    """An image of that name, with the files of the folder as its context."""
    from vtrain.containers.build import BuildRequest, ContextFile, build_image
    from vtrain.containers.engine import connect

    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    files = tuple(ContextFile(name=str(path.relative_to(folder)), content=path) for path in paths)
    engine = connect()
    try:
        build_image(engine, BuildRequest(tags=(name,), dockerfile=dockerfile, files=files), lambda _: None)
        yield name
    finally:
        engine.close()
        remove_images(name)
