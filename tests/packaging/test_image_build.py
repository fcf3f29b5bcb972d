"""Images of the plans, built and run by a real engine, with both builders."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from image_trees import BASE, plan, wheel

from vtrain.containers.discovery import EngineAddress
from vtrain.containers.engine import Engine
from vtrain.containers.images import find_image, remove_image
from vtrain.errors import ImageError, PackagingError
from vtrain.packaging.image_build import Made, make_image
from vtrain.packaging.image_plan import ImagePlan

pytestmark = pytest.mark.docker

PYPROJECT = '[build-system]\nrequires = ["setuptools>=70"]\nbuild-backend = "setuptools.build_meta"\n'
PROJECT = '[project]\nname = "tr"\nversion = "1"\n'
BUILDERS = pytest.mark.parametrize(
    "buildkit", ["1", pytest.param("0", marks=pytest.mark.pages)], ids=["buildkit", "classic"]
)


class Workbench:
    """Plans and builds images; removes them afterwards."""

    def __init__(self, address: EngineAddress) -> None:
        self.address = address
        self.lines: list[str] = []
        self.names: list[str] = []

    def make(self, made: ImagePlan, **options: Any) -> Made:
        self.names += [made.name, *options.get("tags", ())]
        self.lines.clear()
        return make_image(made, self.address, tell=self.lines.append, **options)

    def run(self, made: ImagePlan, *argv: str, user: str = "") -> str:
        """What a container of the image prints."""
        command = ["docker", "run", "--rm", "--network=none", *(["--user", user] if user else [])]
        done = subprocess.run([*command, made.name, *argv], capture_output=True, text=True, check=True)
        return done.stdout


@pytest.fixture
def bench(docker_engine: Engine, base_image: str) -> Iterator[Workbench]:
    bench = Workbench(docker_engine.address)
    yield bench
    for name in bench.names:
        remove_image(docker_engine, name)


@pytest.fixture
def unique() -> str:
    """A line that makes a trainer another one than those of all other tests."""
    return f"UNIQUE = '{uuid.uuid4().hex}'\n"


@BUILDERS
def test_everything_that_can_go_in_is_there(
    bench: Workbench, make_tree: Callable[..., Path], unique: str, monkeypatch, buildkit: str
) -> None:
    monkeypatch.setenv("DOCKER_BUILDKIT", buildkit)
    program = (
        "import sys, os, private, trainer.part\n"
        "data = open('data dir/it\\'s.txt').read()\n"
        "print(private.NAME, data, sys.argv[1:], os.getcwd(), os.environ['HOME'])\n"
    )
    tree: dict[str, str | bytes] = {
        "trainer/__init__.py": "",
        "trainer/part.py": unique,
        "trainer/task.py": program,
        "data dir/it's.txt": "data",
        ".gitignore": "data*\ndist\n",
        "dist/private-1-py3-none-any.whl": wheel("private", "NAME = 'private'\n"),
    }
    made = plan(
        make_tree(tree), extra_dirs=("data dir",), extra_packages=("dist/private-1-py3-none-any.whl",)
    )
    bench.make(made)
    assert bench.run(made, "--a=1", "b c") == "private data ['--a=1', 'b c'] /usr/app /home\n"
    assert bench.run(made, "x", user="1234") == "private data ['x'] /usr/app /home\n"


@pytest.mark.pages
@pytest.mark.network
def test_a_project_in_src_is_installed_on_its_dependencies_and_an_edit_builds_the_last_layers(
    bench: Workbench, make_tree: Callable[..., Path], unique: str
) -> None:
    task = "import six, attr, importlib.metadata\nprint(importlib.metadata.version('tr'), six.PY3)\n"
    tree = {
        "pyproject.toml": PYPROJECT + PROJECT + 'dependencies = ["six"]\n',
        "src/tr/__init__.py": "",
        "src/tr/task.py": task + unique,
        "requirements.txt": "attrs\n",
    }
    folder = make_tree(tree)
    first = plan(folder, python_module="tr.task")
    bench.make(first)
    assert bench.run(first) == "1 True\n"
    (folder / "src/tr/task.py").write_text(f"{task}print('edited')\n{unique}")
    second = plan(folder, python_module="tr.task")
    assert second.name != first.name
    assert bench.make(second).built
    assert bench.run(second) == "1 True\nedited\n"
    said = "\n".join(bench.lines)
    assert "Successfully installed tr-1" in said
    assert "Successfully installed six" not in said
    assert "Successfully installed attrs" not in said


@BUILDERS
@pytest.mark.pages
@pytest.mark.network
def test_a_setup_py_whose_dependencies_only_pip_can_tell(
    bench: Workbench, make_tree: Callable[..., Path], unique: str, monkeypatch, buildkit: str
) -> None:
    monkeypatch.setenv("DOCKER_BUILDKIT", buildkit)
    setup = (
        "from setuptools import find_packages, setup\n"
        "import trainer\n"
        "setup(name='t', version=trainer.VERSION, packages=find_packages(), install_requires=['s' + 'ix'])\n"
    )
    task = "import six, importlib.metadata\nprint(importlib.metadata.version('t'))\n"
    tree = {"setup.py": setup, "trainer/__init__.py": "VERSION = '7'\n", "trainer/task.py": task + unique}
    tree["setup.cfg"] = "[metadata]\nlicense = MIT\n"
    made = plan(make_tree(tree))
    bench.make(made)
    assert bench.run(made) == "7\n"


@pytest.mark.parametrize(
    ("script", "text", "expected"),
    [
        ("a b/it's $HOME.py", "import beside, sys; print(beside.X, sys.argv[1])", "1 arg\n"),
        ("sub/run.sh", 'echo "$1 in $PWD"', "arg in /usr/app\n"),
        ("a[1]*.py", "print('odd')", "odd\n"),
    ],
)
def test_scripts_of_any_name(
    bench: Workbench, make_tree, unique: str, script: str, text: str, expected: str
) -> None:
    folder = make_tree({script: text + "\n", f"{Path(script).parent}/beside.py": "X = 1\n" + unique})
    made = plan(folder, script=script)
    bench.make(made)
    assert bench.run(made, "arg") == expected


def test_an_unchanged_trainer_is_not_built_again(bench: Workbench, make_tree, unique: str) -> None:
    folder = make_tree({"task.py": unique})
    first = bench.make(plan(folder, python_module="task"))
    assert first.built
    second = bench.make(plan(folder, python_module="task"))
    assert (second.id, second.built) == (first.id, False)
    assert bench.lines == [f"Image {first.name}: cached."]


def test_further_names_are_given_also_when_nothing_is_built(
    bench: Workbench, make_tree, unique: str, docker_engine: Engine
) -> None:
    made = plan(make_tree({"task.py": unique}), python_module="task")
    bench.make(made)
    name = f"vtrain-test/{uuid.uuid4().hex}"
    again = bench.make(made, tags=(name,))
    image = find_image(docker_engine, name)
    assert not again.built
    assert image is not None
    assert image.id == again.id


def test_another_base_of_the_same_name_means_a_build(
    bench: Workbench, make_tree, unique: str, docker_engine: Engine
) -> None:
    base = f"vtrain-test/{uuid.uuid4().hex}:1"
    _own_base(docker_engine, bench, base, "ENV VERSION=1\nUSER 1234:1234\n")
    made = plan(
        make_tree({"task.py": "import os; print(os.environ['VERSION'], os.getuid())\n" + unique}),
        base,
        python_module="task",
    )
    first = bench.make(made)
    assert first.built
    assert bench.run(made) == "1 1234\n"
    assert not bench.make(made).built
    _own_base(docker_engine, bench, base, "ENV VERSION=2\n")
    assert bench.make(made).built
    assert bench.run(made) == "2 0\n"
    assert find_image(docker_engine, first.id) is None
    docker_engine.client.remove_image(base)
    assert not bench.make(made).built
    assert bench.run(made) == "2 0\n"


def _own_base(engine: Engine, bench: Workbench, name: str, lines: str) -> None:
    from vtrain.containers.build import BuildRequest, build_image

    request = BuildRequest(tags=(name,), dockerfile=f"FROM {BASE}\n{lines}")
    bench.names += [name, build_image(engine, request, bench.lines.append)]


@pytest.mark.pages
def test_a_base_whose_root_has_no_name(
    bench: Workbench, make_tree, unique: str, docker_engine: Engine
) -> None:
    base = f"vtrain-test/{uuid.uuid4().hex}:1"
    _own_base(docker_engine, bench, base, "RUN : > /etc/passwd\n")
    made = plan(
        make_tree({"task.py": "import os; print(os.getuid())\n" + unique}), base, python_module="task"
    )
    bench.make(made)
    assert bench.run(made) == "0\n"


def test_a_base_that_is_not_here_is_not_pulled_with_never(bench: Workbench, make_tree, unique: str) -> None:
    made = plan(make_tree({"task.py": unique}), "vtrain-test/absent:1", python_module="task")
    with pytest.raises(ImageError, match=r"vtrain-test/absent:1 is not here"):
        bench.make(made, pull="never")


def test_a_step_that_fails_is_told_with_its_last_lines(bench: Workbench, make_tree, unique: str) -> None:
    package = make_tree({"x": ""}) / "broken-1-py3-none-any.whl"
    package.write_bytes(wheel("other"))
    made = plan(
        make_tree({"task.py": unique}), python_module="task", extra_packages=("broken-1-py3-none-any.whl",)
    )
    with pytest.raises(ImageError, match=r"pip install") as failed:
        bench.make(made)
    assert "broken" in failed.value.message


def test_files_that_change_meanwhile_do_not_get_the_name(
    bench: Workbench, make_tree, unique: str, docker_engine: Engine
) -> None:
    folder = make_tree({"task.py": unique})
    made = plan(folder, python_module="task")
    (folder / "task.py").write_text("print('changed')\n")
    with pytest.raises(PackagingError, match=r"task\.py changed"):
        bench.make(made)
    assert find_image(docker_engine, made.name) is None


def test_an_own_dockerfile_is_built_with_the_folder(bench: Workbench, make_tree, unique: str) -> None:
    text = f'FROM {BASE}\nWORKDIR /srv\nCOPY . .\nENTRYPOINT ["sh", "-c", "ls -A; cat a"]\n'
    folder = make_tree({"Dockerfile": text, ".dockerignore": "b\n", "a": unique, "b": ""})
    made = plan(folder, "", dockerfile=folder / "Dockerfile")
    assert bench.make(made).built
    assert bench.run(made) == f".dockerignore\nDockerfile\na\n{unique}"
    assert not bench.make(made).built
