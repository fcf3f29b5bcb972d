"""Scripts: packed with a launcher, and run as `python SCRIPT` or `bash SCRIPT` in their own folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vtrain.errors import ConfigError, PackagingError
from vtrain.packaging.archive import unpack_direct
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource

pytestmark = pytest.mark.child


def run(folder: Path, tmp_path: Path, script: str, *argv: str, cwd: Path | None = None):
    plan = plan_sdist(TrainerSource(folder=folder, script=script))
    assert plan.python_module == "vtrain_script"
    site, work = tmp_path / "site", cwd or tmp_path / "work"
    unpack_direct(build_sdist(plan, tmp_path / "packages").sdist, site)
    work.mkdir(exist_ok=True)
    environment = {"PYTHONPATH": str(site), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    line = [sys.executable, "-u", "-m", plan.python_module, *argv]
    return subprocess.run(line, cwd=work, env=environment, capture_output=True, text=True)


def test_a_python_script_finds_its_folder_its_neighbours_and_its_arguments(make_tree, tmp_path):
    code = "import sys, os, near\nprint(sys.argv, near.x, open('conf.txt').read(), __name__)\n"
    folder = make_tree({"scripts/train.py": code, "scripts/near.py": "x = 5\n", "conf.txt": "c"})
    result = run(folder, tmp_path, "./scripts/train.py", "--a=b c", "$HOME", "")
    assert result.stdout == "['scripts/train.py', '--a=b c', '$HOME', ''] 5 c __main__\n", result.stderr


def test_a_traceback_shows_nothing_but_the_users_files(make_tree, tmp_path):
    folder = make_tree({"train.py": "def f():\n    raise ValueError('no')\nf()\n"})
    result = run(folder, tmp_path, "train.py")
    assert result.returncode == 1
    assert result.stderr.count("File ") == 2
    assert 'train.py", line 2, in f' in result.stderr
    assert "vtrain_script/__main__" not in result.stderr


def test_a_script_writes_beside_itself_but_not_into_the_installed_package(make_tree, tmp_path):
    folder = make_tree({"train.py": "open('out.txt', 'w').write('x')\n"})
    assert run(folder, tmp_path, "train.py").returncode == 0
    assert (tmp_path / "work/out.txt").exists()
    assert not (tmp_path / "site/vtrain_script/files/out.txt").exists()


def test_where_the_working_folder_holds_files_the_package_is_the_working_folder(make_tree, tmp_path):
    folder = make_tree({"train.py": "import os; print(os.getcwd())\n"})
    busy = make_tree({"x": ""}, "busy")
    assert run(folder, tmp_path, "train.py", cwd=busy).stdout.strip().endswith("site/vtrain_script/files")


def test_a_shell_script_gets_its_arguments_and_keeps_its_exit_code(make_tree, tmp_path):
    folder = make_tree({"go.sh": 'echo "$0|$1|$2" $(cat data)\nexit 7\n', "data": "d"})
    result = run(folder, tmp_path, "go.sh", "a b", "*")
    assert (result.stdout, result.returncode) == ("go.sh|a b|* d\n", 7)


def test_a_script_in_a_project_imports_the_project_and_brings_its_dependencies(make_tree, tmp_path):
    folder = make_tree(
        {
            "pyproject.toml": '[project]\nname = "kit"\nversion = "1"\ndependencies = ["six>=1"]\n',
            "src/kit/__init__.py": "y = 3\n",
            "scripts/train.py": "import kit\nprint(kit.y)\n",
        }
    )
    plan = plan_sdist(TrainerSource(folder=folder, script="scripts/train.py"))
    assert plan.requirements == ("six>=1",)
    assert not plan.pep517
    assert plan.warnings == ()
    assert run(folder, tmp_path, "scripts/train.py").stdout == "3\n"


def test_setup_py_dependencies_are_read_where_they_are_written_out(make_tree):
    setup = "from setuptools import setup\nREQ = ['six']\nsetup(name='k', install_requires=REQ)\n"
    folder = make_tree({"setup.py": setup, "t.py": ""})
    plan = plan_sdist(TrainerSource(folder=folder, script="t.py"))
    assert plan.requirements == ("six",)
    (folder / "setup.py").write_text(
        "from setuptools import setup\nsetup(install_requires=open('r').read())\n"
    )
    (warning,) = plan_sdist(TrainerSource(folder=folder, script="t.py")).warnings
    assert "knows the project's dependencies, and it failed: FileNotFoundError" in warning


@pytest.mark.parametrize("script", ["../other.py", "/etc/passwd"])
def test_a_script_outside_is_refused(make_tree, script):
    with pytest.raises(PackagingError, match="lies outside"):
        plan_sdist(TrainerSource(folder=make_tree({"t.py": ""}), script=script))


def test_a_missing_script_names_the_nearest(make_tree):
    with pytest.raises(PackagingError, match=r"There is no script trian\.py") as refusal:
        plan_sdist(TrainerSource(folder=make_tree({"train.py": ""}), script="trian.py"))
    assert refusal.value.hint == "The nearest is train.py."


def test_exactly_one_entry(make_tree):
    folder = make_tree({"t.py": ""})
    for given in ({}, {"script": "t.py", "python_module": "t"}):
        with pytest.raises(ConfigError, match="exactly one"):
            plan_sdist(TrainerSource(folder=folder, **given))
