"""Trainers of the image tests, and a Dockerfile read back as the builders read it."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from vtrain.packaging.image_plan import ImagePlan, plan_image
from vtrain.packaging.source import TrainerSource

BASE = "vtrain-test/python:3.11"
PREBUILT = "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-17.py310:latest"


def plan(folder: Path, base: str = BASE, **fields: Any) -> ImagePlan:
    """The plan of the trainer in a folder; fields of the source, or arguments of `plan_image`."""
    own = {name: fields.pop(name) for name in TrainerSource.__struct_fields__ if name in fields}
    if not own.keys() & {"python_module", "script"} and "dockerfile" not in fields:
        own["python_module"] = "trainer.task"
    return plan_image(TrainerSource(folder=folder, **own), base, **fields)


def wheel(name: str, module: str = "", metadata: str = "") -> bytes:
    """A wheel with one module, whose text is `module`, and more lines of `metadata`."""
    packed = io.BytesIO()
    info = f"{name}-1.dist-info"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"{name}.py", module)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{metadata}")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return packed.getvalue()


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile: comments and blank lines left out, continued lines joined."""
    found = []
    for line in dockerfile.replace("\\\n", "").split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            word, _, rest = line.strip().partition(" ")
            found.append((word.upper(), rest))
    return found


def entrypoint(dockerfile: str) -> list[str]:
    """The words of the ENTRYPOINT."""
    (text,) = (rest for word, rest in instructions(dockerfile) if word == "ENTRYPOINT")
    words: list[str] = json.loads(text)
    return words


def contents(made: ImagePlan) -> dict[str, str]:
    """The files of the context by name, as text."""
    return {file.name: _bytes(file.content).decode(errors="replace") for file in made.files}


def _bytes(content: bytes | Path) -> bytes:
    return content if isinstance(content, bytes) else content.read_bytes()
