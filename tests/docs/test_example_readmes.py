"""Every example does what its README shows, in a copy of its folder, beginning with a bare `vtrain run`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from snippets import ROOT, Checkout, blocks, commands, run_all

from vtrain.toml_reader import load_toml

EXAMPLES = ROOT / "examples"
READMES = sorted(EXAMPLES.glob("*/README.md"))
DOCKER = "docker"
GIGABYTES = {"hf_finetune", "keras"}
"""The examples that install PyTorch or TensorFlow."""


def of(readmes: Iterable[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("readme", readmes, ids=lambda readme: readme.parent.name)


@pytest.mark.network
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "readme",
    [
        pytest.param(
            readme,
            id=readme.parent.name,
            marks=pytest.mark.frameworks if readme.parent.name in GIGABYTES else pytest.mark.pages,
        )
        for readme in READMES
    ],
)
def test_the_commands_of_an_example(readme: Path, checkout: Checkout) -> None:
    folder = checkout.folder / "examples" / readme.parent.name
    run_all(commands(readme, skipped_notes=(DOCKER,)), folder, checkout.environ)


@of(READMES)
def test_an_example_begins_with_a_bare_run(readme: Path) -> None:
    """Of the job that its pyproject.toml has."""
    table = load_toml((readme.parent / "pyproject.toml").read_text(encoding="utf-8"))
    assert table["tool"]["vtrain"]["job"]
    assert blocks(readme)[0].text.startswith("$ vtrain run\n")


def test_the_table_of_examples_has_each_folder_once() -> None:
    rows = (EXAMPLES / "README.md").read_text(encoding="utf-8").splitlines()
    named = [row.split("`")[1] for row in rows if row.startswith("| [`")]
    assert sorted(named) == sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir())
