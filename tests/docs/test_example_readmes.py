"""Every example does what its README shows, in a copy of its folder, beginning with a bare `vtrain run`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from snippets import PUBLIC_IMAGE, ROOT, Checkout, blocks, commands, run_all

from vtrain.toml_reader import load_toml

EXAMPLES = ROOT / "examples"
READMES = sorted(EXAMPLES.glob("*/README.md"))
HAS_AIRFLOW = shutil.which("airflow") is not None or os.environ.get("VTRAIN_REQUIRE_AIRFLOW") == "1"
DOCKER, FRAMEWORKS, AIRFLOW = "docker", "frameworks", "airflow"


def folder_of(readme: Path, checkout: Checkout) -> Path:
    return checkout.folder / "examples" / readme.parent.name


def with_commands(note: str) -> list[Path]:
    return [readme for readme in READMES if commands(readme, notes=(note,))]


def of(readmes: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("readme", readmes, ids=lambda readme: readme.parent.name)


@pytest.mark.examples
@pytest.mark.network
@pytest.mark.timeout(900)
@of(with_commands(""))
def test_the_commands_of_an_example(readme: Path, checkout: Checkout) -> None:
    run_all(commands(readme, notes=("",)), folder_of(readme, checkout), checkout.environ)


@pytest.mark.examples
@pytest.mark.frameworks
@pytest.mark.network
@pytest.mark.timeout(900)
@of(with_commands(FRAMEWORKS))
def test_an_example_that_installs_gigabytes(readme: Path, checkout: Checkout) -> None:
    """PyTorch or TensorFlow."""
    run_all(commands(readme, notes=(FRAMEWORKS,)), folder_of(readme, checkout), checkout.environ)


@pytest.mark.examples
@pytest.mark.docker
@of(with_commands(DOCKER))
def test_an_example_in_containers(readme: Path, checkout: Checkout, own_image: str) -> None:
    folder = folder_of(readme, checkout)
    dockerfile = folder / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text(encoding="utf-8").replace(PUBLIC_IMAGE, own_image))
    run_all(commands(readme, notes=(DOCKER,)), folder, checkout.environ)


@pytest.mark.examples
@pytest.mark.network
@pytest.mark.skipif(not HAS_AIRFLOW, reason="apache-airflow is not on PATH")
@of(with_commands(AIRFLOW))
def test_an_example_for_airflow(readme: Path, checkout: Checkout) -> None:
    run_all(commands(readme, notes=(AIRFLOW,)), folder_of(readme, checkout), checkout.environ)


@of(READMES)
def test_an_example_has_a_bare_run(readme: Path) -> None:
    """Of the job that its pyproject.toml has."""
    table = load_toml((readme.parent / "pyproject.toml").read_text(encoding="utf-8"))
    assert table["tool"]["vtrain"]["job"]
    assert any(command.text.startswith("vtrain run") for command in commands(readme))
    assert {block.note for block in blocks(readme)} <= {"", DOCKER, FRAMEWORKS, AIRFLOW}


def test_the_table_of_examples_has_each_folder_once() -> None:
    rows = (EXAMPLES / "README.md").read_text(encoding="utf-8").splitlines()
    named = [row.split("`")[1] for row in rows if row.startswith("| [`")]
    assert sorted(named) == sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir())
