"""What the files of a project say of its build, and what is said of files that cannot be read."""

from __future__ import annotations

import pytest

from vtrain.errors import PackagingError
from vtrain.packaging.project import read_project

BUILD = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
PROJECT = '[project]\nname = "kit"\nversion = "1"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{BUILD}{PROJECT}dependencies = 3\n", "project.dependencies: expected `array`, got `int`"),
        (f'{PROJECT}dependencies = "numpy"\n', "project.dependencies: expected `array`, got `str`"),
        (f"{PROJECT}dependencies = [1]\n", "project.dependencies[0]: expected `str`, got `int`"),
        (f'{PROJECT}[project.dependencies]\nnumpy = "1"\n', "project.dependencies: expected `array`"),
        (f"{PROJECT}dynamic = 3\n", "project.dynamic: expected `array`, got `int`"),
        ("[project]\nname = []\n", "project.name: expected `str`, got `array`"),
        ("project = 3\n", "project: expected `table`, got `int`"),
        ("[build-system]\nrequires = 3\n", "build-system.requires: expected `array`, got `int`"),
        ("[build-system]\nbuild-backend = 3\n", "build-system.build-backend: expected `str`, got `int`"),
        ("tool = 3\n", "tool: expected `table`, got `int`"),
    ],
)
def test_a_pyproject_with_wrong_types_is_refused(make_tree, text, words):
    with pytest.raises(PackagingError) as refusal:
        read_project(make_tree({"pyproject.toml": text}))
    assert words in refusal.value.message
    assert refusal.value.message.startswith("pyproject.toml in ")
