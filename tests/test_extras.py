"""How an extra is installed: into vtrain's own environment, and never a stranger from an index."""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import vtrain
from vtrain.extras import command_in_a_clone, install_command


@pytest.mark.parametrize(
    ("extra", "brings"),
    [
        ("vertex", "google-cloud-storage"),
        ("emulator", "starlette"),
        ("dashboard", "jinja2"),
        ("tuning", "plotly"),
        ("gp", "torch"),
    ],
)
def test_the_command_names_what_the_extra_brings_and_not_vtrain(extra: str, brings: str) -> None:
    words = shlex.split(install_command(extra))
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    assert any(word.startswith(f"{brings}>=") for word in words[4:])
    assert not any(word.startswith(("vtrain", "typer", "pytest")) for word in words[4:])


def test_in_a_clone_the_command_names_the_extra_and_its_folder() -> None:
    words = shlex.split(command_in_a_clone("emulator"))
    assert words == [sys.executable, "-m", "pip", "install", ".[emulator]"]


def test_the_command_finds_its_environment() -> None:
    argv = [*shlex.split(install_command("emulator"))[:4], "uv", "--dry-run", "--no-index"]
    env = {"PATH": os.defpath, "HOME": os.environ["HOME"]}
    ended = subprocess.run(argv, env=env, cwd="/", capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert sys.prefix in ended.stdout


def test_of_a_tree_that_is_not_installed_the_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    assert shlex.split(install_command("vertex"))[4:] == [f"{Path(vtrain.__file__).parents[1]}[vertex]"]
