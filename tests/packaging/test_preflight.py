"""What is refused or warned of before anything is built."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from lib.environment_packages import wheel
from lib.pace import at_most

from vtrain.errors import PackagingError
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource

TREE: dict[str, str | bytes] = {"trainer/task.py": "", "trainer/model.py": ""}


def plan(folder, module="trainer.task", **given):
    options = {
        key: given.pop(key) for key in ("provided", "strict", "packages_dir", "other_python") if key in given
    }
    return plan_sdist(TrainerSource(folder=folder, python_module=module, **given), **options)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("trainer.tsak", "The module trainer.tsak is not inside the package; the nearest is trainer.task"),
        ("trainer/task.py", "python-module takes a module, not a file: use trainer.task"),
        ("trainer.task.py", "use trainer.task"),
        ("trainer", "not inside the package"),
        ("train-er.task", "The module train-er.task is not inside the package; the nearest is trainer.task"),
        ("trainer..task", "is not a name that Python can import"),
        ("trainer.task.", "is not a name that Python can import"),
        ("trainer\\task", "is not a name that Python can import"),
        ("trainer\n.task", "is not a name that Python can import"),
        (" ", "is not a name that Python can import"),
    ],
)
def test_an_entry_module_that_is_not_there(make_tree, module, words):
    with pytest.raises(PackagingError) as refusal:
        plan(make_tree(TREE), module)
    assert words in refusal.value.message


def test_the_folder_that_is_the_package_itself(make_tree):
    folder = make_tree(TREE)
    with pytest.raises(PackagingError, match="is the package trainer itself"):
        plan(folder / "trainer")


def test_an_entry_module_that_the_ignore_file_leaves_out(make_tree):
    folder = make_tree({**TREE, ".gitignore": "task.py\n"})
    with pytest.raises(PackagingError, match=r"trainer/task\.py is there, but \.gitignore leaves it out"):
        plan(folder)


def test_a_package_with_main_runs(make_tree):
    assert plan(make_tree({"trainer/__main__.py": ""}), "trainer").python_module == "trainer"


def test_empty_missing_and_wrong_folders(make_tree, tmp_path):
    with pytest.raises(PackagingError, match="holds nothing to pack"):
        plan(make_tree({}, "empty"))
    with pytest.raises(PackagingError, match="holds no Python module"):
        plan(make_tree({"a.txt": ""}, "text"))
    with pytest.raises(PackagingError, match="There is no folder"):
        plan(tmp_path / "nowhere")
    with pytest.raises(PackagingError, match="is not a folder"):
        plan(make_tree(TREE) / "trainer/task.py")


@pytest.mark.parametrize(
    ("code", "line", "excerpt"),
    [
        ("x = 1\ndef f(:\n", 2, ["    def f(:", "          ^"]),
        ("if 1:\n\tx = 'a' + (1 2)\n", 2, ["     x = 'a' + (1 2)", "                ^^^"]),
        ("x = [" + "1," * 500 + "1 2" + ",3" * 500 + "]", 1, []),
        ("x = '\x1b[2J' 2\n", 1, ["    x = ' [2J' 2", "               ^"]),
        ("# coding: nothing\n", 1, []),
        ("x = '\x00'\n", 1, []),
    ],
)
def test_a_syntax_error_in_the_entry_module(make_tree, monkeypatch, code, line, excerpt):
    folder = make_tree({"trainer/task.py": code})
    for place, path in ((folder, ""), (folder.parent, f"{folder.name}/"), (folder / "trainer", None)):
        monkeypatch.chdir(place)
        with pytest.raises(PackagingError) as refusal:
            plan(folder)
        first, *shown = refusal.value.message.split("\n")
        shown_path = "task.py" if path is None else f"{path}trainer/task.py"
        assert first.startswith(f"{shown_path}:{line}: ")
        assert shown == excerpt
        assert all(len(each) < 120 and each.isprintable() for each in shown)
    monkeypatch.chdir(make_tree({"trainer/task.py": "another file"}, "else"))
    with pytest.raises(PackagingError, match=f"^{folder}/trainer/task.py:{line}: "):
        plan(folder)


def test_a_syntax_error_is_a_warning_where_the_trainer_may_run_on_a_newer_python(make_tree):
    folder = make_tree({"trainer/task.py": "import yaml\ntype of tomorrow = int\n"})
    (warning,) = plan(folder, other_python=True, strict=True).warnings
    assert "task.py:2: invalid syntax." in warning
    assert warning.endswith("says so; the trainer's own may be newer.")


@pytest.mark.parametrize("given", [{"extra_packages": ("no.whl",)}, {"extra_dirs": ("no",)}])
def test_missing_extras(make_tree, given):
    with pytest.raises(PackagingError, match="There is no extra"):
        plan(make_tree(TREE), **given)


def test_an_extra_package_that_cannot_be_read_is_for_pip_to_judge(make_tree):
    folder = make_tree({**TREE, "trainer/task.py": "import yaml\n", "a.whl": "x", "b.tar.gz": "x"})
    (warning,) = plan(folder, extra_packages=("a.whl", "b.tar.gz")).warnings
    assert "the import `yaml`" in warning


def test_an_import_that_nothing_provides(make_tree, monkeypatch):
    code = "import os\nfrom trainer import model\nimport yaml, numpy\n"
    folder = make_tree({"trainer/task.py": code, "trainer/model.py": "\nfrom sklearn.svm import SVC\n"})
    monkeypatch.chdir(folder.parent)
    package = f"{folder.name}/trainer"
    assert plan(folder, provided=frozenset({"numpy"})).warnings == (
        f"{package}/task.py:3: nothing provides the import `yaml`; add pyyaml to requirements",
        f"{package}/model.py:2: nothing provides the import `sklearn`; add scikit-learn to requirements",
    )
    assert plan(folder, requirements=("scikit-learn", "PyYAML")).warnings == ()
    with pytest.raises(PackagingError, match=r"(?s)yaml.*\n.*sklearn"):
        plan(folder, provided=frozenset({"numpy"}), strict=True)


def test_only_imports_that_surely_run_count(make_tree):
    code = """
from __future__ import annotations
from typing import TYPE_CHECKING
import contextlib
if TYPE_CHECKING:
    import a1
try:
    import a2
except ImportError:
    a2 = None
with contextlib.suppress(ImportError):
    import a3
def main():
    import a4
try:
    import b1
finally:
    pass
class C:
    import b2
if __name__ == "__main__":
    import b3
"""
    warnings = plan(make_tree({"trainer/task.py": code})).warnings
    assert [warning.split("`")[1] for warning in warnings] == ["b1", "b2", "b3"]


def test_modules_that_the_entry_does_not_reach_do_not_count(make_tree):
    folder = make_tree({**TREE, "trainer/other.py": "import nothing_like_it\n"})
    assert plan(folder).warnings == ()


def test_a_module_of_the_package_that_is_not_there(make_tree):
    folder = make_tree({"trainer/task.py": "from .modle import fit\n", "trainer/model.py": ""})
    (warning,) = plan(folder).warnings
    assert warning == f"{folder}/trainer/task.py:1: the package has no module `trainer.modle`"


def test_shared_namespaces(make_tree):
    folder = make_tree(
        {"trainer/task.py": "from google.cloud import storage\nimport google.cloud.bigquery\n"}
    )
    (warning,) = plan(folder, provided=frozenset({"google-cloud-storage"})).warnings
    assert "`google.cloud.bigquery`; add google-cloud-bigquery" in warning


def test_the_same_is_told_when_the_package_is_there(make_tree, tmp_path):
    folder, packages = make_tree({"trainer/task.py": "import yaml\n"}), tmp_path / "packages"
    first = plan(folder, packages_dir=packages)
    assert len(first.warnings) == 1
    build_sdist(first, packages)
    assert plan(folder, packages_dir=packages).warnings == first.warnings
    with pytest.raises(PackagingError):
        plan(folder, packages_dir=packages, strict=True)


@pytest.mark.parametrize(
    ("statement", "advice"),
    [
        ("import model", "`model` is a module of trainer: write `from trainer import model`"),
        ("import model.layers", "`model` is a module of trainer: write `import trainer.model.layers`"),
        ("from model import fit, Net", "write `from trainer.model import fit, Net`"),
        (
            "import metrics",
            "`metrics` is a module of trainer.tools: write `from trainer.tools import metrics`",
        ),
    ],
)
def test_a_sibling_is_named_and_no_stranger(make_tree, statement, advice):
    tree = {"trainer/task.py": statement, "trainer/model/layers.py": "", "trainer/tools/metrics.py": ""}
    (warning,) = plan(make_tree({**tree, "trainer/model/__init__.py": ""})).warnings
    assert advice in warning
    assert "requirements" not in warning


@pytest.mark.parametrize(
    ("statement", "advice"),
    [
        ("import hydra", "add hydra-core to"),
        ("import numpy", "add numpy to"),
        ("import google.cloud.storage", "add google-cloud-storage to"),
        ("import google.cloud.nothing_known", "add the distribution that brings it to"),
        ("import fourier_of_mine", "add the distribution that brings it to"),
    ],
)
def test_a_distribution_is_named_only_where_it_is_known(make_tree, statement, advice):
    (warning,) = plan(make_tree({"trainer/task.py": statement})).warnings
    assert advice in warning


@pytest.mark.parametrize(
    ("statement", "requirement"),
    [
        ("import hydra", "hydra-core>=1.3"),
        ("from pytorch_lightning import Trainer", "lightning"),
        ("import fourier", "Fourier_Core==2"),
        ("import fourier.plans", "python-fourier @ git+https://example.test/fourier.git"),
    ],
)
def test_a_requirement_of_another_name_is_trusted(make_tree, statement, requirement):
    folder = make_tree({"trainer/task.py": statement})
    assert plan(folder, requirements=(requirement,), strict=True).warnings == ()


def test_a_known_import_is_not_brought_by_a_name_like_it(make_tree):
    (warning,) = plan(
        make_tree({"trainer/task.py": "import torch"}), requirements=("torch-geometric",)
    ).warnings
    assert "add torch to requirements" in warning


def test_what_is_installed_beside_vtrain_decides_nothing(make_tree):
    """pytest is: its metadata names it, but does not tell that `mine-pytest-mine` fails to bring it."""
    folder = make_tree({"trainer/task.py": "import pytest"})
    assert plan(folder, requirements=("mine-pytest-mine",)).warnings == ()


CHAIN = 200_000 if sys.version_info >= (3, 11) else 5000  # on a longer one Python 3.10 itself crashes


@pytest.mark.parametrize("code", ["x = " + "-" * 200_000 + "1", "x = " + "(" * 5000, "x" + ".y" * CHAIN])
def test_a_file_that_is_nested_too_deeply_is_no_crash(make_tree, code):
    """As the entry it is refused, unless Python can read it; elsewhere it imports nothing."""
    tree = {"trainer/task.py": "import trainer.deep, yaml", "trainer/deep.py": code}
    (warning,) = plan(make_tree(tree)).warnings
    assert "`yaml`" in warning
    folder = make_tree({"trainer/task.py": code}, "entry")
    try:
        ast.parse(code)
    except (SyntaxError, MemoryError, RecursionError):
        with pytest.raises(PackagingError, match=r"/trainer/task\.py:1: "):
            plan(folder)
    else:
        plan(folder)


def test_a_hostile_tree_is_read_in_linear_time(make_tree):
    """Each part grew with the square of the tree, or with what is installed beside vtrain."""
    imports = "".join(f"import m{i}, trainer.f{i % 50}\nfrom .f1 import m{i}\n" for i in range(5000))
    long = "from " + "a." * 2000 + "b import " + ", ".join(f"c{i}" for i in range(20_000)) + "\n"
    tree = {f"trainer/f{i}.py": "import trainer.task\n" for i in range(100)}
    folder = make_tree({**tree, "trainer/task.py": imports + long})
    with at_most(10):
        assert len(plan(folder, requirements=("lib-m-1",)).warnings) == 100


@pytest.mark.parametrize("coding", ["hex", "rot13", "undefined", "none-such"])
def test_a_coding_that_python_cannot_read_is_refused(make_tree, coding):
    code = f"# coding: {coding}\nimport os\n"
    with pytest.raises(PackagingError, match=r"trainer/task\.py:1: .*(encoding|codec)"):
        plan(make_tree({"trainer/task.py": code}))


def test_modules_that_python_brings_without_listing_them(make_tree):
    folder = make_tree({"trainer/task.py": "import __main__\nimport test.support\n"})
    assert plan(folder).warnings == ()


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("from .model import f", "model"),
        ("from . import model, data", "model"),
        ("from ..kit import f", "kit"),
    ],
)
def test_a_script_has_no_package_to_import_from(make_tree, statement, names):
    files = {
        "trainer/train.py": f"{statement}\n",
        "trainer/model.py": "",
        "trainer/data.py": "",
        "kit.py": "",
    }
    source = TrainerSource(folder=make_tree(files), script="trainer/train.py")
    warning = next(iter(plan_sdist(source).warnings))
    assert f"trainer/train.py:1: a script belongs to no package: import `{names}` without dots" in warning
    with pytest.raises(PackagingError, match="belongs to no package"):
        plan_sdist(source, strict=True)


def test_a_module_may_import_from_its_package(make_tree):
    assert (
        plan(make_tree({"trainer/task.py": "from . import model\n", "trainer/model.py": ""})).warnings == ()
    )


@pytest.mark.parametrize(
    ("requirement", "brings"),
    [
        ("hypertune", "cloudml-hypertune"),
        ("SKLearn>=0", "scikit-learn"),
        ("yaml", "pyyaml"),
        ("cv2", "opencv-python"),
        ("pil", "pillow"),
        ("google.cloud.storage", ""),
        ("lightning", ""),
        ("tensorboardX", ""),
        ("numpy", ""),
    ],
)
@pytest.mark.parametrize(
    "provided", [frozenset(), frozenset(["cloudml-hypertune", "scikit-learn", "pyyaml"])]
)
def test_a_requirement_called_like_an_import_that_another_distribution_brings(
    make_tree, requirement, brings, provided
):
    warnings = plan(make_tree(TREE), requirements=(requirement,), provided=provided).warnings
    assert len(warnings) == bool(brings)
    if brings:
        assert f"is another distribution than {brings}, which brings `" in warnings[0]
        with pytest.raises(PackagingError, match="another distribution"):
            plan(make_tree(TREE), requirements=(requirement,), provided=provided, strict=True)


def test_a_missing_import_is_said_once_also_where_a_requirement_has_its_name(make_tree):
    folder = make_tree({**TREE, "trainer/task.py": "import yaml\n"})
    (warning,) = plan(folder, requirements=("yaml",), provided=frozenset()).warnings
    assert "add pyyaml" in warning


@pytest.mark.child
def test_a_name_that_a_build_leaves_out_gets_the_flag_that_runs_it(make_tree, tmp_path):
    setup = "from setuptools import setup\nsetup(name='x', packages=['other'])\n"
    folder = make_tree(
        {"setup.py": setup, "01-first/__init__.py": "", "01-first/train.py": "", "other/__init__.py": ""}
    )
    with pytest.raises(PackagingError, match=r"leaves out 01-first/train\.py, the entry module") as refused:
        build_sdist(plan(folder, "01-first.train"), tmp_path / "out")
    assert "Give --script=01-first/train.py, or rename it." in refused.value.hint
    found = setup.replace("['other']", "__import__('setuptools').find_packages()")
    (folder / "setup.py").write_text(found)
    assert build_sdist(plan(folder, "01-first.train"), tmp_path / "out").built


@pytest.mark.parametrize(
    ("statement", "requirement", "advice"),
    [
        ("import omegaconf", "hydra-core>=1.3", "omegaconf"),
        ("import torch", "stable-baselines3", "torch"),
        ("import click", "typer", "click"),
        ("import pandas", "mlflow==2.*", "pandas"),
        ("import yaml", "my-private-lib", "pyyaml"),
        (
            "import accelerate",
            "transformers[torch]",
            "accelerate",
        ),  # an extra brings more than the tables say
        ("import pandas", "kit @ https://example.test/kit.zip", "pandas"),
    ],
)
def test_a_requirement_may_bring_what_is_not_known_of_it(make_tree, statement, requirement, advice):
    folder = make_tree({"trainer/task.py": statement})
    (warning,) = plan(folder, requirements=("numpy", requirement), strict=True).warnings
    top = statement.removeprefix("import ")
    words = f"no requirement is known to bring the import `{top}`; if none does, add {advice} to requirements"
    assert warning.endswith(words)


def test_where_all_requirements_are_known_an_import_is_surely_missing(make_tree):
    folder = make_tree({"trainer/task.py": "import yaml"})
    known = ("numpy>=1", "scikit-learn", "requests ; python_version>'3'", "six")
    with pytest.raises(PackagingError, match="nothing provides the import `yaml`; add pyyaml"):
        plan(folder, requirements=known, strict=True)
    # A module of the trainer's own is no requirement's.
    folder = make_tree({"trainer/task.py": "import model", "trainer/model.py": ""})
    with pytest.raises(PackagingError, match="is a module of trainer"):
        plan(folder, requirements=("mlflow",), strict=True)


def test_an_extra_package_may_bring_what_it_does_not_tell(make_tree, tmp_path):
    folder = make_tree({"trainer/task.py": "import yaml", "kit-1.tar.gz": "x"})
    (warning,) = plan(folder, extra_packages=("kit-1.tar.gz",), strict=True).warnings
    assert "no requirement is known to bring the import `yaml`" in warning
    kit = wheel(tmp_path / "project", "my_kit", requirements=("numpy",))
    given = {"extra_packages": (Path(kit).name,), "requirements": ("my-kit",), "strict": True}
    with pytest.raises(PackagingError, match="nothing provides the import `yaml`"):  # a wheel tells all
        plan(folder, **given)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "tabulate.py",
            "tabulate.py has the name of the requirement tabulate, and one hides the other; rename it",
        ),
        ("yaml.py", "yaml.py has the name of the requirement pyyaml, and one hides the other; rename it"),
        ("random.py", "random.py has the name of a module of Python, and one hides the other; rename it"),
    ],
)
def test_a_script_that_hides_what_it_imports(make_tree, name, words):
    folder = make_tree({name: "import tabulate, yaml, random\n", "requirements.txt": "tabulate\nPyYAML>=6\n"})
    assert plan(folder, "", script=name).warnings == (words,)


@pytest.mark.parametrize("beside", ["random.py", "random/__init__.py", "tabulate/__init__.py"])
def test_a_module_beside_the_entry_hides_as_well(make_tree, beside):
    files = {"train.py": "", "pkg/train.py": "", beside: ""}
    folder = make_tree({**files, "requirements.txt": "tabulate\n"})
    for given in ({"script": "train.py"}, {"python_module": "pkg.train"}):
        (warning,) = plan_sdist(TrainerSource(folder=folder, **given)).warnings
        assert warning.startswith(f"{beside} has the name of ")
    assert plan_sdist(TrainerSource(folder=folder, script="pkg/train.py")).warnings == ()


def test_a_script_called_like_a_framework_that_it_imports(make_tree):
    folder = make_tree({"torch.py": "import torch\n", "ray.py": "print(1)\n"})
    there = frozenset({"torch", "ray"})
    (warning,) = plan(folder, "", script="torch.py", provided=there).warnings
    assert warning.startswith("torch.py has the name of the requirement torch, ")
    assert plan(folder, "", script="ray.py", provided=there).warnings == ()


@pytest.mark.parametrize("name", ["train.py", "test/a.py", "random/a.txt", "pkg/random.py", "setup.py"])
def test_names_that_hide_nothing(make_tree, name):
    assert plan(make_tree({"main.py": "", name: ""}), "", script="main.py").warnings == ()


def test_the_imports_of_one_file_are_one_warning(make_tree):
    text = "import sklearn\nimport yaml, nowhere_at_all\nfrom sklearn.svm import SVC\nimport PIL\n"
    folder = make_tree({"train.py": text, "other.py": "import cv2\n"})
    first, second = plan(folder, "", script="train.py").warnings
    assert first.endswith(
        "train.py:1: nothing provides the imports `sklearn`, `yaml`, `PIL`; "
        "add scikit-learn,pyyaml,pillow to requirements"
    )
    assert "train.py:2: nothing provides the import `nowhere_at_all`" in second


def test_a_variable_in_a_dependency_of_the_project(make_tree):
    dependency = 'dependencies = ["kit @ git+https://${TOKEN}@example.com/kit.git"]'
    folder = make_tree({**TREE, "pyproject.toml": f'[project]\nname = "a"\nversion = "1"\n{dependency}\n'})
    (warning,) = plan(folder).warnings
    assert warning.startswith("the project's dependencies: ${TOKEN} is replaced on this machine alone")
