"""Files of the caches, each damaged at random: what reads them makes them again, or says so clearly."""

from __future__ import annotations

import random
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from lib.environment_packages import direct_sdist, sdist, wheel

from vtrain.errors import VtrainError
from vtrain.packaging.sdist import build_sdist, plan_sdist
from vtrain.packaging.source import TrainerSource
from vtrain.runtime.environments.environment import EnvironmentSpec, make_environment, plan_environment
from vtrain.staging import LocalBuckets

SEED = 20
Damage = Callable[[Path, random.Random], None]


def truncate(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(max(len(content), 1))])


def flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes() or b"\0")
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def empty(path: Path, chance: random.Random) -> None:
    path.write_bytes(b"")


def remove(path: Path, chance: random.Random) -> None:
    path.unlink()


def replace_by_folder(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.mkdir()
    if chance.random() < 0.5:
        (path / "file").write_bytes(b"x")


DAMAGES: tuple[Damage, ...] = (truncate, flip, empty, remove, replace_by_folder)


@pytest.fixture
def source_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "trainer-folder"
    (folder / "trainer").mkdir(parents=True)
    (folder / "trainer" / "__init__.py").touch()
    (folder / "trainer" / "task.py").write_text("print('whole')\n")
    wheel(folder, "own", "1.0")
    return folder


def contents(paths: tuple[Path, ...]) -> list[bytes]:
    return [path.read_bytes() for path in paths]


@pytest.mark.parametrize("damage", [remove, replace_by_folder])
def test_packages_that_are_gone_are_made_again(tmp_path: Path, source_folder: Path, damage: Damage) -> None:
    source = TrainerSource(
        folder=source_folder, python_module="trainer.task", extra_packages=("own-1.0-py3-none-any.whl",)
    )
    cache = tmp_path / "packages"
    plan = plan_sdist(source, packages_dir=cache)
    first = build_sdist(plan, cache).install_order
    whole = contents(first)
    for package in first:
        damage(package, random.Random(SEED))
        assert contents(build_sdist(plan_sdist(source, packages_dir=cache), cache).install_order) == whole
        assert not build_sdist(plan, cache).built
    assert [path.name for path in cache.iterdir()] == [plan.content_hash]


def test_a_folder_of_packages_that_is_a_file(tmp_path: Path, source_folder: Path) -> None:
    source = TrainerSource(folder=source_folder, python_module="trainer.task")
    plan = plan_sdist(source)
    build_sdist(plan, tmp_path)
    shutil.rmtree(tmp_path / plan.content_hash)
    (tmp_path / plan.content_hash).write_bytes(b"x")
    assert tarfile.is_tarfile(build_sdist(plan, tmp_path).sdist)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_staged_packages_are_staged_again(tmp_path: Path, damage: Damage) -> None:
    package = Path(direct_sdist(tmp_path / "given", "print(1)"))
    buckets = LocalBuckets(tmp_path / "home")
    uri = f"gs://bucket/folder/{package.name}"
    buckets.stage(package, uri)
    staged = buckets.local_path(uri)
    damage(staged, random.Random(SEED))
    if staged.is_dir():
        with pytest.raises(VtrainError, match=r"^Cannot stage .*: Is a directory\.") as refused:
            buckets.stage_all({package: uri}, lambda *_: None)
        assert "Remove" in refused.value.hint
        return
    assert buckets.stage(package, uri).written
    assert staged.read_bytes() == package.read_bytes()
    assert not buckets.stage(package, uri).written


@pytest.fixture
def wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place that installers look in."""
    folder = tmp_path / "wheelhouse"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    wheel(folder, "left")
    return folder


def trained(home: Path, *packages: str) -> str:
    """What a trainer prints in its environment."""
    spec = EnvironmentSpec(packages=packages)
    made = make_environment(plan_environment(spec, home), lambda _: None)
    argv = [made.python, "-m", "trainer.task"]
    ended = subprocess.run(argv, cwd=home, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("kind", ["direct", "built", "wheel"])
def test_a_damaged_package_of_a_job_is_named(tmp_path: Path, kind: str, damage: Damage) -> None:
    make = {"direct": direct_sdist, "built": sdist}.get(kind)
    folder = tmp_path / "given"
    path = Path(make(folder, "print('whole')") if make else wheel(folder, "left"))
    refused = 0
    for turn in range(4):
        copy = tmp_path / str(turn) / path.name
        copy.parent.mkdir()
        shutil.copyfile(path, copy)
        damage(copy, random.Random(SEED + turn))
        spec = EnvironmentSpec(packages=(str(copy),))
        try:
            make_environment(plan_environment(spec, tmp_path / "home"), lambda _: None)
        except VtrainError as error:
            assert path.name in error.message, error.message
            assert error.hint
            refused += 1
    assert refused > 0 or damage is flip  # some bits of an archive mean nothing


WRITES_BESIDE_ITSELF = """\
import pathlib, sys
import left
own = pathlib.Path(__file__).with_name("own.txt")
print("found", own.exists(), left.VERSION, flush=True)
own.write_text("of the first job")
"""


def test_no_job_sees_what_another_wrote_beside_its_own_modules(
    vtrain, wheelhouse: Path, tmp_path: Path
) -> None:
    """The trainer's own folder is a copy."""
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").touch()
    (tmp_path / "trainer" / "task.py").write_text(WRITES_BESIDE_ITSELF)
    (tmp_path / "requirements.txt").write_text("left\n")
    line = "custom-jobs local-run --backend=process --executor-image-uri=python:3.11".split()
    line += [f"--local-package-path={tmp_path}", "--python-module=trainer.task"]
    for _ in range(2):
        ended = vtrain(*line)
        assert (ended.code, ended.out) == (0, "found False 1.0\n"), ended.err


def test_commands_of_a_copy_start_its_own_interpreter(tmp_path: Path) -> None:
    package = wheel(tmp_path, "own", command=True)
    trainer = direct_sdist(tmp_path, "print('whole')")
    home = tmp_path / "home"
    spec = EnvironmentSpec(packages=(package, trainer))
    made = make_environment(plan_environment(spec, home), lambda _: None)
    copy = made.copied_to(tmp_path / "job")
    shutil.rmtree(Path(made.python).parents[1])
    command = Path(copy.path_entries[0]) / "own"
    told = subprocess.run([command], capture_output=True, text=True, check=True).stdout.strip()
    assert told == str(Path(copy.python).parents[1])
    assert Path(told).parent == tmp_path / "job"
