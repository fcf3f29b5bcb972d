"""A package that nothing can install is found out before it is sent to another machine."""

from __future__ import annotations

import msgspec
import pytest

from vtrain.core.submission import Place, package_and_stage
from vtrain.errors import PackagingError
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource
from vtrain.staging import LocalBuckets

pytestmark = pytest.mark.end_to_end

SETUP = "from setuptools import setup\nsetup(name='t', version='1', packages=['trainer']{more})\n"
READS = f"lines = open('deps.list').read().split()\n{SETUP.format(more=', install_requires=lines')}"
TRAINER = {"trainer/__init__.py": "", "trainer/task.py": ""}


def stage(folder, tmp_path, *, is_sent=True):
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    place = Place(home=home, buckets=LocalBuckets(home), staging_bucket=(tmp_path / "bucket").as_uri())
    (tmp_path / "bucket").mkdir(exist_ok=True)
    told: list[str] = []
    package = plan_sdist(TrainerSource(folder=folder, python_module="trainer.task"))
    place = msgspec.structs.replace(place, warn=told.append)
    package_and_stage(package, place, told.append, is_sent=is_sent)
    return told


def test_a_package_that_cannot_be_installed_is_never_sent(make_tree, tmp_path):
    folder = make_tree({"setup.py": READS, "deps.list": "six", **TRAINER})
    for _ in range(2):
        with pytest.raises(PackagingError, match=r"cannot be installed\.[\s\S]*deps\.list") as refusal:
            stage(folder, tmp_path)
        assert "MANIFEST.in" in refusal.value.hint
        assert list((tmp_path / "bucket").iterdir()) == []
    folder.joinpath("MANIFEST.in").write_text("include deps.list\n")
    assert any(line.startswith("Package ") for line in stage(folder, tmp_path))


def test_what_is_installed_on_this_machine_is_found_out_there(make_tree, tmp_path):
    folder = make_tree({"setup.py": READS, "deps.list": "six", **TRAINER})
    told = stage(folder, tmp_path, is_sent=False)
    assert "the folder's own build leaves out 1 of its files: deps.list" in told
    with pytest.raises(PackagingError, match="cannot be installed"):  # the package is there by now
        stage(folder, tmp_path)


def test_an_unchanged_package_is_checked_once(make_tree, tmp_path):
    asked = tmp_path / "asked"
    code = f"import sys\nif 'bdist_wheel' in sys.argv:\n    open({str(asked)!r}, 'a').write('x')\n"
    folder = make_tree({"setup.py": code + SETUP.format(more=""), **TRAINER})
    for _ in range(2):
        stage(folder, tmp_path)
    assert asked.read_text() == "x"


def test_metadata_that_names_a_path_of_this_machine_is_refused(make_tree, tmp_path):
    more = ", install_requires=['kit @ fi' + 'le:///tmp/kit']"
    with pytest.raises(PackagingError, match=r"kit @ file:///tmp/kit is a path on this machine"):
        stage(make_tree({"setup.py": SETUP.format(more=more), **TRAINER}), tmp_path)


def test_an_extra_package_that_cannot_be_installed_is_never_sent(make_tree, tmp_path):
    broken = make_tree({"setup.py": READS, "deps.list": "six", **TRAINER}, "broken")
    plan = plan_sdist(TrainerSource(folder=broken, python_module="trainer.task"))
    sdist = build_sdist(plan, tmp_path / "packages").sdist
    folder = make_tree({**TRAINER, "dist/t-1.tar.gz": sdist.read_bytes()}, "bare")
    package = plan_sdist(
        TrainerSource(folder=folder, python_module="trainer.task", extra_packages=("dist/t-1.tar.gz",))
    )
    place = Place(home=tmp_path / "home", buckets=LocalBuckets(tmp_path / "home"))
    with pytest.raises(PackagingError, match=r"t-1\.tar\.gz cannot be installed"):
        package_and_stage(package, place, [].append)


def test_without_build_requirements_one_line_says_that_nothing_was_checked(make_tree, tmp_path, monkeypatch):
    back_end = (
        "import os, tarfile, io\n"
        "def build_sdist(folder, settings=None):\n"
        "    name = 't-1.tar.gz'\n"
        "    with tarfile.open(os.path.join(folder, name), 'w:gz') as tar:\n"
        "        for file in ('pyproject.toml', 'own.py', 'trainer/task.py'):\n"
        "            tar.add(file, f't-1/{file}')\n"
        "    return name\n"
        "def get_requires_for_build_wheel(settings=None):\n    return ['no-such-tool-anywhere']\n"
    )
    system = '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
    for variable in ("PIP_NO_INDEX", "UV_NO_INDEX", "UV_OFFLINE"):
        monkeypatch.setenv(variable, "1")
    told = stage(make_tree({"pyproject.toml": system, "own.py": back_end, **TRAINER}), tmp_path)
    (warning,) = [line for line in told if "was not checked" in line]
    assert warning.startswith("It was not checked that trainer-")
    assert "no-such-tool-anywhere" in warning
