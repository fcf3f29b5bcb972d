"""Trainers of the shapes that public examples have: planned without a false alarm, packed whole, and run."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vtrain.packaging.archive import is_direct
from vtrain.packaging.project import read_project
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource
from vtrain.runtime.environments.environment import make_wheel
from vtrain.runtime.environments.installer import is_plain, lay

pytestmark = pytest.mark.end_to_end


def output(folder: Path, tmp_path: Path, *args: str, **given: Any) -> list[str]:
    """The lines of a trainer that was packed and unpacked elsewhere. False alarms about imports refuse it."""
    plan = plan_sdist(TrainerSource(folder=folder, **given), strict=True)
    assert plan.warnings == ()
    sdist, site = build_sdist(plan, tmp_path / "packages").sdist, tmp_path / "site"
    package = sdist if is_direct(sdist) else make_wheel(sdist, tmp_path / "home", [].append)
    assert is_plain(package, platform.python_version())
    lay(package, site)
    command = [sys.executable, "-S", "-m", plan.python_module, *args]
    environment = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


ARGUMENTS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
known, unknown = parser.parse_known_args()
"""

DIRECT: dict[str, tuple[dict[str, Any], dict[str, str], list[str]]] = {
    "a script with siblings": (
        {"script": "main.py"},
        {
            "main.py": f"{ARGUMENTS}import model\nfrom utils.meters import Meter\n"
            "print(model.SIZE, Meter(known.epochs))\n",
            "model.py": "SIZE = 3\n",
            "utils/meters.py": "def Meter(n):\n    return 'epochs %d' % n\n",
            "README.md": "",
        },
        ["3 epochs 5"],
    ),
    "a script in a folder of its own": (
        {"script": "mnist/main.py"},
        {
            "mnist/main.py": "from net import Net\nprint(Net)\n",
            "mnist/net.py": "Net = 'lenet'\n",
            "vae/main.py": "",
        },
        ["lenet"],
    ),
    "a package with __main__ and unknown flags": (
        {"python_module": "trainer"},
        {
            "trainer/__init__.py": "",
            "trainer/__main__.py": f"{ARGUMENTS}from trainer.task import run\nprint(*run(known, unknown))\n",
            "trainer/task.py": "def run(known, unknown):\n    return known.epochs, unknown\n",
        },
        ["5 ['--job-dir=gs://b/x']"],
    ),
    "relative imports": (
        {"python_module": "trainer.task"},
        {
            "trainer/__init__.py": "",
            "trainer/task.py": "from . import model\nfrom .data.load import rows\nprint(model.fit(rows))\n",
            "trainer/model.py": "from .data import SCALE\ndef fit(rows):\n    return sum(rows) * SCALE\n",
            "trainer/data/__init__.py": "SCALE = 2\n",
            "trainer/data/load.py": "from .. import __name__ as top\nrows = [1, 2, len(top)]\n",
        },
        ["20"],
    ),
    "a namespace package": (
        {"python_module": "acme.vision.task"},
        {
            "acme/vision/task.py": "import acme.text\nfrom acme.vision import layers\n"
            "print(acme.text.WORDS, layers.DEPTH)\n",
            "acme/vision/layers.py": "DEPTH = 7\n",
            "acme/text/__init__.py": "WORDS = 9\n",
        },
        ["9 7"],
    ),
    "data beside the code": (
        {"python_module": "trainer.task"},
        {
            "trainer/__init__.py": "",
            "trainer/task.py": (
                "import json, os, pathlib, pkgutil\n"
                "here = pathlib.Path(__file__).parent\n"
                "print(json.loads((here / 'config' / 'base.json').read_text())['lr'])\n"
                "print(pkgutil.get_data('trainer', 'vocab.txt').decode().split())\n"
                "print(open(os.path.join(os.path.dirname(__file__), '..', 'shared.csv')).read().strip())\n"
            ),
            "trainer/config/base.json": '{"lr": 0.1}',
            "trainer/vocab.txt": "a b",
            "shared.csv": "1,2",
        },
        ["0.1", "['a', 'b']", "1,2"],
    ),
    "optional imports and late ones": (
        {"python_module": "trainer.task"},
        {
            "trainer/task.py": (
                "try:\n    import wandb_of_mine\nexcept ImportError:\n    wandb_of_mine = None\n"
                "def export():\n    import onnx_of_mine\n"
                "print(wandb_of_mine)\n"
            )
        },
        ["None"],
    ),
}


@pytest.mark.parametrize("shape", DIRECT)
def test_a_folder_without_a_project(make_tree, tmp_path: Path, shape: str) -> None:
    given, files, lines = DIRECT[shape]
    assert output(make_tree(files), tmp_path, "--epochs=5", "--job-dir=gs://b/x", **given) == lines


SETUP = """\
import pathlib
from setuptools import find_packages, setup
from setuptools.command.build_py import build_py


class Generate(build_py):
    \"\"\"A build step that makes a module, as extensions do, without a compiler.\"\"\"

    def run(self):
        super().run()
        (pathlib.Path(self.build_lib) / "my_trainer" / "_ops.py").write_text("SPEED = 11\\n")


setup(
    name="my-trainer",
    version="0.1",
    package_dir={"": "src"},
    packages=find_packages("src"),
    package_data={"my_trainer": ["data/*.txt"]},
    cmdclass={"build_py": Generate},
    python_requires=">=3.7",
)
"""


def test_a_project_with_a_build_step_of_its_own(make_tree, tmp_path: Path) -> None:
    """setup.py, a src layout, package data, a dash in the distribution's name, a generated module."""
    files = {
        "setup.py": SETUP,
        "MANIFEST.in": "recursive-include src *.txt\n",
        "src/my_trainer/__init__.py": "",
        "src/my_trainer/task.py": (
            "import pkgutil\nfrom my_trainer._ops import SPEED\n"
            "print(SPEED, pkgutil.get_data('my_trainer', 'data/names.txt').decode())\n"
        ),
        "src/my_trainer/data/names.txt": "adelie",
    }
    assert output(make_tree(files), tmp_path, python_module="my_trainer.task") == ["11 adelie"]


OTHER_BACKENDS = {
    "hatchling": '[project]\nname = "my-trainer"\nversion = "1"\ndependencies = ["numpy"]\n'
    '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    '[tool.hatch.build.targets.wheel]\npackages = ["my_trainer"]\n',
    "flit": '[project]\nname = "my_trainer"\nversion = "1"\ndescription = "d"\ndependencies = ["numpy"]\n'
    '[build-system]\nrequires = ["flit_core >=3.2,<4"]\nbuild-backend = "flit_core.buildapi"\n',
    "poetry": '[tool.poetry]\nname = "my-trainer"\nversion = "1"\ndescription = ""\n'
    'authors = ["A <a@example.test>"]\n'
    '[tool.poetry.dependencies]\npython = ">=3.9"\nnumpy = "*"\n'
    '[build-system]\nrequires = ["poetry-core"]\nbuild-backend = "poetry.core.masonry.api"\n',
}
PROJECT = {"my_trainer/__init__.py": "", "my_trainer/task.py": "import numpy\n"}


@pytest.mark.parametrize("backend", OTHER_BACKENDS)
def test_a_project_of_another_back_end_is_planned(make_tree, backend: str) -> None:
    folder = make_tree({**PROJECT, "pyproject.toml": OTHER_BACKENDS[backend]})
    project = read_project(folder)
    assert project is not None
    assert project.dependencies == (None if backend == "poetry" else ("numpy",))
    plan = plan_sdist(TrainerSource(folder=folder, python_module="my_trainer.task"), strict=True)
    assert (plan.warnings, plan.pep517) == ((), True)


@pytest.mark.network
@pytest.mark.parametrize("backend", OTHER_BACKENDS)
def test_a_project_of_another_back_end_is_built(make_tree, tmp_path: Path, backend: str) -> None:
    folder = make_tree({**PROJECT, "pyproject.toml": OTHER_BACKENDS[backend]})
    plan = plan_sdist(TrainerSource(folder=folder, python_module="my_trainer.task"))
    sdist = build_sdist(plan, tmp_path / "packages").sdist
    wheel = make_wheel(sdist, tmp_path / "home", [].append)
    assert wheel.name.startswith("my_trainer-1-") and is_plain(wheel)
