"""The sdist and the wheel of vtrain: built, checked, compared, and the wheel used in a fresh environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

import vtrain

pytestmark = [pytest.mark.build, pytest.mark.network]

ROOT = Path(__file__).parents[1]
SOURCES = (".ci", "vtrain", "docs", "tests", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml")
REPOSITORY = "https://example.com/somebody/vtrain"
TAG = f"v{vtrain.__version__}"


def run(*argv: str | Path, cwd: Path) -> str:
    ended = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources: a build leaves folders behind, and takes what earlier ones have left."""
    copy = tmp_path_factory.mktemp("tree")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy)
    return copy


@pytest.fixture(scope="module")
def distributions(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, and the wheel that is built from it: the two files of a release."""
    folder = tmp_path_factory.mktemp("distributions")
    run(sys.executable, "-m", "build", "--outdir", folder, tree, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    (path,) = distributions.glob("*.whl")
    return path


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_index_would_take_and_show_them(distributions: Path) -> None:
    paths = sorted(distributions.iterdir())
    assert [path.name.partition("-")[0] for path in paths] == ["vtrain", "vtrain"]
    run(sys.executable, "-m", "twine", "check", "--strict", *paths, cwd=distributions)


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path, tree: Path) -> None:
    names = set(contents(wheel))
    package = {path.relative_to(tree).as_posix() for path in (tree / "vtrain").rglob("*") if path.is_file()}
    assert {name for name in names if ".dist-info/" not in name} == package
    assert "vtrain/py.typed" in package
    assert "vtrain/pages/how-to/tune.md" in package
    assert any("/payload/" in name for name in package)
    assert {PurePosixPath(name).name for name in names - package} >= {
        "LICENSE",
        "METADATA",
        "entry_points.txt",
    }


def test_the_sdist_builds_the_wheel_that_the_tree_builds(wheel: Path, tree: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, tree, cwd=tmp_path)
    (of_the_tree,) = tmp_path.glob("*.whl")
    assert of_the_tree.name == wheel.name
    assert contents(of_the_tree) == contents(wheel)


def test_the_sdist_has_no_part_of_the_tests(distributions: Path) -> None:
    (path,) = distributions.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        tops = {PurePosixPath(name).parts[1] for name in archive.getnames() if "/" in name}
    assert {"vtrain", "pyproject.toml", "README.md", "LICENSE"} <= tops
    assert "tests" not in tops


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_each_file_runs_a_job_in_a_fresh_environment(
    distributions: Path, kind: str, version: str, tmp_path: Path, own_home: Path
) -> None:
    """The README's main job, but with a trainer that needs no package."""
    environment = tmp_path / "environment"
    uv = Path(sys.executable).with_name("uv")
    made = subprocess.run(
        [uv, "venv", "-q", "--no-python-downloads", "--python", version, environment],
        env=os.environ | {"UV_PYTHON_PREFERENCE": "system"},
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"this machine has no Python {version}")
    (path,) = distributions.glob(kind)
    run(uv, "pip", "install", "-q", "--python", environment / "bin" / "python", path, cwd=tmp_path)
    trainer = tmp_path / "trainer"
    trainer.mkdir()
    (trainer / "train.py").write_text(
        "import json, os\nprint(json.dumps([6 * 7, os.environ['AIP_MODEL_DIR']]))\n"
    )
    argv = [environment / "bin" / "vtrain", "custom-jobs", "local-run", "--backend=process"]
    out = run(*argv, f"--local-package-path={trainer}", "--script=train.py", cwd=tmp_path)
    answer, model_folder = json.loads(out)
    assert answer == 42
    assert Path(model_folder).is_relative_to(own_home)
    assert Path(os.environ["HOME"]) == own_home


def prepared(tree: Path, to: Path, tag: str) -> subprocess.CompletedProcess[str]:
    """A copy of the sources, as the workflow of releases prepares it."""
    shutil.copytree(tree, to, dirs_exist_ok=True)
    argv = [sys.executable, to / ".ci" / "prepare-release", tag, REPOSITORY]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_a_release_has_addresses_and_links_that_hold_on_an_index(tree: Path, tmp_path: Path) -> None:
    ended = prepared(tree, tmp_path / "release", TAG)
    assert ended.returncode == 0, ended.stderr
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, tmp_path / "release", cwd=tmp_path)
    (path,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", path, cwd=tmp_path)
    (metadata,) = (text.decode() for name, text in contents(path).items() if name.endswith("/METADATA"))
    assert f"Project-URL: Issues, {REPOSITORY}/issues" in metadata
    targets = re.findall(r"\]\(([^)]+)\)", metadata)
    assert all(re.match("https?://|#", target) for target in targets), targets
    of_files = [target for target in targets if target.startswith(f"{REPOSITORY}/")]
    paths = [target.split("/", 7)[7] for target in of_files]
    assert len(paths) > 5 and all((tree / path).exists() for path in paths if path.startswith("docs/"))
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", metadata)
    assert pictures and all("/raw/v" in picture for picture in pictures)


def test_a_release_is_refused_for_another_tag_and_for_a_fragment_that_is_left(
    tree: Path, tmp_path: Path
) -> None:
    ended = prepared(tree, tmp_path / "other", "v99.0.0")
    assert ended.returncode == 1
    assert "vtrain/__init__.py does not say version 99.0.0." in ended.stderr
    assert "docs/changelog.md has no section with a date for 99.0.0" in ended.stderr
    (tmp_path / "left" / ".changes").mkdir(parents=True)
    (tmp_path / "left" / ".changes" / "queue.fixed.md").write_text("The queue is fair.\n")
    ended = prepared(tree, tmp_path / "left", TAG)
    assert ended.returncode == 1
    assert "queue.fixed.md" in ended.stderr
