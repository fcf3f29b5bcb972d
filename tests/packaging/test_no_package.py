"""Projects that are no package, as their tools say or as `uv init` writes them: bare folders in all forms."""

from __future__ import annotations

import pytest
from image_trees import contents, plan

from vtrain.packaging.archive import is_direct, read_metadata, unpack_direct
from vtrain.packaging.project import read_project
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource

PROJECT = '[project]\nname = "churn"\nversion = "0.1.0"\ndependencies = ["tabulate"]\n'
HATCHLING = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
POETRY = '[build-system]\nrequires = ["poetry-core"]\nbuild-backend = "poetry.core.masonry.api"\n'
PDM = '[build-system]\nrequires = ["pdm-backend"]\nbuild-backend = "pdm.backend"\n'
TREE = {
    "trainer/__init__.py": "",
    "trainer/task.py": "import tabulate\n",
    "data/a.csv": "1",
    "notebooks/x.ipynb": "{}",
    "main.py": "import model\n",
    "model.py": "",
}


@pytest.mark.parametrize("module", ["trainer.task", "main"])
@pytest.mark.parametrize(
    "text",
    [
        PROJECT,
        f"{PROJECT}[tool.uv]\npackage = false\n",
        f"{HATCHLING}{PROJECT}[tool.uv]\npackage = false\n",
        f"{POETRY}{PROJECT}[tool.poetry]\npackage-mode = false\n",
        f"{PDM}{PROJECT}[tool.pdm]\ndistribution = false\n",
        f"{HATCHLING}{PROJECT}[tool.rye]\nvirtual = true\n",
    ],
)
def test_a_project_that_is_no_package_is_a_bare_folder_with_requirements(make_tree, tmp_path, text, module):
    folder = make_tree({"pyproject.toml": text, **TREE})
    planned = plan_sdist(TrainerSource(folder=folder, python_module=module), strict=True)
    assert (planned.pep517, planned.companion, planned.warnings) == (False, "", ())
    sdist = build_sdist(planned, tmp_path / "packages").sdist
    assert is_direct(sdist)
    assert read_metadata(sdist).requires_dist == ("tabulate",)
    unpack_direct(sdist, tmp_path / "site")
    assert (tmp_path / "site/data/a.csv").is_file()
    made = plan(folder, python_module=module)
    assert made.warnings == ()
    assert contents(made)["dependencies/requirements.txt"] == "tabulate\n"
    assert "/tmp/project" not in made.dockerfile


@pytest.mark.parametrize(
    ("text", "extra"),
    [
        (f"{HATCHLING}{PROJECT}", {}),
        (PROJECT, {"src/trainer/task.py": ""}),
        (f"{PROJECT}[tool.uv]\npackage = false\n", {"src/trainer/task.py": ""}),
        (PROJECT, {"setup.py": "from setuptools import setup\nsetup()\n"}),
        (PROJECT, {"setup.cfg": "[metadata]\nname = churn\n"}),
        (f"{PROJECT}[tool.uv]\npackage = true\n", {}),
    ],
)
def test_what_can_be_built_is_a_package(make_tree, text, extra):
    project = read_project(make_tree({"pyproject.toml": text, **extra}))
    assert project is not None
    assert project.is_package


@pytest.mark.parametrize("given", [{"python_module": "trainer.task"}, {"script": "main.py"}])
def test_the_python_that_a_project_requires_is_kept_without_its_back_end(make_tree, tmp_path, given):
    folder = make_tree({"pyproject.toml": f'{PROJECT}requires-python = ">=3.12"\n', **TREE})
    sdist = build_sdist(plan_sdist(TrainerSource(folder=folder, **given)), tmp_path / "packages").sdist
    assert read_metadata(sdist).requires_python == ">=3.12"


def test_a_bare_folder_is_not_called_as_what_it_requires(make_tree):
    text = '[project]\nname = "tabulate"\nversion = "1"\ndependencies = ["trainer"]\n'
    planned = plan_sdist(
        TrainerSource(folder=make_tree({"pyproject.toml": text, **TREE}), python_module="trainer.task")
    )
    assert planned.name == "trainer-trainer"
