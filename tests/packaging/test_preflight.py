"""What is refused or warned of before anything is built."""

from __future__ import annotations

import pytest

from vtrain.errors import PackagingError
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource

TREE: dict[str, str | bytes] = {"trainer/task.py": "", "trainer/model.py": ""}


def plan(folder, module="trainer.task", **given):
    options = {key: given.pop(key) for key in ("provided", "strict", "packages_dir") if key in given}
    return plan_sdist(TrainerSource(folder=folder, python_module=module, **given), **options)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("trainer.tsak", "The module trainer.tsak is not inside the package; the nearest is trainer.task"),
        ("trainer/task.py", "python-module takes a module, not a file: use trainer.task"),
        ("trainer.task.py", "use trainer.task"),
        ("trainer", "not inside the package"),
        ("train-er.task", "is not a name that Python can import"),
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


def test_a_syntax_error_in_the_entry_module(make_tree):
    with pytest.raises(PackagingError, match=r"^trainer/task\.py:2: "):
        plan(make_tree({"trainer/task.py": "x = 1\ndef f(:\n"}))


@pytest.mark.parametrize("given", [{"extra_packages": ("no.whl",)}, {"extra_dirs": ("no",)}])
def test_missing_extras(make_tree, given):
    with pytest.raises(PackagingError, match="There is no extra"):
        plan(make_tree(TREE), **given)


def test_an_extra_package_that_cannot_be_read_is_for_pip_to_judge(make_tree):
    folder = make_tree({**TREE, "trainer/task.py": "import yaml\n", "a.whl": "x", "b.tar.gz": "x"})
    (warning,) = plan(folder, extra_packages=("a.whl", "b.tar.gz")).warnings
    assert "the import `yaml`" in warning


def test_an_import_that_nothing_provides(make_tree):
    code = "import os\nfrom trainer import model\nimport yaml, numpy\n"
    folder = make_tree({"trainer/task.py": code, "trainer/model.py": "\nfrom sklearn.svm import SVC\n"})
    assert plan(folder, provided=frozenset({"numpy"})).warnings == (
        "trainer/task.py:3: nothing provides the import `yaml`; add pyyaml to requirements",
        "trainer/model.py:2: nothing provides the import `sklearn`; add scikit-learn to requirements",
    )
    assert plan(folder, requirements=("scikit-learn", "PyYAML")).warnings == ()
    with pytest.raises(PackagingError, match=r"yaml.*sklearn"):
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
    assert warning == "trainer/task.py:1: the package has no module `trainer.modle`"


def test_shared_namespaces(make_tree):
    folder = make_tree(
        {"trainer/task.py": "from google.cloud import storage\nimport google.cloud.bigquery\n"}
    )
    (warning,) = plan(folder, provided=frozenset({"google-cloud-storage"})).warnings
    assert "`google.cloud.bigquery`; add google-cloud-bigquery" in warning


def test_the_scan_is_skipped_when_the_package_is_there(make_tree, tmp_path):
    folder, packages = make_tree({"trainer/task.py": "import yaml\n"}), tmp_path / "packages"
    first = plan(folder, packages_dir=packages)
    assert len(first.warnings) == 1
    build_sdist(first, packages)
    assert plan(folder, packages_dir=packages).warnings == ()
    with pytest.raises(PackagingError):
        plan(folder, packages_dir=packages, strict=True)
