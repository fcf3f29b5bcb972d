"""Bare folders: written directly, reproducible, installable by what Vertex and the engine use."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtrain.errors import PackagingError, StorageError
from vtrain.packaging.archive import is_direct, read_metadata, unpack_direct
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource
from vtrain.uv_program import find_uv

TASK = "import sys\nfrom trainer.model import fit\nprint(fit(), sys.argv[1:])\n"
TREE: dict[str, str | bytes] = {
    "trainer/task.py": TASK,
    "trainer/model.py": "import pathlib\ndef fit():\n"
    "    return pathlib.Path(__file__).with_name('data').joinpath('my file.txt').read_text()\n",
    "trainer/data/my file.txt": "fitted",
    "trainer/run.sh": "echo hi\n",
}


def source(folder: Path, **given: object) -> TrainerSource:
    values: dict[str, object] = {"python_module": "trainer.task", **given}
    return TrainerSource(folder=folder, **values)  # type: ignore[arg-type]


def run_module(site: Path, *argv: str) -> str:
    line = [sys.executable, "-m", "trainer.task", *argv]
    environment = {"PYTHONPATH": str(site), "PATH": os.environ["PATH"]}
    return subprocess.run(line, env=environment, cwd=site, check=True, capture_output=True, text=True).stdout


def test_the_name_is_known_before_the_file_is_built(make_tree, tmp_path):
    plan = plan_sdist(source(make_tree(TREE)))
    assert plan.file_name == f"trainer-{plan.content_hash[:16]}.tar.gz"
    assert plan.python_module == "trainer.task"
    assert not plan.pep517
    assert plan.file_count == 4
    assert plan.byte_count == sum(len(text) for text in TREE.values())
    built = build_sdist(plan, tmp_path / "packages")
    assert built.sdist == tmp_path / "packages" / plan.content_hash / plan.file_name
    assert built.built


def test_the_same_tree_gives_the_same_bytes_whatever_its_path_times_and_owner(make_tree, tmp_path):
    first, second = make_tree(TREE, "a"), make_tree(dict(reversed(TREE.items())), "deep/er/b")
    for path in second.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
        path.chmod(0o700 if path.is_dir() else 0o600)
    one = build_sdist(plan_sdist(source(first)), tmp_path / "p1").sdist
    two = build_sdist(plan_sdist(source(second)), tmp_path / "p2").sdist
    assert one.name == two.name
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "trainer/model.py").write_text("def fit(): return 2\n"),
        lambda folder: (folder / "trainer/run.sh").chmod(0o755),
        lambda folder: (folder / "trainer/run.sh").rename(folder / "trainer/go.sh"),
        lambda folder: (folder / "requirements.txt").write_text("six\n"),
    ],
)
def test_whatever_goes_in_changes_the_hash(make_tree, change):
    folder = make_tree(TREE)
    before = plan_sdist(source(folder)).content_hash
    change(folder)
    assert plan_sdist(source(folder)).content_hash != before


def test_an_unchanged_tree_is_not_built_again(make_tree, tmp_path):
    folder, packages = make_tree(TREE), tmp_path / "packages"
    first = build_sdist(plan_sdist(source(folder)), packages)
    stamp = first.sdist.stat().st_mtime_ns
    again = build_sdist(plan_sdist(source(folder), packages_dir=packages), packages)
    assert (first.built, again.built) == (True, False)
    assert again.sdist.stat().st_mtime_ns == stamp
    assert [path.name for path in packages.iterdir()] == [first.sdist.parent.name]


def test_a_file_that_changes_after_the_plan_is_refused(make_tree, tmp_path):
    folder = make_tree(TREE)
    plan = plan_sdist(source(folder))
    (folder / "trainer/model.py").write_text("")
    with pytest.raises(PackagingError, match="changed while it was packed"):
        build_sdist(plan, tmp_path / "packages")
    assert list((tmp_path / "packages").iterdir()) == []


@pytest.mark.parametrize("has_project", [False, True])
def test_a_file_that_grows_is_packed_as_it_was_planned(make_tree, tmp_path, has_project):
    project = {"pyproject.toml": '[project]\nname = "t"\nversion = "1"\n'} if has_project else {}
    folder = make_tree({**TREE, **project, "trainer/run.log": "a line\n"})
    plan = plan_sdist(source(folder))
    with (folder / "trainer/run.log").open("a") as log:
        log.write("and another\n" * 9)
    with tarfile.open(build_sdist(plan, tmp_path / "packages").sdist) as archive:
        found = [member for member in archive.getmembers() if member.name.endswith("/run.log")]
    assert [member.size for member in found] == [7]


def test_a_packages_folder_that_cannot_be_made_is_a_storage_error(make_tree, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Cannot write the package"):
        build_sdist(plan_sdist(source(make_tree(TREE))), tmp_path / "file" / "packages")


def test_a_packages_folder_that_is_a_link_to_nothing_is_a_storage_error(make_tree, tmp_path):
    (tmp_path / "packages").symlink_to(tmp_path / "gone" / "packages")
    with pytest.raises(StorageError, match=r"Cannot write the package to .*/packages: File exists\."):
        build_sdist(plan_sdist(source(make_tree(TREE))), tmp_path / "packages")


def test_no_name_reads_as_a_version(make_tree):
    from packaging.version import InvalidVersion, Version

    folder = make_tree({"t.py": ""})
    for number in range(300):
        (folder / "t.py").write_text(f"x = {number}\n")
        plan = plan_sdist(source(folder, python_module="t"))
        with pytest.raises(InvalidVersion):
            Version(plan.content_hash[:16])


@pytest.mark.child
@pytest.mark.parametrize("isolation", [[], ["--no-build-isolation"]])
def test_pip_installs_it_without_network_and_it_runs(make_tree, tmp_path, isolation):
    folder = make_tree(TREE)
    (folder / "trainer/run.sh").chmod(0o755)
    sdist = build_sdist(plan_sdist(source(folder)), tmp_path / "packages").sdist
    site = tmp_path / "site"
    line = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", *isolation]
    subprocess.run([*line, "--target", str(site), str(sdist)], check=True)
    assert run_module(site, "a b", "--x=1") == "fitted ['a b', '--x=1']\n"
    assert os.access(site / "trainer/run.sh", os.X_OK)


@pytest.mark.child
def test_uv_installs_it_too(make_tree, tmp_path):
    sdist = build_sdist(plan_sdist(source(make_tree(TREE))), tmp_path / "packages").sdist
    site = tmp_path / "site"
    line = [find_uv(), "pip", "install", "--quiet", "--offline", "--no-index", "--python", sys.executable]
    environment = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([*line, "--target", str(site), str(sdist)], check=True, env=environment)
    assert run_module(site) == "fitted []\n"


@pytest.mark.child
def test_requirements_are_in_the_metadata_and_pip_asks_for_them(make_tree, tmp_path):
    folder = make_tree({**TREE, "requirements.txt": "scikit-learn>=1.3 ; python_version < '3'\n"})
    plan = plan_sdist(source(folder, requirements=("not-there-at-all==1",)))
    sdist = build_sdist(plan, tmp_path / "packages").sdist
    assert read_metadata(sdist).requires_dist == (
        "scikit-learn>=1.3 ; python_version < '3'",
        "not-there-at-all==1",
    )
    assert read_metadata(sdist).name == "trainer"
    line = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-index",
        "--target",
        str(tmp_path / "site"),
        str(sdist),
    ]
    environment = {**os.environ, "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    result = subprocess.run(line, capture_output=True, text=True, env=environment)
    assert result.returncode != 0
    told = result.stdout + result.stderr
    assert "No matching distribution found for not-there-at-all==1" in told and "scikit-learn" not in told


@pytest.mark.child
def test_unpacking_gives_what_pip_gives(make_tree, tmp_path):
    sdist = build_sdist(plan_sdist(source(make_tree(TREE))), tmp_path / "packages").sdist
    assert is_direct(sdist)
    unpack_direct(sdist, tmp_path / "site")
    assert run_module(tmp_path / "site") == "fitted []\n"
    metadata = next((tmp_path / "site").glob("trainer-*.dist-info/METADATA")).read_text()
    assert "Name: trainer\n" in metadata


@pytest.mark.parametrize("name", ["t-1/site/../../evil.py", "/t-1/site/evil.py", "t-1/../../evil.py"])
def test_an_archive_that_leads_out_of_its_folder_is_refused(tmp_path, name):
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo(name)
        info.size = 1
        tar.addfile(info, io.BytesIO(b"x"))
    with pytest.raises(PackagingError, match="evil"):
        unpack_direct(tmp_path / "t.tar.gz", tmp_path / "site" / "deep")
    assert not list(tmp_path.rglob("evil.py"))


def test_an_archive_with_a_link_is_refused(tmp_path):
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("t-1/site/link")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(info)
    with pytest.raises(PackagingError, match="link"):
        unpack_direct(tmp_path / "t.tar.gz", tmp_path / "site")


def test_other_archives_are_not_direct(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(b"no archive")
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("b-1/PKG-INFO"))
    assert not is_direct(tmp_path / "a.tar.gz")
    assert not is_direct(tmp_path / "b.tar.gz")
    assert not is_direct(tmp_path / "missing.whl")


def test_extra_packages_are_staged_beside_the_sdist(make_tree, tmp_path):
    folder = make_tree(TREE)
    wheel = folder / "dist/private_kit-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("kit/__init__.py", "")
        archive.writestr(
            "private_kit-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: private-kit\nVersion: 1.0\nRequires-Dist: six\n",
        )
    given = "dist/private_kit-1.0-py3-none-any.whl"
    plan = plan_sdist(source(folder, extra_packages=(given,)))
    built = build_sdist(plan, tmp_path / "packages")
    assert [path.name for path in built.extra_packages] == [wheel.name]
    assert built.extra_packages[0].read_bytes() == wheel.read_bytes()
    assert built.install_order == (*built.extra_packages, built.sdist)
    assert given not in {file.path for file in plan.files}
    assert read_metadata(wheel).requires_dist == ("six",)


def test_extra_dirs_go_in_although_they_are_ignored(make_tree):
    folder = make_tree({**TREE, "shared/a.py": "", "shared/b/c.txt": "", ".gitignore": "shared/\n"})
    assert "shared/a.py" not in {file.path for file in plan_sdist(source(folder)).files}
    plan = plan_sdist(source(folder, extra_dirs=("shared",)))
    assert {"shared/a.py", "shared/b/c.txt"} <= {file.path for file in plan.files}
    assert plan.left_out == ()


def test_the_trainer_never_takes_the_name_of_its_requirement(make_tree):
    folder = make_tree({"xgboost_job/task.py": ""})
    plan = plan_sdist(source(folder, python_module="xgboost_job.task", requirements=("XGBoost-Job",)))
    assert plan.file_name.startswith("xgboost-job-trainer-")


def test_a_large_package_is_reported_with_its_largest_files(make_tree):
    folder = make_tree(TREE)
    for number in range(7):
        with (folder / f"trainer/part{number}.bin").open("wb") as out:
            out.truncate((10 + number) * 1_000_000)
    (warning,) = plan_sdist(source(folder)).warnings
    assert warning.startswith("the package holds 91.0 MB") and ".vtrainignore" in warning
    assert "part6.bin (16.0 MB), trainer/part5.bin" in warning
    assert "part1.bin" not in warning


segment = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="/\x00"), min_size=1, max_size=12
).filter(lambda name: name not in (".", ".."))
trees = st.dictionaries(segment, st.binary(max_size=40), max_size=6)


@given(names=trees)
@settings(max_examples=12, deadline=None)
def test_any_tree_packs_to_the_same_bytes_and_unpacks_to_itself(tmp_path_factory, names):
    base = tmp_path_factory.mktemp("tree")
    outcomes = []
    for label, order in (("a", list(names)), ("b", list(reversed(names)))):
        folder = base / label
        (folder / "trainer").mkdir(parents=True)
        (folder / "trainer/task.py").write_text("")
        (folder / "trainer/deep").mkdir()
        for name in order:
            (folder / "trainer/deep" / name).write_bytes(names[name])
        plan = plan_sdist(source(folder))
        outcomes.append(build_sdist(plan, base / f"packages-{label}").sdist)
    assert outcomes[0].name == outcomes[1].name
    assert outcomes[0].read_bytes() == outcomes[1].read_bytes()
    unpack_direct(outcomes[0], base / "site")
    for file in plan.files:
        assert (base / "site" / file.path).read_bytes() == (base / "a" / file.path).read_bytes()
    shutil.rmtree(base)
