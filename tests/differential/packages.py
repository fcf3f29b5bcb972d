"""What a recorded run of docker put into an image, and whether vtrain's build, or its container, has it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from differential.runner import Case
from lib.stand_in_engine import StandInEngine

_COPY = re.compile(r"^\s*COPY (\[.*\])$", re.MULTILINE)
_REQUIREMENT = re.compile(r"^\s*RUN pip3? install --no-cache-dir --upgrade (.+)$", re.MULTILINE)
_NOT_CODE = {"Dockerfile", ".dockerignore"}


def without_tags(body: Any) -> Any:
    """The body of a request with the repositories of its images in place of their names."""
    if isinstance(body, list):
        return [without_tags(item) for item in body]
    if not isinstance(body, dict):
        return body
    return {
        key: value.rpartition(":")[0] or value if key == "imageUri" else without_tags(value)
        for key, value in body.items()
    }


def missing_content(case: Case, engine: StandInEngine, home: Path) -> tuple[str, ...]:
    """What gcloud's image has and the trainer of vtrain does not see; empty when nothing is missing."""
    seen = dict(_seen(engine, home))
    files = [name for name in _copied(case) if not any(_is_at_end(name, path) for path in seen)]
    texts = b"\n".join(content for path, content in seen.items() if path.endswith((".txt", "METADATA")))
    lines = texts.decode().splitlines()
    wanted = [name for name in _requirements(case) if name not in {_plain(line) for line in lines}]
    return (*files, *wanted)


def base_images(case: Case) -> set[str]:
    """The images that gcloud builds on, or runs as they are."""
    built = [line[5:] for text in _dockerfiles(case) for line in text.splitlines() if line[:5] == "FROM "]
    return set(built) or {_run_image(call["argv"]) for call in case.docker if call["argv"][0] == "run"}


def _run_image(argv: list[str]) -> str:
    """The word after the last option that gcloud gives to docker run, `--ipc host`."""
    return argv[argv.index("--ipc") + 2]


def _seen(engine: StandInEngine, home: Path) -> Iterator[tuple[str, bytes]]:
    """Files of all build contexts, and of the code that is laid over an image."""
    for build in engine.builds:
        yield from build.files.items()
    for path in home.glob("jobs/*/code/**/*"):
        if path.is_file():
            yield path.as_posix(), path.read_bytes()


def _dockerfiles(case: Case) -> list[str]:
    return [call["stdin"] for call in case.docker if call["argv"][0] == "build"]


def _copied(case: Case) -> set[str]:
    found: set[str] = set()
    for call in case.docker:
        if call["argv"][0] == "build":
            folder = PurePosixPath(call["argv"][-1].replace("$WORK/", ""))
            belonging = [
                PurePosixPath(name).relative_to(folder).as_posix()
                for name in case.files
                if PurePosixPath(name).is_relative_to(folder)
            ]
            sources = [json.loads(copy)[0] for copy in _COPY.findall(call["stdin"])]
            found |= {name for source in sources for name in belonging if _is_below(name, source)}
    return found - _NOT_CODE - set(_left_out(case, found))


def _left_out(case: Case, names: Iterable[str]) -> Iterator[str]:
    patterns = case.files.get("app/.dockerignore", "").split()
    return (name for name in names if any(_is_below(name, pattern) for pattern in patterns))


def _is_below(name: str, source: str) -> bool:
    return PurePosixPath(name).is_relative_to(PurePosixPath(source))


def _is_at_end(name: str, path: str) -> bool:
    """Extra packages lie under their own names, whatever folder they come from."""
    base = name.rpartition("/")[2] if name.endswith((".whl", ".tar.gz")) else name
    return path == base or path.endswith(f"/{base}")


def _requirements(case: Case) -> list[str]:
    return [
        _plain(shlex.split(line)[0]) for text in _dockerfiles(case) for line in _REQUIREMENT.findall(text)
    ]


def _plain(requirement: str) -> str:
    return requirement.removeprefix("Requires-Dist:").replace(" ", "")
