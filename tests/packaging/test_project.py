"""What the files of a project say of its build, and what is said of files that cannot be read."""

from __future__ import annotations

import os
import re

import pytest

from vtrain.errors import PackagingError
from vtrain.packaging.project import read_project
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource

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


SETUP = "from setuptools import setup\n"


@pytest.mark.parametrize(
    ("listed", "dependencies"),
    [
        ("numpy", ("numpy",)),
        ("numpy; pandas", ("numpy", "pandas")),
        ("\n  numpy; os_name == 'nt'", ("numpy; os_name == 'nt'",)),
        ("\n  numpy>=1 # arrays\n  # torch\n  six; os_name == 'nt'", ("numpy>=1", "six; os_name == 'nt'")),
        ("file: requirements.in", None),
    ],
)
def test_setup_cfg_is_read_as_setuptools_reads_it(make_tree, listed, dependencies):
    text = f"[metadata]\nname = kit\n[options]\ninstall_requires = {listed}\n"
    project = read_project(make_tree({"setup.py": f"{SETUP}setup()\n", "setup.cfg": text}))
    assert project is not None
    assert project.dependencies == dependencies


@pytest.mark.parametrize("files", ["3", "[3]", '["none.txt"]'])
def test_dependencies_in_files_that_are_not_there_are_left_to_the_back_end(make_tree, files):
    table = f"[tool.setuptools.dynamic]\ndependencies = {{ file = {files} }}\n"
    text = f'{BUILD}{PROJECT}dynamic = ["dependencies"]\n{table}'
    project = read_project(make_tree({"pyproject.toml": text}))
    assert project is not None
    assert project.dependencies is None


@pytest.mark.parametrize(
    ("code", "dependencies"),
    [
        ("setup(install_requires='''numpy # arrays\n# torch\nsix''')", ("numpy", "six")),
        ("REQ = ['six']\nsetup(install_requires=REQ, tests_require=REQ)", ("six",)),
        ("REQ = ['six']\nREQ.append('torch')\nsetup(install_requires=REQ)", None),
        ("REQ = ['six']\nREQ += ['torch']\nsetup(install_requires=REQ)", None),
        ("REQ = ['six']\nREQ[0] = 'torch'\nsetup(install_requires=REQ)", None),
        ("REQ = ['six']\nif True:\n    REQ = ['torch']\nsetup(install_requires=REQ)", None),
        ("if True:\n    setup(install_requires=['six'])\nelse:\n    setup(install_requires=['torch'])", None),
        ("setup(install_requires={[]: 1})", None),
        ("x = " + "-" * 50_000 + "1\nsetup(install_requires=['six'])", None),
    ],
)
def test_setup_py_is_believed_only_where_it_writes_its_dependencies_out(make_tree, code, dependencies):
    project = read_project(make_tree({"setup.py": f"{SETUP}{code}\n"}))
    assert project is not None
    assert project.dependencies == dependencies


@pytest.mark.parametrize("listed", ['["numpy ="]', '["six\\nName: other"]'])
def test_a_dependency_that_is_no_requirement_is_refused_for_a_script(make_tree, listed):
    """A script's package has metadata by vtrain, into which a dependency of two lines could write."""
    folder = make_tree({"pyproject.toml": f"{PROJECT}dependencies = {listed}\n", "t.py": ""})
    with pytest.raises(PackagingError, match="is not a requirement"):
        plan_sdist(TrainerSource(folder=folder, script="t.py"))


def test_a_requires_python_that_is_no_version_is_refused_for_a_script(make_tree):
    folder = make_tree({"pyproject.toml": f'{PROJECT}requires-python = ">=3\\nName: other"\n', "t.py": ""})
    with pytest.raises(PackagingError, match="requires-python is wrong: Invalid specifier"):
        plan_sdist(TrainerSource(folder=folder, script="t.py"))


@pytest.mark.parametrize("name", ["../../kit", "a b", "kit/tools", "é", "k" * 300])
def test_a_name_that_no_file_can_have_leads_nowhere_else(make_tree, name):
    files = {"setup.py": f"{SETUP}setup()\n", "setup.cfg": f"[metadata]\nname = {name}\n", "t.py": ""}
    plan = plan_sdist(TrainerSource(folder=make_tree(files), python_module="t"))
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*-[0-9a-f]{16}\.tar\.gz", plan.file_name)
    assert len(plan.file_name) < 200


def test_a_script_with_the_longest_name_is_packed(make_tree, tmp_path):
    script = "s" * 252 + ".py"
    plan = plan_sdist(TrainerSource(folder=make_tree({script: ""}), script=script))
    assert build_sdist(plan, tmp_path / "packages").built


@pytest.mark.parametrize("beside", ["setup.py", "pyproject.toml"])
def test_a_setup_cfg_that_is_a_pipe_is_not_read_for_ever(make_tree, beside):
    folder = make_tree({beside: "[build-system]\n" if beside == "pyproject.toml" else f"{SETUP}setup()\n"})
    os.mkfifo(folder / "setup.cfg")
    with pytest.raises(PackagingError, match=r"setup\.cfg in .* cannot be read: it is a named pipe\."):
        read_project(folder)
