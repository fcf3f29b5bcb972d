"""Packages that other tools wrote, or a shell: installed as pip would install them."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from lib.environment_packages import wheel

from vtrain.backends.docker.runtime_image import plan_packages
from vtrain.packaging import unpacking
from vtrain.packaging.unpacking import unpack_tar, unpack_zip
from vtrain.runtime.environments.environment import (
    EnvironmentFailed,
    EnvironmentSpec,
    make_environment,
    plan_environment,
)

pytestmark = pytest.mark.end_to_end

SETUP = """\
from setuptools import find_packages, setup

setup(
    name="penguins-trainer",
    version="0.1",
    packages=find_packages(),
    include_package_data=True,
    install_requires=["left"],
    entry_points={"console_scripts": ["penguins = trainer.task:main"]},
)
"""
TASK = """\
import os
import pkgutil

import left


def main():
    print(left.VERSION, pkgutil.get_data("trainer", "species.txt").decode().strip())


if __name__ == "__main__":
    main()
"""
FILES = {
    "setup.py": SETUP,
    "MANIFEST.in": "include trainer/*.txt\n",
    "trainer/__init__.py": "",
    "trainer/task.py": TASK,
    "trainer/species.txt": "gentoo\n",
}
BLANK = "\n\nMetadata-Version: 2.4\nName: nothing\nVersion: 1\n"
OTHER = "Metadata-Version: 2.1\nName: other-name\nVersion: 7\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A trainer's folder, as notebooks write it."""
    for name, text in FILES.items():
        file = tmp_path / "work" / "package" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "work" / "package"


@pytest.fixture
def wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place that installers look in; it has `left`."""
    wheel(tmp_path / "wheelhouse", "left")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheelhouse"))
    return tmp_path / "wheelhouse"


def by_shell(folder: Path, *arguments: str) -> Path:
    """`tar czf trainer.tar.gz ARGUMENTS`, run beside the folder."""
    subprocess.run(["tar", "czf", "trainer.tar.gz", *arguments], cwd=folder.parent, check=True)
    return folder.parent / "trainer.tar.gz"


def with_metadata(folder: Path, text: str) -> Path:
    (folder / "PKG-INFO").write_text(text)
    return by_shell(folder, folder.name)


def zipped(folder: Path, *, below: str) -> Path:
    with zipfile.ZipFile(folder.parent / "trainer.zip", "w") as archive:
        for name in FILES:
            archive.write(folder / name, below + name)
    return folder.parent / "trainer.zip"


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


SHAPES: dict[str, Callable[[Path], Path]] = {
    "a tarred folder": lambda folder: by_shell(folder, folder.name),
    "./ members": lambda folder: by_shell(folder, "-C", folder.name, "."),
    "no top folder": lambda folder: by_shell(folder, "-C", folder.name, *names(folder)),
    "a PKG-INFO with blank lines": lambda folder: with_metadata(folder, BLANK),
    "a PKG-INFO of another name": lambda folder: with_metadata(folder, OTHER),
    "a zip file": lambda folder: zipped(folder, below="anything/"),
    "a zip file without a top folder": lambda folder: zipped(folder, below=""),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_project_is_found_where_pip_finds_it(folder: Path, tmp_path: Path, shape: str) -> None:
    package = SHAPES[shape](folder)
    planned = plan_environment(EnvironmentSpec(packages=(str(package),)), tmp_path / "home")
    assert [unbuilt for unbuilt, _ in planned.unbuilt] == [package]
    (unpack_zip if package.suffix == ".zip" else unpack_tar)(package, tmp_path / "unpacked")
    assert (
        unpacking.project_folder(package, tmp_path / "unpacked") / "trainer" / "task.py"
    ).read_text() == TASK


@pytest.mark.parametrize("shape", ["a tarred folder", "a zip file without a top folder"])
def test_a_package_is_installed_as_pip_would(
    folder: Path, wheelhouse: Path, tmp_path: Path, shape: str
) -> None:
    package = SHAPES[shape](folder)
    spec = EnvironmentSpec(packages=(str(package),))
    made = make_environment(plan_environment(spec, tmp_path / "home"), [].append)
    for command in ([made.python, "-m", "trainer.task"], [f"{made.path_entries[0]}/penguins"]):
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        assert done.stdout == "1.0 gentoo\n"
    assert plan_environment(spec, tmp_path / "home").cached


def test_a_package_that_pip_refuses_is_refused_with_the_way_out(folder: Path, tmp_path: Path) -> None:
    """`tar czf trainer.tar.gz ./package`: pip takes `.` for the top folder, here and on Vertex AI."""
    package = by_shell(folder, f"./{folder.name}")
    with pytest.raises(EnvironmentFailed, match=r"neither setup\.py nor pyproject\.toml") as refused:
        make_environment(
            plan_environment(EnvironmentSpec(packages=(str(package),)), tmp_path / "home"), [].append
        )
    assert "tar czf trainer.tar.gz FOLDER" in refused.value.hint


def test_containers_get_a_package_without_metadata(folder: Path, tmp_path: Path) -> None:
    lines: list[bytes] = []
    package = by_shell(folder, f"./{folder.name}")
    (step,) = plan_packages((package,), tmp_path / "home", lines.append).steps
    assert step.package == package
    assert b"trainer.tar.gz is built in the image instead" in lines[0]
