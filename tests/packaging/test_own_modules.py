"""Advice about imports of the trainer's own modules, from all that lies in its folder and above."""

from __future__ import annotations

import pytest

from vtrain.errors import PackagingError
from vtrain.packaging.sdist import plan_sdist
from vtrain.packaging.source import TrainerSource


def warnings(folder, script="jobs/train.py", **given):
    return plan_sdist(TrainerSource(folder=folder, script=script, **given)).warnings


@pytest.mark.parametrize("where", ["utils/a.py", "utils/__init__.py", "utils.py", "utils/deep/a.py"])
def test_a_module_of_the_folder_is_no_distribution(make_tree, monkeypatch, where):
    folder = make_tree({"jobs/train.py": "from utils.a import A\n", where: ""})
    monkeypatch.chdir(folder)
    sentence = "jobs/train.py:1: `utils` is in this folder; run it as a module: vtrain run -m jobs.train"
    assert warnings(folder) == (sentence,)
    with pytest.raises(PackagingError) as refused:
        plan_sdist(TrainerSource(folder=folder, script="jobs/train.py"), strict=True)
    assert refused.value.message == sentence
    monkeypatch.chdir(folder.parent)
    assert warnings(folder)[0].endswith("run it as a module: vtrain run project -m jobs.train")
    assert warnings(folder, in_pool_spec=True)[0].endswith("python-module=jobs.train in --worker-pool-spec")


def test_a_folder_between_is_named(make_tree, monkeypatch):
    folder = make_tree({"ml/jobs/train.py": "import my_pkg\n", "ml/my_pkg/__init__.py": ""})
    monkeypatch.chdir(folder)
    (warning,) = warnings(folder, "ml/jobs/train.py")
    assert warning.endswith("`my_pkg` is in ml/; run it as a module: vtrain run ml -m jobs.train")


def test_modules_beside_the_script_would_be_lost(make_tree, monkeypatch):
    files = {"jobs/train.py": "import helper\nimport utils\n", "jobs/helper.py": "", "utils.py": ""}
    folder = make_tree(files)
    monkeypatch.chdir(folder)
    (warning,) = warnings(folder)
    assert warning.endswith(
        "`utils` is in this folder; import `helper` from jobs, "
        "and run it as a module: vtrain run -m jobs.train"
    )


@pytest.mark.parametrize("path", ["jobs/train.py", "jobs/helper.py"])
def test_a_trainer_that_changes_its_path_is_believed(make_tree, path):
    code = "import os, sys\nsys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))\n"
    files = {"jobs/train.py": "import helper\nimport utils\n", "jobs/helper.py": "", "utils/a.py": ""}
    files[path] = code + files[path]
    assert warnings(make_tree(files)) == ()


@pytest.mark.parametrize(
    "given", [{"script": "jobs/train.py"}, {"script": "", "python_module": "jobs.train"}]
)
def test_places_where_python_does_not_look_are_named(make_tree, given):
    folder = make_tree({"jobs/train.py": "import model\n", "lib/model.py": "", "more/model.py": ""})
    (warning,) = warnings(folder, **given)
    assert "`model` is in lib/ and more/, where Python does not look; import it as lib.model" in warning
    assert "requirements" not in warning
    assert ("vtrain run" in warning) == (given["script"] != "")


def test_the_folder_above_is_not_packed(make_tree, monkeypatch):
    folder = make_tree({"jobs/train.py": "import utils, jobs.other\n", "jobs/other.py": "", "utils/a.py": ""})
    monkeypatch.chdir(folder / "jobs")
    first, second = warnings(folder / "jobs", "train.py")
    assert first.endswith(
        "`utils` is in .., which is not packed; run it as a module: vtrain run .. -m jobs.train"
    )
    assert second.endswith(
        "`jobs` is in .., which is not packed; run it as a module: vtrain run .. -m jobs.train"
    )
    (warning, _) = warnings(folder / "jobs", "", python_module="train")
    assert warning.endswith("vtrain run .. -m jobs.train")


def test_a_module_that_is_left_out_is_named(make_tree):
    files = {"train.py": "import helper\n", "helper.py": "", ".gitignore": "helper.py\n"}
    (warning,) = warnings(make_tree(files), "train.py")
    assert "`helper` is in this folder, and not packed" in warning
    (warning,) = warnings(make_tree(files), "train.py", script_alone=True)
    assert "`helper` is in this folder, and not packed" in warning


def test_folders_without_python_are_no_modules(make_tree):
    (warning,) = warnings(make_tree({"jobs/train.py": "import yaml\n", "yaml/a.yaml": "", "yaml.csv": ""}))
    assert "add pyyaml to requirements" in warning


@pytest.mark.parametrize("extra", [{"setup.py": "import setuptools; setuptools.setup(name='x')"}, {}])
def test_modules_below_src(make_tree, extra):
    folder = make_tree({"jobs/train.py": "import utils\n", "src/utils/a.py": "", **extra})
    found = warnings(folder)
    assert found == () if extra else "`utils` is in src/" in found[0]
