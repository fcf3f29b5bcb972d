"""Credentials of Google Cloud in a trainer's folder: left out and named, whatever makes the package of it."""

from __future__ import annotations

import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from vtrain.errors import PackagingError
from vtrain.packaging.credential_files import check_archive, kind_of
from vtrain.packaging.image_plan import plan_image
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource

PRIVATE = "-----BEGIN PRIVATE KEY-----NEVER-PACKED-----END PRIVATE KEY-----"
KEY = json.dumps({"type": "service_account", "project_id": "p", "private_key": PRIVATE}, indent=2)
USER = json.dumps({"type": "authorized_user", "client_id": "c", "refresh_token": "NEVER-PACKED"})
PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "digits"
version = "1"
"""
TREE = {
    "trainer/__init__.py": "",
    "trainer/task.py": "print(1)\n",
    "trainer/conf/sa.json": KEY,
    "trainer/conf/no-suffix": KEY,
    "adc.json": "\ufeff" + USER,
    "trainer/conf/other.json": '{"type": "service_account", "note": "private_key"}',
    ".vtrainignore": "!sa.json\n!trainer/conf/sa.json\n",
}
NAMES = ("adc.json", "trainer/conf/no-suffix", "trainer/conf/sa.json")


def write(folder: Path, tree: dict[str, str]) -> Path:
    for name, text in tree.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def source(folder: Path, **fields: Any) -> TrainerSource:
    return TrainerSource(folder=folder, **{"python_module": "trainer.task", **fields})


def content(archive: Path) -> bytes:
    with tarfile.open(archive) as tar:
        files = [tar.extractfile(member) for member in tar if member.isfile()]
        return b"".join(file.read() for file in files if file)


@pytest.mark.parametrize("project", [{}, {"pyproject.toml": PYPROJECT}])
def test_they_are_not_in_a_package(tmp_path: Path, project: dict[str, str]) -> None:
    plan = plan_sdist(source(write(tmp_path / "t", TREE | project)))
    assert set(NAMES) <= set(plan.left_out)
    assert [line for line in plan.warnings if line.startswith(NAMES)] == [
        "adc.json is left out: it is a user's credentials, and those are never packed",
        "trainer/conf/no-suffix is left out: it is a service-account key, and those are never packed",
        "trainer/conf/sa.json is left out: it is a service-account key, and those are never packed",
    ]
    packed = content(build_sdist(plan, tmp_path / "packages").sdist)
    assert b"NEVER-PACKED" not in packed and b"print(1)" in packed


def test_they_are_not_in_an_extra_folder(tmp_path: Path) -> None:
    folder = write(tmp_path / "t", TREE)
    plan = plan_sdist(source(folder, extra_dirs=("trainer/conf",)))
    assert b"NEVER-PACKED" not in content(build_sdist(plan, tmp_path / "packages").sdist)


def test_they_are_not_in_the_context_of_an_image(tmp_path: Path) -> None:
    folder = write(tmp_path / "t", TREE)
    plan = plan_image(source(folder), "python:3.11")
    assert not [file.name for file in plan.files if file.name.endswith(NAMES)]
    assert len([line for line in plan.warnings if "never packed" in line]) == 3


def test_they_are_not_in_the_context_of_an_own_dockerfile(tmp_path: Path) -> None:
    folder = write(tmp_path / "t", TREE | {"Dockerfile": "FROM python:3.11\nCOPY . /code\n"})
    own = TrainerSource(folder=folder)
    plan = plan_image(own, "", dockerfile=folder / "Dockerfile")
    assert set(NAMES).isdisjoint(file.name for file in plan.files)
    assert len([line for line in plan.warnings if "never packed" in line]) == 3
    with pytest.raises(PackagingError, match=r"There are credentials in the folder: adc\.json and 2"):
        plan_image(own, "", dockerfile=folder / "Dockerfile", strict=True)


def test_a_secret_in_an_own_dockerfile_is_warned_of(tmp_path: Path) -> None:
    lines = (
        "FROM a",
        "ENV A=1 \\\n  HF_TOKEN='x y'",
        "env DB_PASSWORD secret",
        "ENV PATH=/x API_KEY_FILE=/k",
    )
    text = "\n".join(lines) + "\n"
    folder = write(tmp_path / "t", {"Dockerfile": text})
    plan = plan_image(TrainerSource(folder=folder), "", dockerfile=folder / "Dockerfile")
    assert [line.split()[3].rstrip(",") for line in plan.warnings] == ["HF_TOKEN", "DB_PASSWORD"]


def test_with_strict_they_are_an_error(vtrain: Any, tmp_path: Path) -> None:
    folder = write(tmp_path / "t", TREE)
    words = (
        f"--local-package-path={folder}",
        "--python-module=trainer.task",
        f"--output-dir={tmp_path / 'out'}",
    )
    refused = vtrain("package", "sdist", *words, "--strict")
    assert refused.code == 1
    assert "There are credentials in the folder: adc.json and 2 more." in refused.err
    assert not (tmp_path / "out").exists()
    told = vtrain("package", "sdist", *words)
    assert told.code == 0 and told.err.count("never packed") == 3
    again = vtrain("package", "sdist", *words)
    assert again.err.count("never packed") == 3, "told although the package was there already"


def test_a_back_end_that_fetches_one_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text(KEY)
    fetch = f"import shutil, setuptools\nshutil.copy({str(elsewhere)!r}, 'trainer/own.json')\n"
    tree = TREE | {
        "pyproject.toml": PYPROJECT + '[tool.setuptools.package-data]\ntrainer = ["*.json"]\n',
        "setup.py": fetch + "setuptools.setup()\n",
    }
    plan = plan_sdist(source(write(tmp_path / "t", tree)))
    with pytest.raises(PackagingError, match=r"own build packs a service-account key: trainer/own\.json"):
        build_sdist(plan, tmp_path / "packages")
    assert not list((tmp_path / "packages").glob("*/*.tar.gz"))


def test_an_extra_package_with_one_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "t", TREE)
    with zipfile.ZipFile(folder / "x-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("x/key.json", KEY)
    with pytest.raises(PackagingError, match=r"x-1-py3-none-any\.whl holds a service-account key"):
        plan_sdist(source(folder, extra_packages=("x-1-py3-none-any.whl",)))
    with tarfile.open(tmp_path / "y-1.tar.gz", "w:gz") as tar:
        tar.add(folder / "adc.json", "y-1/adc.json")
    with pytest.raises(PackagingError, match=r"y-1\.tar\.gz holds a user's credentials"):
        check_archive(tmp_path / "y-1.tar.gz")


LISTED = '{"type": ["service_account"], "private_key": 1}'


@pytest.mark.parametrize("text", ["", "{", LISTED, "[1]", "\xff", "[" * 60_000])
def test_what_is_none_is_taken_for_none(text: str) -> None:
    assert kind_of(text.encode("latin-1") + b" service_account private_key") == ""
    assert kind_of(text.encode("latin-1")) == ""
