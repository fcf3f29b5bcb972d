"""Dependencies that only the back end knows: asked of it where nothing else builds the project."""

from __future__ import annotations

import pytest
from image_trees import contents, plan

from vtrain.errors import PackagingError
from vtrain.packaging.archive import read_metadata
from vtrain.packaging.project import read_project
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource
from vtrain.settings import home_folder

pytestmark = pytest.mark.child

BACK_END = """\
import os, pathlib

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    with open(os.environ.get("ASKED", os.devnull), "a") as asked:
        asked.write("x")
    lines = pathlib.Path("dependencies.list").read_text().splitlines()
    info = pathlib.Path(folder, "kit-1.dist-info")
    info.mkdir()
    text = "Metadata-Version: 2.1\\nName: kit\\nVersion: 1\\n"
    info.joinpath("METADATA").write_text(text + "".join(f"Requires-Dist: {line}\\n" for line in lines))
    return info.name
"""
IN_TREE = '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
DYNAMIC = '[project]\nname = "kit"\nversion = "1"\ndynamic = ["dependencies"]\n'
SETUPTOOLS = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
TREE = {
    "pyproject.toml": IN_TREE + DYNAMIC,
    "own.py": BACK_END,
    "dependencies.list": "tabulate>=0.9\nattrs ; extra == 'dev'\n",
    "train.py": "import tabulate\n",
}


def script(folder, **given):
    return plan_sdist(TrainerSource(folder=folder, script="train.py"), **given)


def test_a_script_has_the_dependencies_that_the_back_end_computes(make_tree, tmp_path):
    planned = script(make_tree(TREE), strict=True)
    assert (planned.requirements, planned.warnings) == (("tabulate>=0.9",), ())
    assert read_metadata(build_sdist(planned, tmp_path / "packages").sdist).requires_dist == (
        "tabulate>=0.9",
    )


def test_an_unchanged_project_is_asked_once(make_tree, tmp_path, monkeypatch):
    asked = tmp_path / "asked"
    monkeypatch.setenv("ASKED", str(asked))
    home_folder().mkdir(parents=True)
    folder = make_tree(TREE)
    first, again = script(folder), script(folder)
    assert (first, asked.read_text()) == (again, "x")
    folder.joinpath("dependencies.list").write_text("idna\n")
    assert script(folder).requirements == ("idna",)
    assert asked.read_text() == "xx"


def test_a_plan_alone_makes_no_home(make_tree):
    script(make_tree(TREE))
    assert not home_folder().exists()


def test_a_back_end_that_fails_is_named_and_strict_refuses(make_tree):
    folder = make_tree({**TREE, "own.py": "def prepare_metadata_for_build_wheel(*_):\n    1 / 0\n"})
    (sentence,) = script(folder, provided=frozenset(["tabulate"])).warnings
    assert sentence == (
        "only the back end own knows the project's dependencies, and it failed: "
        "ZeroDivisionError: division by zero; name them in requirements"
    )
    with pytest.raises(PackagingError, match="ZeroDivisionError"):
        script(folder, provided=frozenset(["tabulate"]), strict=True)


def test_a_module_of_a_project_that_is_no_package_has_them_too(make_tree):
    folder = make_tree({**TREE, "pyproject.toml": f"{IN_TREE}{DYNAMIC}[tool.uv]\npackage = false\n"})
    planned = plan_sdist(TrainerSource(folder=folder, python_module="train"), strict=True)
    assert (planned.pep517, planned.requirements) == (False, ("tabulate>=0.9",))
    assert contents(plan(folder, python_module="train"))["dependencies/requirements.txt"] == "tabulate>=0.9\n"


@pytest.mark.parametrize(
    ("files", "dependencies"),
    [
        ({"reqs/base.txt": "# tools\nsix # one\n\nidna>=3\n"}, ("six", "idna>=3")),
        ({"reqs/base.txt": "-r other.txt\nsix\n"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("listed", ['"reqs/base.txt"', '["reqs/base.txt"]'])
def test_setuptools_takes_dependencies_from_files(make_tree, files, dependencies, listed):
    table = f"[tool.setuptools.dynamic]\ndependencies = {{file = {listed}}}\n"
    project = read_project(make_tree({"pyproject.toml": SETUPTOOLS + DYNAMIC + table, **files}))
    assert project is not None
    assert project.dependencies == dependencies


def test_setup_cfg_takes_dependencies_from_files(make_tree):
    text = "[metadata]\nname = kit\n[options]\ninstall_requires = file: a.txt, b.txt\n"
    project = read_project(make_tree({"setup.cfg": text, "a.txt": "six\n", "b.txt": "idna\n"}))
    assert project is not None
    assert project.dependencies == ("six", "idna")


POETRY = """
[tool.poetry]
name = "churn"
version = "0.1.0"
description = ""
authors = []
[tool.poetry.dependencies]
python = "^3.10"
tabulate = "^0.9"
six = { version = ">=1,<2", markers = "sys_platform == 'linux'" }
idna = { version = "*", optional = true }
[tool.poetry.group.dev.dependencies]
attrs = "*"
[build-system]
requires = ["poetry-core>=1.0"]
build-backend = "poetry.core.masonry.api"
"""
BARE_POETRY = POETRY.replace('version = "0.1.0"', "package-mode = false").replace('name = "churn"\n', "")
SPACED_POETRY = POETRY.replace("[tool.poetry]\n", "[ tool . poetry ]  # app\npackage-mode=false\n")


@pytest.mark.network
@pytest.mark.parametrize("text", [POETRY, BARE_POETRY, SPACED_POETRY])
def test_poetry_tells_what_its_own_table_lists(make_tree, text):
    planned = script(make_tree({"pyproject.toml": text, "train.py": "import tabulate\n"}), strict=True)
    assert sorted(planned.requirements) == ['six<2,>=1; sys_platform == "linux"', "tabulate<0.10,>=0.9"]
