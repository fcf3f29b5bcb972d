"""Projects are built by their own back end, from a copy, and packed anew."""

from __future__ import annotations

import os
import tarfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from vtrain.errors import PackagingError
from vtrain.packaging.archive import is_direct, read_metadata
from vtrain.packaging.project import tool_versions
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource

pytestmark = pytest.mark.end_to_end

PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "my_digits"
version = "1.2"
dependencies = ["six"]
"""
TREE: dict[str, str | bytes] = {
    "pyproject.toml": PYPROJECT,
    "src/trainer/__init__.py": "",
    "src/trainer/task.py": "import six\n",
}


def source(folder, **given):
    return TrainerSource(folder=folder, **{"python_module": "trainer.task", **given})


def names(path):
    with tarfile.open(path) as tar:
        return [name.partition("/")[2] for name in tar.getnames()]


def test_a_src_layout_is_built_and_the_tree_stays_clean(make_tree, tmp_path):
    folder = make_tree(TREE)
    before = sorted(folder.rglob("*"))
    plan = plan_sdist(source(folder))
    assert plan.pep517
    assert plan.tool_versions
    assert plan.warnings == ()
    built = build_sdist(plan, tmp_path / "packages")
    assert built.sdist.name == f"my-digits-{plan.content_hash[:16]}.tar.gz"
    assert "src/trainer/task.py" in names(built.sdist)
    assert not is_direct(built.sdist)
    assert read_metadata(built.sdist).name in ("my_digits", "my-digits")
    assert read_metadata(built.sdist).requires_dist in (("six",), None)
    assert built.notes == () == built.extra_packages
    assert sorted(folder.rglob("*")) == before


def test_the_same_project_gives_the_same_bytes(make_tree, tmp_path):
    first, second = make_tree(TREE, "a"), make_tree(TREE, "b")
    for path in second.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    one = build_sdist(plan_sdist(source(first)), tmp_path / "p1").sdist
    two = build_sdist(plan_sdist(source(second)), tmp_path / "p2").sdist
    assert (one.name, one.read_bytes()) == (two.name, two.read_bytes())


def test_setup_py_alone_makes_a_project(make_tree, tmp_path):
    setup = "import setuptools\nsetuptools.setup(name='t', version='0.1', packages=['trainer'])\n"
    folder = make_tree(
        {"setup.py": setup, "trainer/__init__.py": "", "trainer/task.py": "", "trainer/x.csv": ""}
    )
    built = build_sdist(plan_sdist(source(folder)), tmp_path / "packages")
    assert "trainer/task.py" in names(built.sdist)
    assert built.notes == ("the folder's own build leaves out 1 of its files: trainer/x.csv",)
    again = build_sdist(plan_sdist(source(folder)), tmp_path / "packages")
    assert (again.built, again.notes) == (False, built.notes)


@pytest.mark.parametrize(
    ("reader", "note"),
    [
        ("trainer/task.py", ("the folder's own build leaves out 1 of its files: labels.txt",)),
        ("tests/test_it.py", ()),
    ],
)
def test_a_file_at_the_root_that_the_trainer_names_is_noted(make_tree, tmp_path, reader, note):
    setup = "import setuptools\nsetuptools.setup(name='t', version='0.1', packages=['trainer'])\n"
    files = {
        "setup.py": setup,
        "trainer/__init__.py": "",
        "trainer/task.py": "",
        "labels.txt": "",
        "Makefile": "",
    }
    folder = make_tree({**files, reader: "open('labels.txt')\n"})
    assert build_sdist(plan_sdist(source(folder)), tmp_path / "packages").notes == note


def test_tools_configuration_alone_makes_no_project(make_tree):
    folder = make_tree({"pyproject.toml": "[tool.ruff]\nline-length = 99\n", "trainer/task.py": ""})
    assert not plan_sdist(source(folder)).pep517


def test_what_metadata_of_a_project_lacks_travels_in_a_companion(make_tree, tmp_path):
    folder = make_tree({**TREE, "requirements.txt": "six\nattrs\n", "conf/a.yaml": "a"})
    plan = plan_sdist(source(folder, requirements=("idna",), extra_dirs=("conf",)))
    assert plan.requirements == ("six", "attrs", "idna")
    (companion,) = build_sdist(plan, tmp_path / "packages").extra_packages
    assert is_direct(companion)
    assert read_metadata(companion).name == "my-digits-extras"
    assert read_metadata(companion).requires_dist == ("attrs", "idna")
    assert "site/conf/a.yaml" in names(companion)


def test_a_build_that_fails_says_why(make_tree, tmp_path):
    folder = make_tree({"setup.py": "raise RuntimeError('no luck')\n", "trainer/task.py": ""})
    with pytest.raises(PackagingError, match="no luck") as refusal:
        build_sdist(plan_sdist(source(folder)), tmp_path / "packages")
    assert "python -m build" in refusal.value.hint
    assert list((tmp_path / "packages").iterdir()) == []


def test_a_build_that_leaves_out_the_entry_module_is_refused(make_tree, tmp_path):
    tree = {**TREE, "pyproject.toml": PYPROJECT + '[tool.setuptools]\npackages = ["other"]\n'
            'package-dir = {"" = "src"}\n', "src/other/__init__.py": ""}  # fmt: skip
    with pytest.raises(PackagingError, match=r"leaves out src/trainer/task\.py"):
        build_sdist(plan_sdist(source(make_tree(tree))), tmp_path / "packages")


def test_missing_build_requirements_mean_isolation():
    assert tool_versions(("setuptools",)) is not None
    assert tool_versions(("setuptools>=9999",)) is None
    assert tool_versions(("no-such-tool-anywhere",)) is None


@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize("change", ["written", "gone", "a folder"])
def test_a_file_that_changes_after_the_plan_is_never_packed_under_its_name(
    make_tree, tmp_path, project, change
):
    files = {**TREE, "requirements.txt": "six\n"}
    if not project:
        files = {name.removeprefix("src/"): text for name, text in files.items() if name != "pyproject.toml"}
    folder = make_tree(files)
    plan = plan_sdist(source(folder))
    task = folder / plan.entry.path
    if change == "written":
        task.write_text("import six as other\n")
    else:
        task.unlink()
    if change == "a folder":
        task.mkdir()
    with pytest.raises(PackagingError, match=r"task\.py changed while it was packed"):
        build_sdist(plan, tmp_path / "packages")
    assert not (tmp_path / "packages" / plan.content_hash).exists()


def in_tree_backend(make_tree, code):
    """A project whose back end is the given module of its own."""
    system = '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
    return source(make_tree({"pyproject.toml": system, "own.py": code, "trainer/task.py": ""}))


TOGETHER = """
import io, os, pathlib, tarfile, time
def build_sdist(folder, settings=None):
    pathlib.Path("PLACE", "NAME").touch()
    for _ in range(200):
        if len(os.listdir("PLACE")) == 2:
            break
        time.sleep(0.05)
    version = os.environ["PBR_VERSION"]
    name = f"own-{version}"
    with tarfile.open(f"{folder}/{name}.tar.gz", "w:gz") as tar:
        for path, text in (("PKG-INFO", f"Name: own\\nVersion: {version}\\n"), ("trainer/task.py", "")):
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return f"{name}.tar.gz"
"""


def test_two_threads_that_package_at_once_give_each_its_own_version(make_tree, tmp_path):
    """Tools that ask version control are told one by a variable, which is not this process's."""
    (tmp_path / "place").mkdir()
    system = (
        "[build-system]\nrequires = [\"pbr; python_version < '3'\"]\n"
        'build-backend = "own"\nbackend-path = ["."]\n'
    )
    plans = []
    for name in ("a", "b"):
        code = TOGETHER.replace("PLACE", str(tmp_path / "place")).replace("NAME", name)
        tree = {"pyproject.toml": system, "own.py": code, "trainer/task.py": ""}
        plans.append(plan_sdist(source(make_tree(tree, name))))
    with ThreadPoolExecutor(2) as pool:
        built = [*pool.map(lambda plan: build_sdist(plan, tmp_path / "packages"), plans)]
    for plan, made in zip(plans, built, strict=True):
        with tarfile.open(made.sdist) as tar:
            version = f"own-0+h{plan.content_hash[:16]}"
            assert {name.partition("/")[0] for name in tar.getnames()} == {version}
    assert "PBR_VERSION" not in os.environ


def test_build_requirements_that_cannot_be_had_are_no_crash(make_tree, tmp_path, monkeypatch):
    for variable in ("PIP_NO_INDEX", "UV_NO_INDEX", "UV_OFFLINE"):
        monkeypatch.setenv(variable, "1")
    text = PYPROJECT.replace('["setuptools"]', '["no-such-tool-anywhere"]')
    with pytest.raises(PackagingError, match=r"no-such-tool-anywhere") as refusal:
        build_sdist(plan_sdist(source(make_tree({**TREE, "pyproject.toml": text}))), tmp_path / "packages")
    assert refusal.value.message.startswith("The build requirements cannot be installed:")
    assert "beside vtrain" in refusal.value.hint


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def build_sdist(folder, settings=None):\n    return 'none.tar.gz'\n", "wrote no file none.tar.gz"),
        ("import os\ndef build_sdist(*_):\n    os._exit(3)\n", "Backend subprocess exited"),
        ("def build_sdist(*_):\n    print('x' * 10**7)\n    raise KeyError('no luck')\n", "no luck"),
    ],
)
def test_a_back_end_that_fails_in_its_own_way(make_tree, tmp_path, code, words):
    with pytest.raises(PackagingError, match=words) as refusal:
        build_sdist(plan_sdist(in_tree_backend(make_tree, code)), tmp_path / "packages")
    assert len(refusal.value.message) < 5000


def test_a_back_end_outside_of_the_folder_is_refused(make_tree, tmp_path):
    system = '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["../.."]\n'
    folder = make_tree({"pyproject.toml": system, "trainer/task.py": ""})
    with pytest.raises(PackagingError, match="paths must be inside source tree"):
        build_sdist(plan_sdist(source(folder)), tmp_path / "packages")
