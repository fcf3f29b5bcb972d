"""A copy of the project in which snippets run, with `vtrain` and `gcloud` on the PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from snippets import ROOT, Checkout, clean_environ

from vtrain.containers.build import BuildRequest, build_image
from vtrain.containers.engine import Engine
from vtrain.containers.images import list_images, remove_image

NOT_CLONED = shutil.ignore_patterns(
    ".git", ".venv", ".nox", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info", "build", "dist", "site"
)


@pytest.fixture
def clone(tmp_path: Path) -> Checkout:
    """A fresh clone, as a newcomer has it: nothing is installed."""
    folder = tmp_path / "clone"
    shutil.copytree(ROOT, folder, ignore=NOT_CLONED)
    return Checkout(folder, clean_environ())


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    """The examples, with this vtrain on the PATH. Every job has ended afterwards."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=NOT_CLONED)
    commands = tmp_path / "commands"
    commands.mkdir()
    for name in ("vtrain", "gcloud"):  # `gcloud ai …` has to mean the same to vtrain
        command = commands / name
        command.write_text(
            f'#!/bin/sh\nPYTHONPATH="{ROOT}:$PYTHONPATH" exec "{sys.executable}" -m vtrain "$@"\n'
        )
        command.chmod(0o755)
    python = commands / "python3"  # the one that vtrain is installed in
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    environ = clean_environ()
    environ["PATH"] = os.pathsep.join([str(commands), environ["PATH"]])
    yield Checkout(folder, environ)
    end_all_jobs(environ)


def end_all_jobs(environ: dict[str, str]) -> None:
    """Cancel what still runs, and wait for it."""
    listing = ["vtrain", "custom-jobs", "list", "--backend=local", "--format=value(name)", "-q"]
    names = _output(listing, environ).split()
    for name in names:
        _output(["vtrain", "custom-jobs", "cancel", name, "-q"], environ)
        _output(["vtrain", "custom-jobs", "wait", name, "-q"], environ)


def _output(argv: list[str], environ: dict[str, str]) -> str:
    # subprocess looks up a program in this process's PATH, not in that of `env`
    program = shutil.which(argv[0], path=environ["PATH"])
    assert program is not None
    return subprocess.run(
        [program, *argv[1:]], env=environ, capture_output=True, text=True, check=False
    ).stdout


@pytest.fixture
def own_image(docker_engine: Engine, base_image: str) -> Iterator[str]:
    """An image that only this test has, so that what was built on it can be removed with it."""
    name = f"vtrain-test/docs:{uuid.uuid4().hex}"
    text = f"FROM {base_image}\nENV MADE_FOR={name} PIP_NO_COMPILE=1\n"
    image_id = build_image(docker_engine, BuildRequest(tags=(name,), dockerfile=text), lambda _line: None)
    yield name
    for image in list_images(docker_engine, {"vtrain.base": image_id}):
        remove_image(docker_engine, image.id)
    remove_image(docker_engine, name)
